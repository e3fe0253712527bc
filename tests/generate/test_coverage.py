"""Rules of other systems: true ones follow from the shipped rules, and false ones do not.

The lists in `tests/coverage` are TASO's (the heads of the files name the sources and contents).
"""

from __future__ import annotations

import pytest

from superopt.generate.derive import DERIVED, CertificateCheck, Deriver, consequence
from superopt.ir.notation import show_rule
from superopt.rulebook.loading import certified_rules, load_rules
from tests.support.paths import TESTS
from tests.support.sampling import Sampled

FOLDER = TESTS / "coverage"
STEPS = 4
# Rules that do not follow from the shipped rules in at most STEPS steps.
UNDERIVED = {"taso_generated.true.rules": 2, "taso_multi.true.rules": 1, "taso_published.true.rules": 1}


@pytest.fixture(scope="module")
def deriver() -> Deriver:
    listed, certificates = certified_rules()
    rules = [one.rule for one in listed]
    return Deriver(rules, CertificateCheck(rules, certificates, anew=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.glob("*.true.rules")))
def test_true_rules_of_others_follow(deriver: Deriver, sampled: Sampled, name: str) -> None:
    underived = []
    for rule in sampled(load_rules(FOLDER / name), 3):
        deriver.forget()
        if consequence(deriver, rule, rule.signatures, STEPS).outcome != DERIVED:
            underived.append(show_rule(rule))
    assert len(underived) <= UNDERIVED.get(name, 0), "\n".join(underived)


@pytest.mark.slow
def test_false_rules_of_others_do_not_follow(deriver: Deriver, sampled: Sampled) -> None:
    rules = sampled((rule for path in sorted(FOLDER.glob("*.false.rules")) for rule in load_rules(path)), 6)
    assert rules
    for rule in rules:
        deriver.forget()
        assert consequence(deriver, rule, rule.signatures, STEPS).outcome != DERIVED, show_rule(rule)
