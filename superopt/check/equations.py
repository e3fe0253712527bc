"""Equations that one proof asks the kernel about, each once: equal layers of a model give equal equations."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TypeAlias

from superopt.check.cones import signatures
from superopt.check.literals import readings, with_masks
from superopt.check.sweep import Claim, asks_for_roundings, holds
from superopt.ir.dim import Size
from superopt.ir.pattern import Bindings, match
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term
from superopt.optimizer.example_check import fails_at_example
from superopt.optimizer.proof_effort import GivenUp, within_effort
from verify.proof_book import ProofBook
from verify.replay import with_general_sizes

__all__ = ["FIRST_EFFORT", "MAX_CALLS", "PATIENT_EFFORT", "TOO_LONG", "Equations"]

TOO_LONG = "the proof takes too long"

MAX_CALLS = 2_000_000  # of one proof, see `within_effort`
FIRST_EFFORT, PATIENT_EFFORT = 1 / 10, 6.0  # of `MAX_CALLS`; a Concat of strided slices as a SpaceToDepth takes 5
_EXAMPLE_TOLERANCE = 1e-3  # relative: literals in float32 stand for other numbers, and errors of 2^-24 grow
_Instance: TypeAlias = tuple[Signature, int]  # where an equation is proven: the signature, the reading of literals


class Equations:
    """The equations of a proof, and what the kernel has said of them."""

    def __init__(self) -> None:
        self.book = ProofBook()
        self._failed: dict[tuple[Rule, tuple[object, ...]], float] = {}  # with the effort that did not suffice
        self._proven: dict[Rule, _Instance] = {}  # where an equation was proven last: equal layers need one proof
        self._given_up: dict[tuple[Rule, _Instance], float] = {}  # and the share of the effort that did not suffice

    def claim(self, left: Term, right: Term, rule: Rule, effort: float = 1.0) -> tuple[Claim | None, str]:
        """Return a claim that the kernel proves with the equation `rule`, or None and the reason why there is none.

        `effort` is the share of `MAX_CALLS` that the proof may take, or how many times as much.
        """
        bindings = match((*rule.lhs, *rule.rhs), (left, right))
        if bindings is None:
            return None, "the cone is not an instance of its equation"
        if asks_for_roundings(rule, left, right):
            return None, "only a runtime's rounding says what a constant is"
        rule, shown = with_masks(rule, bindings.terms), rule
        types = tuple((name, term.type) for name, term in sorted(bindings.terms.items()))
        if self._failed.get((rule, types), 0.0) >= effort:
            return None, "the kernel does not prove it"
        if fails_at_example(rule, bindings, _EXAMPLE_TOLERANCE):
            self._failed[rule, types] = math.inf
            return None, "it is false at an example"
        reason = "the kernel does not prove it"
        claims = {(claim.signature, claim.reading): claim for claim in _claims(left, right, shown, rule, bindings)}
        order = sorted(claims, key=lambda instance: instance != self._proven.get(rule))
        for share in sorted({FIRST_EFFORT, effort}):  # one reading may have a short proof, another none that is short
            for instance in order:
                if self._given_up.get((rule, instance), 0.0) >= share:
                    reason = TOO_LONG
                    continue
                try:
                    if within_effort(holds, claims[instance], self.book, max_calls=int(share * MAX_CALLS)):
                        self._proven[rule] = instance
                        return claims[instance], ""
                except GivenUp:
                    self._given_up[rule, instance] = share
                    reason = TOO_LONG
                    if share >= 1.0:
                        break
        if effort >= 1.0:
            self._failed[rule, types] = effort
        return None, reason

    def signature(self, rule: Rule, bindings: Bindings, not_negative: Collection[Size]) -> Signature | None:
        """Return a signature at which the kernel proves `rule` for a match, or None.

        Some sizes are known to be `not_negative`.
        """
        general = with_general_sizes(bindings, not_negative)
        try:
            return within_effort(self.book.check, rule, general, max_calls=MAX_CALLS)
        except GivenUp:
            return None


def _claims(left: Term, right: Term, shown: Rule, rule: Rule, bindings: Bindings) -> Iterator[Claim]:
    """Yield the claims to try: with the literals as they stand, then for what they may stand for.

    `shown` is the equation that the terms match, `rule` the same with the values of masks.
    """
    found = list(signatures(shown, bindings))
    yield from (Claim(left, right, shown, signature) for signature in found)
    for reading in range(len(readings(rule, bindings.dtype() or "float"))):
        yield from (Claim(left, right, shown, signature, reading + 1) for signature in found)
