"""Indices that are data, in proofs: they are in range where the left side runs, and only there."""

from __future__ import annotations

import pytest

from superopt.ir.dim import DataIndex, Dim, evaluate, symbol, symbols_of
from superopt.ir.notation import parse_rule
from superopt.ops.algebra import Guard, at_least, below
from verify.proof_book import prove_at
from verify.prove.facts import Facts
from verify.prove.prover import prove
from verify.stability.analysis import stability
from verify.verdict import Proved

P, N = symbol("p"), symbol("n")


def _index(tensor: str, place: Dim, size: Dim) -> Dim:
    return Dim((((DataIndex(tensor, (place,), size),), 1),))


@pytest.mark.parametrize(
    "line",
    [
        "Gather[axis=0, indices=2](Lookup[axis=0](x, i)) = Lookup[axis=0](x, Gather[axis=0, indices=2](i))"
        " @ x[_,_] i:int64[_]",
        "Lookup[axis=0](Lookup[axis=0](x, i), j) = Lookup[axis=0](x, Lookup[axis=0](i, j))"
        " @ x[_,_] i:int64[_] j:int64[_]",
        "Slice[axes=[0], starts=[0], ends=[2], steps=[1]](Lookup[axis=0](x, i)) = "
        "Lookup[axis=0](x, Slice[axes=[0], starts=[0], ends=[2], steps=[1]](i)) @ x[_,_] i:int64[_]",
        "Lookup[axis=0](x, i) = Expand[shape=i.shape](x) @ x[1] i:int64[_]",
    ],
)
def test_fewer_lookups_fail_less_often(line: str) -> None:
    """The left side may stop the run at an index that the right side does not read, never the other way round."""
    rule = parse_rule(line)
    left, right = rule.instantiate(rule.signatures[0])
    proof = prove(left, right)
    assert isinstance(proof, Proved) and proof.defined_left
    assert not isinstance(prove(right, left), Proved)


@pytest.mark.parametrize(
    ("line", "numerics", "forward"),
    [
        ("Relu(Lookup[axis=0](x, i)) = Lookup[axis=0](Relu(x), i) @ x[_,_] i:int64[_,_]", "exact", "exact"),
        (
            "MatMul(Lookup[axis=0](w, i), p) = Lookup[axis=0](MatMul(w, p), i) @ w[_,_] p[_,_] i:int64[_,_]",
            "reassociating",
            "stable(1)",
        ),
        (
            "LayerNormalization[axis=-1, epsilon=e](Lookup[axis=0](w, i), g, b) = "
            "Lookup[axis=0](LayerNormalization[axis=-1, epsilon=e](w, g, b), i) @ w[_,_] g[_] b[_] i:int32[_,_] e=*",
            "reassociating",
            "stable(1)",
        ),
    ],
)
def test_lookups_of_computed_tables_round_alike(line: str, numerics: str, forward: str) -> None:
    rule = parse_rule(line)
    proof = prove_at(rule, rule.signatures[0])
    assert isinstance(proof, Proved) and proof.numerics == numerics
    assert str(stability(rule, rule.signatures[0], proof)[0]) == forward


def test_an_index_moves_with_its_place() -> None:
    index = _index("i", P, N)
    assert symbols_of(index) == {"p", "n"}
    assert evaluate(index, {"p": symbol("q") + 1}) == _index("i", symbol("q") + 1, N)
    assert index != _index("j", P, N) and index != _index("i", P, N + 1)


def test_an_index_is_in_range_and_nothing_else_is_known_of_it() -> None:
    facts = Facts([at_least(N, 1), at_least(P, 0)])
    index, other = _index("i", P, N), _index("i", P + 1, N)
    assert facts.entails(at_least(index, 0)) and facts.entails(below(index, N))
    assert not facts.entails(at_least(index, 1)) and not facts.entails(below(index, N - 1))
    assert not facts.entails(Guard("==", index - other)) and not facts.refutes(Guard("==", index - other))
    assert not facts.extended([Guard("==", index - other)]).entails(at_least(index, 1))
