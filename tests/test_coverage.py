"""What other systems' generators print follows from the shipped rules, and what is false does not.

The lists in `tests/coverage` are TASO's (see the heads of the files for sources and for what each holds).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.generate.derive import DERIVED, Certified, Deriver, consequence
from superopt.ir.text import show_rule
from superopt.rulebook import certified_rules, load_rules

FOLDER = Path(__file__).parent / "coverage"
STEPS = 4
# True, but longer derivations than STEPS are needed: see the closing remarks of the files.
FARTHER: dict[str, int] = {}


@pytest.fixture(scope="module")
def deriver() -> Deriver:
    listed, certificates = certified_rules()
    rules = [one.rule for one in listed]
    return Deriver(rules, Certified(rules, certificates, anew=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.glob("*.true.rules")))
def test_true_rules_of_others_follow(deriver: Deriver, name: str) -> None:
    missing = []
    for rule in load_rules(FOLDER / name):
        deriver.forget()
        if consequence(deriver, rule, rule.signatures, STEPS).outcome != DERIVED:
            missing.append(show_rule(rule))
    assert len(missing) <= FARTHER.get(name, 0), "\n".join(missing)


@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.glob("*.false.rules")))
def test_false_rules_of_others_do_not_follow(deriver: Deriver, name: str) -> None:
    for rule in load_rules(FOLDER / name):
        deriver.forget()
        assert consequence(deriver, rule, rule.signatures, STEPS).outcome != DERIVED, show_rule(rule)
