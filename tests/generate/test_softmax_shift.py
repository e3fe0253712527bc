"""Softmax with shifted exponentials: the conjecture, its proof, and that other rules do not replace it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from superopt.generate.conjectures.softmax_shift import shift_conjectures
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.families.shifted import SHIFTED
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.prove.prove_conjectures import ConjectureProver
from superopt.ir.notation import parse_rule, show_rule
from superopt.ir.rule import Rule
from superopt.rulebook.loading import certified_rules
from verify.diagnose.decide import decide
from verify.verdict import Proved, Refuted


def _rule() -> Rule:
    ((schema, equation),) = shift_conjectures(SHIFTED[0])
    assert equation.lhs[0].type == equation.rhs[0].type
    assert SamplingCheck(Evaluator(0), 0).holds(schema.rule, schema.base)
    return Rule(schema.rule.lhs, schema.rule.rhs, (schema.base,))


def test_the_shift_is_half_of_the_range() -> None:
    (shift,) = SHIFTED[0].shifts
    assert shift == math.floor(math.log(np.finfo(np.float32).max) / 2)


def test_it_is_proven_for_all_sizes() -> None:
    rule = _rule()
    proof = decide(rule, rule.signatures[0])
    assert isinstance(proof, Proved) and proof.numerics == "real-only" and not proof.guards


@pytest.mark.parametrize(
    ("old", "new"),
    [("[44.0]", "[43.0]"), ("[axes=[-1], keepdims=1](a), Const", "[axes=[-2], keepdims=1](a), Const")],
)
def test_different_shifts_above_and_below_are_refuted(old: str, new: str) -> None:
    """Both fingerprints and the prover refuse it; also a shift that varies along a row."""
    rule = _rule()
    text = show_rule(Rule(rule.lhs, rule.rhs))
    false = parse_rule(text.replace(old, new, 1))
    assert false.rhs != rule.rhs
    assert not SamplingCheck(Evaluator(0), 0).holds(false, rule.signatures[0])
    assert isinstance(decide(false, rule.signatures[0]), Refuted)


def test_rules_that_lead_back_do_not_replace_it() -> None:
    """Other rules lead from its parts to Softmax, but none introduces its numbers."""
    prover, own = ConjectureProver(Evaluator(0), 0), {_rule().id, _rule().reversed().id}
    for listed in certified_rules(None)[0]:
        if listed.rule.id not in own and len(listed.rule.lhs) == 1:
            prover.known.minimiser.add(Rule(listed.rule.lhs, listed.rule.rhs), False)
    prover.prove_general(shift_conjectures(SHIFTED[0]))
    assert [kept.rule.id for kept in prover.kept] == [_rule().id]
