"""Rules of other systems: true ones follow from the shipped rules, and false ones do not.

The lists in `tests/coverage` are TASO's (the heads of the files name the sources and contents).
"""

from __future__ import annotations

import pytest

from superopt.generate.derive import DERIVED, CertificateCheck, Deriver, consequence
from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule
from superopt.rulebook.loading import certified_rules, load_rules
from tests.support.paths import TESTS

FOLDER = TESTS / "coverage"
STEPS = 4
# Least number of rules that follow from the shipped rules in at most STEPS steps.
LEAST = {
    "taso_depthwise.true.rules": 24,
    "taso_excluding.true.rules": 46,
    "taso_generated.true.rules": 528,
    "taso_multi.true.rules": 51,
    "taso_published.true.rules": 179,
}


@pytest.fixture(scope="module")
def deriver() -> Deriver:
    listed, certificates = certified_rules()
    rules = [one.rule for one in listed]
    return Deriver(rules, CertificateCheck(rules, certificates, anew=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.glob("*.true.rules")))
def test_true_rules_of_others_follow(deriver: Deriver, name: str) -> None:
    derived = 0
    for rule in load_rules(FOLDER / name):
        deriver.forget()
        derived += consequence(deriver, rule, rule.signatures, STEPS).outcome == DERIVED
    assert derived >= LEAST[name]


def _false_rules() -> list[Rule]:
    return [rule for path in sorted(FOLDER.glob("*.false.rules")) for rule in load_rules(path)]


@pytest.mark.slow
@pytest.mark.parametrize("rule", _false_rules(), ids=lambda rule: rule.id)
def test_false_rules_of_others_do_not_follow(deriver: Deriver, rule: Rule) -> None:
    deriver.forget()
    assert consequence(deriver, rule, rule.signatures, STEPS).outcome != DERIVED, show_rule(rule)


def test_there_are_false_rules() -> None:
    assert len(_false_rules()) == 23
