"""Rewrites that released optimizers got wrong, and their guarded versions: one case a file in prover/known_false."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from superopt.diagnose.confirmation import ONE_SIDE_FAILS, TYPES_DIFFER, VALUES_DIFFER, confirm
from superopt.ir.notation import parse_rule
from tests.support.paths import TESTS
from verify.diagnose.decide import decide
from verify.verdict import Proved, Refuted

CASES = sorted((TESTS / "prover" / "known_false").glob("*.json"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_verdict(path: Path) -> None:
    case = json.loads(path.read_text())
    rule = parse_rule(f"{case['source']} = {case['target']} @ {case['signature']}")
    for signature in rule.signatures:
        verdict = decide(rule, signature)
        if case["expected"] == "proved":
            assert isinstance(verdict, Proved), verdict
        else:
            assert isinstance(verdict, Refuted), verdict
            assert verdict.counterexample is not None
            assert confirm(rule, signature, verdict.counterexample).outcome in (
                VALUES_DIFFER,
                TYPES_DIFFER,
                ONE_SIDE_FAILS,
            )


def test_every_family_has_a_refuted_and_a_guarded_case() -> None:
    expected: dict[int, set[str]] = {number: set() for number in range(1, 15)}
    for path in CASES:
        expected[int(path.stem[:2])].add(json.loads(path.read_text())["expected"])
    assert all(found == {"refuted", "proved"} for found in expected.values())
