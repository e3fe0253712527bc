"""Consequences of the shipped rules: the rules themselves and true rules of other systems, but no false ones.

The lists in `tests/coverage` are TASO's, those in `tests/prover/foreign` of several systems; the heads of the files
name the sources and contents.
"""

from __future__ import annotations

import pytest

from superopt.generate.derive import DERIVED, NO_INSTANCE, CertificateCheck, Deriver, consequence
from superopt.ir.notation import show_rule
from superopt.rulebook.loading import Certificates, certified_rules, load_rules
from tests.support.derivations import check_derivation
from tests.support.paths import TESTS
from tests.support.sampling import Sampled

FOLDER = TESTS / "coverage"
FOREIGN = TESTS / "prover" / "foreign"
STEPS = 4
# Terms that a search visits before it gives up; with `--long` as many as it visits when rules are generated.
MOST = 4_000
# Rules that do not follow from the shipped rules in at most STEPS steps.
UNDERIVED = {"taso_generated.true.rules": 2, "taso_multi.true.rules": 1, "taso_published.true.rules": 1}


@pytest.fixture(scope="module")
def certificates() -> Certificates:
    return certified_rules()[1]


@pytest.fixture(scope="module")
def shipped(certificates: Certificates) -> Deriver:
    return Deriver(certificates, CertificateCheck(certificates, certificates))


@pytest.fixture(scope="module")
def proving(certificates: Certificates) -> Deriver:
    """Also proves rules at signatures that have no certificate."""
    return Deriver(certificates, CertificateCheck(certificates, certificates, anew=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in FOLDER.glob("*.true.rules")))
def test_true_rules_of_others_follow(shipped: Deriver, proving: Deriver, sampled: Sampled, name: str) -> None:
    underived = []
    for rule in sampled(load_rules(FOLDER / name), 8):
        for deriver in (shipped, proving):  # most need no new proof
            found = consequence(deriver, rule, rule.signatures, STEPS).outcome
            deriver.forget()
            if found == DERIVED:
                break
        else:
            underived.append(show_rule(rule))
    assert len(underived) <= UNDERIVED.get(name, 0), "\n".join(underived)


@pytest.fixture
def bounded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound the searches that find nothing, which take most of the time of these tests."""
    if not request.config.getoption("--long"):
        for name in ("shipped", "proving"):
            monkeypatch.setattr(request.getfixturevalue(name), "most", MOST)


@pytest.mark.slow
@pytest.mark.usefixtures("bounded")
def test_false_rules_of_others_do_not_follow(proving: Deriver, sampled: Sampled) -> None:
    rules = sampled((rule for path in sorted(FOLDER.glob("*.false.rules")) for rule in load_rules(path)), 12)
    assert rules
    for rule in rules:
        proving.forget()
        assert consequence(proving, rule, rule.signatures, STEPS).outcome != DERIVED, show_rule(rule)


@pytest.mark.slow
def test_shipped_rules_follow_from_themselves(shipped: Deriver, certificates: Certificates, sampled: Sampled) -> None:
    for rule in sampled(load_rules(), 15):
        at, proved = certificates[rule].proofs[0]
        assert consequence(shipped, rule, [at], 1, {at: proved.conditions}).outcome == DERIVED, rule.id
        shipped.forget()


@pytest.mark.slow
@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("name", ["tensat", "taso"])
def test_nothing_false_follows_from_shipped_rules(shipped: Deriver, sampled: Sampled, name: str) -> None:
    for rule in sampled(load_rules(FOREIGN / f"{name}.false.rules"), 4):
        found = consequence(shipped, rule, rule.signatures)
        assert all(derivation.steps is None for derivation in found.derivations), rule.id
        assert found.outcome != DERIVED
        shipped.forget()


@pytest.mark.slow
@pytest.mark.usefixtures("bounded")
def test_most_published_rules_of_others_follow_from_shipped_rules(shipped: Deriver, sampled: Sampled) -> None:
    outcomes = []
    for rule in sampled(load_rules(FOREIGN / "tensat.true.rules"), 3):
        found = consequence(shipped, rule, rule.signatures)
        for derivation in found.derivations:
            if derivation.steps is not None:
                check_derivation(derivation.instance.lhs, derivation.instance.rhs, derivation.steps)
        outcomes.append(found.outcome)
        shipped.forget()
    assert NO_INSTANCE not in outcomes
    assert outcomes.count(DERIVED) > len(outcomes) / 2


@pytest.mark.slow
@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize("name", ["grappler", "textbook", "xla"])
def test_most_laws_of_other_compilers_follow_from_shipped_rules(shipped: Deriver, sampled: Sampled, name: str) -> None:
    outcomes = []
    for rule in sampled(load_rules(FOREIGN / f"{name}.true.rules"), 8):
        outcomes.append(consequence(shipped, rule, rule.signatures).outcome)
        shipped.forget()
    assert outcomes.count(DERIVED) >= 0.55 * len(outcomes)
