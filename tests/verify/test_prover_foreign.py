"""Rules that other systems publish, and near misses of them: what is true is proved, what is false refuted."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.ir.notation import parse_rules, show_rule
from superopt.ir.rule import Rule
from tests.support.paths import TESTS
from tests.support.sampling import Sampled
from verify.diagnose.decide import decide
from verify.verdict import Proved, Refuted, Unknown

FOLDER = TESTS / "prover" / "foreign"
FILES = sorted(FOLDER.glob("*.rules"))


def _rules(path: Path) -> list[Rule]:
    return parse_rules(path.read_text(), path.name)


def _undecided(path: Path, rules: list[Rule]) -> list[str]:
    """Rules that are neither proved nor refuted; no verdict may contradict the file."""
    undecided = []
    for rule in rules:
        for signature in rule.signatures:
            verdict = decide(rule, signature)
            if isinstance(verdict, Unknown):
                undecided.append(show_rule(rule))
            elif path.name.endswith(".true.rules"):
                assert isinstance(verdict, Proved), show_rule(rule)
            else:
                assert isinstance(verdict, Refuted), show_rule(rule)
                assert verdict.counterexample is not None, show_rule(rule)
    return undecided


@pytest.mark.slow
def test_at_most_two_percent_are_undecided(sampled: Sampled) -> None:
    undecided, count = [], 0
    for path in FILES:
        rules = sampled(_rules(path), 3)
        count += len(rules)
        undecided += _undecided(path, rules)
    assert count >= 300
    assert len(undecided) <= 0.02 * count, "\n".join(undecided)
