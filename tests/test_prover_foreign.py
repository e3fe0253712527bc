"""Rules that other systems publish, and near misses of them: what is true is proved, what is false refuted."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.ir.rule import Rule
from superopt.ir.text import parse_rules, show_rule
from verify.proofs import prove_at
from verify.prove import Proved, Refuted, Unknown

FOLDER = Path(__file__).parent / "prover" / "foreign"
FILES = sorted(FOLDER.glob("*.rules"))
MOST_UNDECIDED = 0.02  # of all rules, and of those of each file but the one whose share is less than a rule
SMALL = {"pet.true.rules": 1}


def _rules(path: Path) -> list[Rule]:
    return parse_rules(path.read_text(), path.name)


def _undecided(path: Path, rules: list[Rule]) -> list[str]:
    """Rules that are neither proved nor refuted; no verdict may contradict the file."""
    undecided = []
    for rule in rules:
        for signature in rule.signatures:
            verdict = prove_at(rule, signature)
            if isinstance(verdict, Unknown):
                undecided.append(show_rule(rule))
            elif path.name.endswith(".true.rules"):
                assert isinstance(verdict, Proved), show_rule(rule)
            else:
                assert isinstance(verdict, Refuted), show_rule(rule)
                assert verdict.counterexample is not None, show_rule(rule)
    return undecided


def _allowed(path: Path) -> int:
    return SMALL.get(path.name, int(MOST_UNDECIDED * len(_rules(path))))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_true_is_proved_and_false_refuted(path: Path) -> None:
    undecided = _undecided(path, _rules(path))
    assert len(undecided) <= _allowed(path), "\n".join(undecided)


def test_at_most_two_percent_may_be_undecided() -> None:
    count = sum(len(_rules(path)) for path in FILES)
    assert count >= 1000
    assert sum(map(_allowed, FILES)) <= MOST_UNDECIDED * count
