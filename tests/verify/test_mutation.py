"""Rules made false on purpose: whatever the kernel still proves must be true by another evaluator.

The other evaluator is `superopt.evaluate`, which shares no code with the kernel's definitions.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

import numpy as np
import pytest

from scripts.fuzzing.instances import concrete, mutants
from superopt.evaluate import evaluate
from superopt.ir.pattern import instantiate
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import topological
from superopt.rulebook.loading import certified_rules, load_rules
from tests.support.random_values import random_values, real_type
from tests.support.sampling import Sampled
from verify.certificates import CertifiedBook
from verify.diagnose.decide import decide
from verify.verdict import Proved, Refuted, Unknown

RULES = load_rules(None)
# Mutants of minimal filtering have tests of their own (`test_generate_filtering`): each takes long to refute.
MUTABLE = [rule for rule in RULES if all(term.op != "Constant" for term in topological(rule.rhs))]


def differs(rule: Rule, signature: Signature, conditions: tuple[Condition, ...], rng: np.random.Generator) -> bool:
    """Return True if the sides differ at two choices of sizes and values; large sizes are skipped.

    Nothing is claimed where the left side has an index out of range, and there the right side may have one, too.
    """
    for most, least in ((5, 2), (7, 1)):
        bindings = concrete(signature, conditions, most, least, real_type(rule))
        if bindings is None:
            continue
        env = {term: random_values(rng, term, 0.5, 2.0) for term in bindings.terms.values()}
        dtype = bindings.dtype() or "double"
        try:
            left = evaluate(instantiate(rule.lhs, bindings, dtype), env, {})
        except IndexError:
            continue
        try:
            right = evaluate(instantiate(rule.rhs, bindings, dtype), env, {})
        except IndexError:
            return True
        for a, b in zip(left, right, strict=True):
            if a.shape != b.shape or not np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True):
                return True
    return False


def survey(count: int, seed: int) -> Counter[str]:
    rng, values = random.Random(seed), np.random.default_rng(seed)
    found: Counter[str] = Counter()
    while sum(found.values()) < count:
        rule = rng.choice(MUTABLE)
        for mutant in mutants(rule, rng):
            signature = rng.choice(rule.signatures)
            verdict = decide(mutant, signature)
            if isinstance(verdict, Proved):
                assert not differs(mutant, signature, verdict.conditions, values), (mutant.lhs, mutant.rhs, signature)
                found["equivalent after all"] += 1
            elif isinstance(verdict, Refuted):
                found["refuted with a counterexample" if verdict.counterexample else "refuted by type"] += 1
            else:
                assert isinstance(verdict, Unknown)
                found["unknown"] += 1
    return found


@pytest.mark.slow
def test_the_other_evaluator_agrees_with_the_shipped_proofs(
    sampled: Sampled,
) -> None:
    values = np.random.default_rng(0)
    certified = CertifiedBook(certified_rules()[1])
    # A certificate is this very kernel's answer. That it still gives the same one is seen at a sample of the rules.
    anew = set(sampled(RULES, 48))
    for rule in sampled(RULES, 12):
        signature = rule.signatures[0]
        verdict = decide(rule, signature) if rule in anew else certified.verdict(rule, signature)
        assert isinstance(verdict, Proved)
        assert not differs(rule, signature, verdict.conditions, values), rule


def test_mutants_that_are_proved_are_true() -> None:
    found = survey(200, 1)
    assert found["refuted with a counterexample"] > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3, 4, 5])
def test_many_mutants(seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = survey(500, seed)
    with capsys.disabled():
        sys.stdout.write(f"\nmutants: {dict(found)}\n")
    assert found["refuted with a counterexample"] > 125
