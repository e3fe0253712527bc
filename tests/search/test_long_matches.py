"""Rules with long left sides are applied all over a model, also where they reach into values that all of it shares."""

from __future__ import annotations

import numpy as np

from superopt.evaluate import evaluate
from superopt.ir.infer import make
from superopt.ir.notation import parse_rule
from superopt.ir.term import Term, topological, var
from superopt.ir.types import tensor
from superopt.search import AnalyticCost, search
from superopt.search.strategy.long_matches import LongMatches
from tests.support.search_rules import believe

_HALVES = "Concat[axis=-1](Neg(Split[axis=-1, split=[4, 4]](x).1), Split[axis=-1, split=[4, 4]](x).0)"
_BOTH = "Unsqueeze[axes=[-3]]({}(Concat[axis=-1](f, f)))"
ROTATION = parse_rule(
    f"Add(Mul(x, {_BOTH.format('Cos')}), Mul({_HALVES}, {_BOTH.format('Sin')}))"
    " = RotaryEmbedding[interleaved=0, num_heads=0](x, Cos(f), Sin(f)) @ x[_,_,_,8] f[_,_,4]"
)
_HEADS, _LENGTH, _SIZE = 2, 16, 8
_ROWS = tensor(1, _HEADS, _LENGTH, _SIZE)


def weight(name: str) -> Term:
    return Term.of("Const", (), {"hash": name}, (tensor(_SIZE, _SIZE),))


def rotated(x: Term, cosines: Term, sines: Term) -> Term:
    split = make("Split", (x,), {"axis": -1, "split": (4, 4)})
    turned = make("Concat", (make("Neg", (split.out(1),)), split.out(0)), {"axis": -1})
    return make("Add", (make("Mul", (x, cosines)), make("Mul", (turned, sines))))


def tables(angles: Term) -> list[Term]:
    both = make("Concat", (angles, angles), {"axis": -1})
    return [make("Unsqueeze", (make(op, (both,)),), {"axes": (-3,)}) for op in ("Cos", "Sin")]


def layers(count: int) -> tuple[Term, Term]:
    """Return a chain of products and rotations by the same angles, and the cosines that all of them read."""
    x, (cosines, sines) = var("x", _ROWS), tables(var("f", tensor(1, _LENGTH, 4)))
    for k in range(count):
        for _ in range(12):  # so that no region has two rotations
            x = make("Tanh", (x,))
        x = rotated(make("MatMul", (x, weight(f"w{k}"))), cosines, sines)
    return x, cosines


def searched(*outputs: Term) -> tuple[Term, ...]:
    position = {term: k for k, term in enumerate(topological(outputs))}
    return search(outputs, [ROTATION], believe, AnalyticCost(), position=position, efforts=0).outputs


def count(outputs: tuple[Term, ...], op: str) -> int:
    return sum(term.op == op for term in topological(outputs))


def test_every_layer_is_rewritten_although_the_angles_are_computed_once() -> None:
    graph, _ = layers(3)
    found = searched(graph)
    assert count(found, "RotaryEmbedding") == 3
    assert count(found, "Concat") == 0 and count(found, "Cos") == 1  # nothing reads the doubled angles any more
    rng = np.random.default_rng(0)
    leaves = [term for term in topological((graph,)) if not term.inputs]
    values = {leaf: rng.standard_normal(leaf.type.concrete()) for leaf in leaves}
    (before,), (after,) = (evaluate(terms, values, {}) for terms in ((graph,), found))
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)


def test_shared_values_stay_where_others_read_them() -> None:
    graph, cosines = layers(2)
    found = searched(graph, cosines)
    assert count(found, "RotaryEmbedding") == 2 and found[1] is cosines


def test_regions_of_two_layers_have_no_operators_in_common() -> None:
    graph, _ = layers(2)
    found = LongMatches([ROTATION], lambda operator: True).of((graph,))
    assert len(found) == 2
    one, other = (set(match.region.operators) for match in found)
    assert one.isdisjoint(other)
    assert {term.op for term in one} == {"Add", "Mul", "Split", "Neg", "Concat"}
    assert all([term.op for term in match.shared] == ["Unsqueeze", "Unsqueeze"] for match in found)
