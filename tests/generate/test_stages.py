"""Signatures that others cover, and equations of families, in the steps of the generator."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.grammar import Family, Use, Variable, concat, inputs, splits
from superopt.generate.pipeline import generate
from superopt.generate.prove.covered_signatures import covers
from superopt.generate.prove.prove_conjectures import ConjectureProver
from superopt.generate.prove.proven_rules import ProvenRule
from superopt.generate.stages import RunConfig, enumerate_part, prove_family
from superopt.ir.dim import symbol
from superopt.ir.notation import parse_rule, parse_rules, parse_terms, show_signature, show_term
from superopt.ir.rule import Condition
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.rulebook.variadic import schema_of
from verify.diagnose.decide import decide
from verify.verdict import Proved


def test_a_signature_covers_another_one_only_where_its_conditions_hold() -> None:
    """A proof for scores of different heads excludes a mask that all heads share."""
    rule = parse_rule("Add(Expand[shape=[h]](m), x) = Add(x, Expand[shape=[h]](m)) @ m[_] x[_] h=_ | m[1] x[_] h=_")
    general, special = rule.signatures
    proof, own = (decide(rule, signature) for signature in (general, special))
    assert isinstance(proof, Proved) and isinstance(own, Proved)
    narrow = dataclasses.replace(proof, conditions=(Condition("==", symbol("m.shape[0]"), symbol("h")),))
    free, bound = (dataclasses.replace(own, conditions=c) for c in ((), (Condition("==", symbol("h"), 1),)))
    assert not covers(general, special, narrow) and not covers(general, special, narrow, free)
    assert covers(general, special, narrow, bound)  # where its own proof has the same condition
    assert covers(general, special, dataclasses.replace(proof, conditions=()))
    assert not covers(special, general, own)


def test_an_absent_input_counts_as_no_operand() -> None:
    use = Use("MultiHeadAttention", {"num_heads": 2, "scale": 1.0}, (4,), absent=3)
    operands = [var(name, tensor(2, 3, 8)) for name in "qkv"] + [var("m", tensor(1, 1, 3, 3))]
    term = use.term(operands, ((2, 3, 8),) * 3 + ((1, 1, 3, 3),))
    assert show_term(term) == "MultiHeadAttention[num_heads=2, scale=1.0](q, k, v, _, m)"


def test_an_equation_of_a_definition_has_no_factor_of_one() -> None:
    family = Family(
        "definitions", (Variable("x", (4,), "x"),), (), 1, reals=True, definitions=("QuickGelu[alpha=1.0](x)",)
    )
    found = json.loads(enumerate_part(RunConfig((family,)), 0, 0, {}))
    assert found["equations"] == ["QuickGelu[alpha=1.0](x) = Mul(Sigmoid(x), x)"]


def test_parts_of_a_split_become_one_size_where_nothing_else_is_proven() -> None:
    """Attention splits one product into queries, keys and values of one size, whatever it is."""
    family = Family(
        "definitions",
        (*inputs("x", (2, 3, 8)), *inputs("w", (8, 24)), *inputs("b", (24,))),
        (),
        1,
        reals=True,
        definitions=("Attention[num_heads=2, scale=0.375](x, w, b)",),
    )
    config = RunConfig((family,))
    result = json.loads(prove_family(config, 0, (), {"part": enumerate_part(config, 0, 0, {})}))
    assert len(result["kept"]) == 1 and not result["refused"]
    assert "Split[axis=-1, split=[n, n, n]](Add(MatMul(x, w), b)).0" in str(result["kept"][0])


@pytest.mark.parametrize(("variation", "proved"), [("", 0), ("layout", 1)])
def test_a_conjecture_that_follows_at_its_own_rank_only_is_proven(variation: str, proved: int) -> None:
    """A rule for matrices is no rule for images, at which the conjecture would be shipped."""
    family, types = Family("layout", inputs("x", (2, 3)), (), 3, variation=variation), {"x": tensor(2, 3)}

    def equation(left: str, right: str) -> GroundEquation:
        return GroundEquation(parse_terms(left, types), parse_terms(right, types), family)

    turned = "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x))"
    prover = ConjectureProver(Evaluator(0), 0)
    prover.known.add(ProvenRule(schema_of(parse_rule(f"{turned} = x @ x[_,_]")), equation(turned, "x")))
    prover.prove_all([equation(f"Relu({turned})", "Relu(x)")])
    assert (prover.counts.proved, prover.counts.derivable) == (proved, 1 - proved)


def test_a_rule_takes_over_the_signatures_of_one_that_follows_from_it(tmp_path: Path) -> None:
    def family(name: str, variable: str, variation: str) -> Family:
        uses = (*splits(-1, slots=(variable,)), *concat(-1))
        return Family(name, inputs(variable, (2, 4)), uses, 3, elements=8, variation=variation, split_axes=(-1,))

    generate(tmp_path / "rules", families=(family("first", "t", ""), family("second", "u", "layout")))
    assert not (tmp_path / "rules" / "second.rules").exists()
    (rule,) = (r for r in parse_rules((tmp_path / "rules" / "first.rules").read_text()) if r.rhs[0].op == "Var")
    shown = set(map(show_signature, rule.signatures))
    assert {"t[_] i=-1 n=[_,_]", "t[_,_,_] i=-2 n=[_,_]", "t[_,_,_,_] i=-3 n=[_,_]"} <= shown
