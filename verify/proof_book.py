"""Books of proofs: which rule is proven at which signature, and where the conditions of the proof hold.

A verdict belongs to a rule's two sides. Terms are interned, so two rules are equal if and only if their sides are the
same terms. Files list a rule under the short `Rule.id`; a book never uses that id as a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import Any, final

from superopt.ir.dim import NoValue
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import topological
from superopt.ir.types import FLOAT_DTYPES
from verify.propose.signatures import literal_signatures
from verify.prove.facts import Observer
from verify.prove.prover import Refuter, prove
from verify.stability.analysis import stability
from verify.stability.classes import UNSTABLE, Stability, allowed
from verify.verdict import Proved, Unknown, Verdict

__all__ = ["Book", "ProofBook", "both_ways", "prove_at"]

# Attributes that name an element type. The result of such an operator depends on the real type that "float" stands for.
_TYPE_ATTRS = frozenset({"to", "dtype"})
_OTHER_REALS = FLOAT_DTYPES - {"float"}


def prove_at(
    rule: Rule, signature: Signature, observer: Observer | None = None, refute: Refuter | None = None
) -> Verdict:
    """Return the verdict on `rule` at `signature`; never raises for a rule that cannot be typed there.

    `observer` and `refute` are those of `verify.prove.prover.prove`.
    """
    try:
        left, right = rule.instantiate(signature)
    except (IllTyped, TypeError, IndexError) as error:  # the last two: a symbol where a number is needed
        return Unknown(f"cannot be typed: {error}")
    try:
        return prove(left, right, observer, refute)
    except (IllTyped, NoValue) as error:  # at sizes that the signature admits and an operator does not
        return Unknown(f"cannot be typed: {error}")


def both_ways(verdict: Verdict | None) -> Proved | None:
    """Return the verdict if it also proves the reversed equation, else None.

    The conditions of a proof cover both sides. So a proof holds in both directions, unless it assumes that its left
    side is defined.
    """
    return verdict if isinstance(verdict, Proved) and not verdict.defined_left else None


class Book(ABC):
    """Decides where a rule may be applied, given the verdict on the rule at a signature.

    `numerics` is the level that the book accepts (see `verify.stability.classes.LEVELS`).
    """

    def __init__(self, numerics: str = "real-only") -> None:
        self._level = numerics

    @abstractmethod
    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """Return the verdict on `rule` at `signature`."""

    @abstractmethod
    def stability(self, rule: Rule, signature: Signature) -> Stability:
        """Return the stability class of `rule`, from left to right, at a `signature` where it is proven."""

    def allows(self, rule: Rule, signature: Signature, bindings: Bindings) -> bool:
        """Return True if `signature` covers the match, `rule` is proven and of an accepted class there, and its
        conditions hold."""
        if not signature.covers(bindings) or not _sizes_positive(bindings):
            return False
        if _names_a_type(rule) and bindings.dtype() in _OTHER_REALS:
            return False  # the proof is about "float" and holds for no other real type
        verdict = self.verdict(rule, signature)
        if not isinstance(verdict, Proved):
            return False
        env = bindings.shape_env()
        if not all(condition.holds(env) for condition in verdict.conditions):
            return False
        if self._level == "real-only" or verdict.numerics == "exact":
            return True
        return allowed(self._level, verdict.numerics, self.stability(rule, signature))

    def check(self, rule: Rule, bindings: Bindings) -> Signature | None:
        """Return a signature at which the rule may be applied to this match, or None."""
        for signature in (*rule.signatures, *literal_signatures(rule, bindings)):
            if self.allows(rule, signature, bindings):
                return signature
        return None


@final
class ProofBook(Book):
    """Proofs made in this run. Every verdict in this book comes from the prover.

    `refute` looks for counterexamples (see `verify.prove.prover.prove`); it can only keep a rule from being proven.
    """

    def __init__(self, numerics: str = "real-only", refute: Refuter | None = None) -> None:
        super().__init__(numerics)
        self._refute = refute
        self._verdicts: dict[tuple[Rule, Signature], Verdict] = {}
        self._stability: dict[tuple[Rule, Signature], Stability] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        raise TypeError("ProofBook has no subclasses: verdicts of other sources belong to a Book of their own")

    def known(self, rule: Rule, signature: Signature) -> Verdict | None:
        """Return an earlier verdict, or an earlier proof of the reversed rule that holds both ways, else None."""
        found = self._verdicts.get((rule, signature))
        return both_ways(self._verdicts.get((rule.reversed(), signature))) if found is None else found

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        """Return the verdict at `signature`, proving the rule there if it is not known."""
        known = self.known(rule, signature)
        if known is None:
            known = prove_at(rule, signature, refute=self._refute)
        self._verdicts[rule, signature] = known
        return known

    def stability(self, rule: Rule, signature: Signature) -> Stability:
        """Return the class that the kernel proves in this run."""
        if (rule, signature) not in self._stability:
            verdict = self.verdict(rule, signature)
            classes = stability(rule, signature, verdict) if isinstance(verdict, Proved) else (UNSTABLE, UNSTABLE)
            for directed, found in zip((rule, rule.reversed()), classes, strict=True):
                self._stability[directed, signature] = found
        return self._stability[rule, signature]


@lru_cache(maxsize=1 << 12)
def _names_a_type(rule: Rule) -> bool:
    return any(name in _TYPE_ATTRS for term in topological((*rule.lhs, *rule.rhs)) for name, _ in term.attrs)


def _sizes_positive(bindings: Bindings) -> bool:
    for term in bindings.terms.values():
        if term.type is None or term.type.shape is None or any(isinstance(s, int) and s < 1 for s in term.type.shape):
            return False
    return True
