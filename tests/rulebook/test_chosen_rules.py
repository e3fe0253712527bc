"""Rules of several files, without those that the user skips."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper

import superopt
from superopt.rulebook.loading import RulesError, chosen_rules, load_rules
from tests.support.certified import certified
from tests.support.models import floats, model

NEGATION = "Neg(Neg(a)) = a @ a[_,_]\n"
OPTIONS = superopt.Options(cost="analytic", device="cpu", target_absent=True, ep="cpu")
MAXIMUM = "Max(a, a) = a @ a[_,_]\n"


def test_added_rules_come_with_their_certificates(tmp_path: Path) -> None:
    first, second = certified(tmp_path / "a.rules", NEGATION), certified(tmp_path / "b.rules", MAXIMUM + NEGATION)
    rules, certificates = chosen_rules(first, [second])
    assert rules == [*load_rules(first), load_rules(second)[0]]
    assert all(certificates[rule].rule == rule.id for rule in rules)


def test_skipped_rules_are_left_out_and_unknown_ids_are_an_error(tmp_path: Path) -> None:
    rules = certified(tmp_path / "a.rules", NEGATION + MAXIMUM)
    negation, maximum = load_rules(rules)
    assert chosen_rules(rules, skipped=[negation.id])[0] == [maximum]
    with pytest.raises(RulesError, match="no rule has the id abc"):
        chosen_rules(rules, skipped=[negation.id, "abc"])


def test_optimize_uses_added_rules_and_none_that_is_skipped(tmp_path: Path) -> None:
    added = certified(tmp_path / "mine.rules", MAXIMUM)
    nodes = [helper.make_node("Max", ["x", "x"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    twice = model(nodes, [floats("x", 4, 4)], [floats("y", 4, 4)], [])
    base = certified(tmp_path / "base.rules", NEGATION)
    (maximum,) = load_rules(added)
    assert superopt.optimize(twice, rules=base, add_rules=[added], options=OPTIONS).rules[0].id == maximum.id
    assert not superopt.optimize(twice, rules=base, add_rules=[added], skip_rules=[maximum.id], options=OPTIONS).rules
