"""Proves that two models compute the same outputs.

First, regions that are equal in structure are one term (`joining.py`). Then the right model's tensors are replaced by
equal ones of the left model, inputs first (`sweep.py`). Random inputs propose which tensors are equal (`values.py`).
The kernel proves each proposal as an equation over the nearest tensors below that both models have (`cones.py`).
Constants that one model folded are compared by value (`constants.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from superopt.check.certificate import Certificate, certified
from superopt.check.cones import cones, signatures
from superopt.check.constants import Constants
from superopt.check.joining import joined
from superopt.check.roots import with_roots
from superopt.check.sweep import Claim, Sweep, holds, merged_casts
from superopt.check.values import Proposals
from superopt.evaluate import numpy_dtype
from superopt.ir.pattern import Bindings, match
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model
from superopt.optimizer.proof_effort import GivenUp, within_effort
from superopt.runtime import unit_roundoff
from verify.proof_book import ProofBook

__all__ = ["Equality", "Match", "joined", "prove_equal"]

_VALUES_SHARE = 0.3  # of the time, for evaluating both models
_MAX_CALLS = 2_000_000  # of one proof, see `within_effort`


@dataclass(frozen=True)
class Match:
    """A tensor of the left model and one of the right model that are proven equal.

    `by` says how: "same" (one structure), "kernel" (a proof of their cones), "rules" (rewriting), or "values"
    (constants that were compared). `error` bounds the relative error of weights that one model folded; 0 means bit for
    bit.
    """

    left: Term
    right: Term
    by: str
    error: float = 0.0


@dataclass(frozen=True)
class Equality:
    """The result of `prove_equal`.

    `unproven` has pairs of tensors with equal values that were not proven equal, with the reason in one line.
    `outputs` says for each output if it is proven equal. `certificate` is None unless all are.
    """

    matches: tuple[Match, ...]
    unproven: tuple[tuple[Term, Term, str], ...]
    outputs: tuple[bool, ...]
    certificate: Certificate | None


def prove_equal(
    left: Model,
    right: Model,
    *,
    seconds: float,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Equality:
    """Prove the outputs of two `joined` models equal, in about `seconds` seconds."""
    if len(left.outputs) != len(right.outputs):
        return Equality((), (), (False,) * len(left.outputs), None)
    return _Proof(left, right, seconds, seed, progress or (lambda line: None)).run()


class _Proof:
    def __init__(self, left: Model, right: Model, seconds: float, seed: int, progress: Callable[[str], None]) -> None:
        self.left, self.right, self.progress = left, right, progress
        self.seconds, self.seed = seconds, seed
        self.deadline = time.monotonic() + seconds
        self.book = ProofBook()
        self.sweep = Sweep(left, right)
        self.constants = Constants(left.weights)
        self.values: Proposals | None = None
        self.failed: set[tuple[Rule, tuple[object, ...]]] = set()
        self.by: dict[Term, tuple[str, float]] = {}
        self.claims: list[Claim] = []
        self.folded: list[tuple[Term, Term, float]] = []
        self.unproven: list[tuple[Term, Term, str]] = []

    def run(self) -> Equality:
        matches: list[Match] = []
        total = sum(1 for _ in topological(self.right.outputs))
        for number, (term, image) in enumerate(self.sweep.run(self.decide), 1):
            if image in self.sweep.left:
                matches.append(Match(image, term, *self.by.get(term, ("same", 0.0))))
            if number % 50 == 0 or number == total:
                self.progress(f"proving: {number} of {total} tensors, {len(matches)} equal")
        images = [self.sweep.image[output] for output in self.right.outputs]
        outputs = tuple(a is b for a, b in zip(self.left.outputs, images, strict=True))
        if merged_casts(self.left.outputs) != merged_casts(self.right.outputs):
            reason = "ONNX Runtime would merge other Casts"
            self.unproven += [(a, b, reason) for a, b in zip(self.left.outputs, self.right.outputs, strict=True)]
            outputs = (False,) * len(outputs)
        certificate = certified(self.left, self.right, self.claims, self.folded) if all(outputs) else None
        return Equality(tuple(matches), tuple(self.unproven), outputs, certificate)

    def decide(self, term: Term, image: Term) -> Term | None:
        """Return a term of the left model that is equal to `image`, or None."""
        if image.is_constant:
            return self._constant(term, image)
        if self.values is None:
            self.progress("evaluating both models on random inputs")
            self.values = Proposals(self.left, self.right, self.seed, self.seconds * _VALUES_SHARE)
        reason = ""
        candidates = self.values.of(term)
        for candidate in candidates:
            if time.monotonic() > self.deadline:
                reason = "the time is over"
                break
            claim, reason = self._proven(candidate, image)
            if claim is not None:
                self.claims.append(claim)
                self.by[term] = "kernel", _roundoff(candidate) if claim.roots else 0.0
                return candidate
        if candidates:
            self.unproven.append((candidates[0], term, reason))
        return None

    def _constant(self, term: Term, image: Term) -> Term | None:
        """Return a constant of the left model with the same value, or None."""
        for candidate in self._constants_like(image):
            error = self.constants.difference(candidate, image)
            if error is not None:
                self.folded.append((candidate, image, error))
                self.by[term] = "values", error
                return candidate
        return None

    def _constants_like(self, image: Term) -> list[Term]:
        """Return the left model's constants of this type, bare weights first."""
        found = [t for t in self.sweep.left if t.is_constant and t.type == image.type and t.op != image.op]
        return sorted(found, key=lambda t: (bool(t.inputs), t.digest))

    def _proven(self, left: Term, right: Term) -> tuple[Claim | None, str]:
        """Return a claim that the kernel proves, or None and the reason why there is none."""
        reason = "no cone with known operators"
        for rule in cones(left, right, self.sweep.shared):
            bindings = match((*rule.lhs, *rule.rhs), (left, right))
            if bindings is None:
                reason = "the cone is not an instance of its equation"
                continue
            types = tuple((name, term.type) for name, term in sorted(bindings.terms.items()))
            if (rule, types) in self.failed:
                continue
            for claim in _claims(left, right, rule, bindings):
                try:
                    if within_effort(holds, claim, self.book, max_calls=_MAX_CALLS):
                        return claim, ""
                    reason = "the kernel does not prove it"
                except GivenUp:
                    reason = "the proof takes too long"
                    break
                if time.monotonic() > self.deadline:
                    return None, "the time is over"
            self.failed.add((rule, types))
        return None, reason


def _claims(left: Term, right: Term, rule: Rule, bindings: Bindings) -> Iterator[Claim]:
    """Yield the claims to try: with the literals as they are, then with the roots that they stand for."""
    found = list(signatures(rule, bindings))
    yield from (Claim(left, right, rule, signature) for signature in found)
    if with_roots(rule, bindings.dtype() or "float") != rule:
        yield from (Claim(left, right, rule, signature, roots=True) for signature in found)


def _roundoff(term: Term) -> float:
    return unit_roundoff(numpy_dtype("float" if term.type is None else term.type.dtype))
