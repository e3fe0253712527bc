"""Both sides of rules, and of wrong rules that the kernel proves none the less, run in ONNX Runtime.

A sample of `scripts/check_rules.py`, which runs all rules at all element types.
"""

from __future__ import annotations

from collections import Counter

import pytest

from scripts.fuzzing.rule_check import check_rule
from superopt.ir.term import topological
from superopt.rulebook.loading import load_rules

RULES = load_rules(None)
MUTABLE = [rule for rule in RULES if all(term.op != "Constant" for term in topological(rule.rhs))]


@pytest.mark.parametrize("dtype", ["float", "float16", "int64", "int32", "uint8", "bool"])
def test_sides_agree(dtype: str) -> None:
    compared: Counter[str] = Counter()
    for task in range(0, len(RULES), 37):
        count, problems = check_rule(task, RULES, [dtype], wrong=False)
        assert not problems
        compared += count
    assert compared[dtype]


def test_what_is_proven_of_wrong_rules_agrees() -> None:
    compared: Counter[str] = Counter()
    for task in range(0, len(MUTABLE), 108):
        count, problems = check_rule(task, MUTABLE, ["float", "int32"], wrong=True)
        assert not problems
        compared += count
    assert compared
