"""Proves that two models compute the same outputs.

First, regions that are equal in structure are one term (`joining.py`). Then the right model's tensors are replaced by
equal ones of the left model, inputs first (`sweep.py`). Names propose which tensors are equal, as most tools keep them.
If they do not suffice, values on random inputs propose more (`values.py`), which takes an evaluation of both models.
The kernel proves each proposal as an equation over the nearest tensors below that both models have (`cones.py`).
Constants that one model folded are compared by value (`constants.py`), after rules have led to them (`folding.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import TypeAlias

from superopt.check.certificate import Certificate, certified
from superopt.check.cones import cones, signatures
from superopt.check.constants import Constants
from superopt.check.folding import Folding, Rewriting, folding_holds
from superopt.check.joining import joined
from superopt.check.layouts import Layouts
from superopt.check.literals import readings
from superopt.check.runs import ConstantRuns
from superopt.check.sweep import Claim, Sweep, holds
from superopt.check.values import Proposals
from superopt.ir.pattern import Bindings, match
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model
from superopt.optimizer.proof_effort import GivenUp, within_effort
from verify.proof_book import ProofBook
from verify.replay import merged_casts

__all__ = ["Equality", "Match", "joined", "prove_equal"]

_VALUES_SHARE = 0.5  # of the time, for evaluating both models
_MAX_CALLS = 2_000_000  # of one proof, see `within_effort`
_FIRST_EFFORT = 1 / 10  # of `_MAX_CALLS`
_Instance: TypeAlias = tuple[Signature, int]  # where an equation is proven: the signature, the reading of literals
_MAX_FAILURES = 3  # below a tensor, among those that were tried by their names
_PAIR_SHARE = 1 / 4  # of the time that is left: a pair that cannot be proven leaves time for the others


@dataclass(frozen=True)
class Match:
    """A tensor of the left model and one of the right model that are proven equal.

    `by` says how: "same" (one structure), "kernel" (a proof of their cones), "rules" (rewriting), "values" (constants
    that were compared), or "runtime" (constants of which ONNX Runtime computed one). `error` bounds the relative error
    of weights that one model folded; 0 means bit for bit.
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
        self.pause = 0.0  # of CPU time, when the next pair has its turn: a busy machine does not change what is found
        self.book = ProofBook()
        self.sweep = Sweep(left, right)
        self.named = _paired_by_name(left, right)
        self.constants, self.runs = Constants(left.weights), ConstantRuns(left, right)
        self.layouts = Layouts((t for t in self.sweep.left if t.is_constant), left.weights)
        self.use_values = False
        self.not_named: set[Term] = set()  # images that are not proven equal to the tensor of their name
        self.values: Proposals | None = None
        self.failed: set[tuple[Rule, tuple[object, ...]]] = set()
        self.proven: dict[Rule, _Instance] = {}  # where an equation was proven last: equal layers need one proof
        self.given_up: dict[tuple[Rule, _Instance], float] = {}  # and the share of the effort that did not suffice
        self.by: dict[Term, tuple[str, float]] = {}
        self.claims: list[Claim] = []
        self.folded: list[tuple[Term, Term, float, bool]] = []  # with True where ONNX Runtime computed one
        self.foldings: list[Folding] = []
        self.rewriting = Rewriting(self.constants, self._signature, self._closed)
        self.unproven: list[tuple[Term, Term, str]] = []

    def run(self) -> Equality:
        named = self._swept()
        if all(named.outputs):
            return named
        # With more tensors to cut at, other cones are proven, so the proof begins again; what is known is not lost.
        self.sweep, self.use_values = Sweep(self.left, self.right), True
        self.by, self.claims, self.folded, self.foldings, self.unproven = {}, [], [], [], []
        return self._swept()

    def _swept(self) -> Equality:
        """Return what one sweep proves."""
        matches: list[Match] = []
        total = sum(1 for _ in topological(self.right.outputs))
        for number, (term, image) in enumerate(self.sweep.run(self.decide), 1):
            if image in self.sweep.left:
                matches.append(Match(image, term, *self.by.get(term, ("same", 0.0))))
            if number % 50 == 0 or number == total:
                self.progress(f"proving: {number} of {total} tensors, {len(matches)} equal")
        images = [self.sweep.image[output] for output in self.right.outputs]
        outputs = tuple(a is b for a, b in zip(self.left.outputs, images, strict=True))
        if merged_casts(self.left.outputs).keys() != merged_casts(self.right.outputs).keys():
            reason = "ONNX Runtime would merge other Casts"
            self.unproven += [(a, b, reason) for a, b in zip(self.left.outputs, self.right.outputs, strict=True)]
            outputs = (False,) * len(outputs)
        certificate = (
            certified(self.left, self.right, self.claims, self.foldings, self.folded) if all(outputs) else None
        )
        return Equality(tuple(matches), tuple(self.unproven), outputs, certificate)

    def decide(self, term: Term, image: Term) -> Term | None:
        """Return a term of the left model that is equal to `image`, or None."""
        if image.is_constant:
            return self._constant(term, image)
        reason = ""
        candidates = self._candidates(term, image)
        self.pause = time.process_time() + _PAIR_SHARE * (self.deadline - time.monotonic())
        for candidate in candidates:
            if self._is_over():
                reason = reason or "the time is over"
                break
            found, reason = self._proven(candidate, image, self.sweep.shared, self.sweep.left)
            if isinstance(found, Claim):
                self.claims.append(found)
                self.by[term] = "kernel", found.read().error
            elif found is not None:
                self.foldings.append(found)
                self.by[term] = "rules", found.error
            if found is not None:
                return candidate
        if candidates:
            self.not_named.add(image)
            self.unproven.append((candidates[0], term, reason))
        return None

    def _is_above_failures(self, image: Term) -> bool:
        """Return True if several images below this one were not proven: then a proof is not to be expected."""
        found, seen, stack = 0, {image}, [image]
        while stack and found < _MAX_FAILURES:
            term = stack.pop()
            found += term in self.not_named
            new = {i for i in term.inputs if i is not None and i not in self.sweep.left} - seen
            seen |= new
            stack += new
        return found >= _MAX_FAILURES

    def _candidates(self, term: Term, image: Term) -> list[Term]:
        """Return terms of the left model that may equal `term`: by its name, in a second sweep by its values."""
        same = self.named.get(term)
        named = [] if same is None or same.is_constant or _dtype(same) != _dtype(term) else [same]
        if not self.use_values:
            return [] if self._is_above_failures(image) else named
        if self.values is None:
            self.progress("evaluating both models on random inputs")
            self.values = Proposals(self.left, self.right, self.seed, self.seconds * _VALUES_SHARE)
            # On a busy machine the evaluation takes longer; proofs get their share all the same.
            self.deadline = max(self.deadline, time.monotonic() + self.seconds * (1 - _VALUES_SHARE))
        return self.values.of(term) if term in self.values else named

    def _constant(self, term: Term, image: Term) -> Term | None:
        """Return a constant of the left model with the same value, or None."""
        alike = self._constants_like(image)
        for candidate in alike:
            error = self.constants.difference(candidate, image)
            if error is not None:
                self.folded.append((candidate, image, error, False))
                self.by[term] = "values", error
                return candidate
        for candidate in self.layouts.expressions(image):
            if self.constants.difference(candidate, image) == 0.0:
                self.folded.append((candidate, image, 0.0, False))
                return candidate
        for candidate in alike:
            if self.runs.agree(candidate, image):
                self.folded.append((candidate, image, 0.0, True))
                self.by[term] = "runtime", 0.0
                return candidate
        return None

    def _constants_like(self, image: Term) -> list[Term]:
        """Return the left model's constants of this type, bare weights first."""
        found = [t for t in self.sweep.left if t.is_constant and t.type == image.type]
        found = [t for t in found if t.op != "Const" or image.op != "Const"]
        return sorted(found, key=lambda t: (bool(t.inputs), t.digest))

    def _proven(
        self, left: Term, right: Term, shared: Set[Term], left_terms: Set[Term], patient: bool = False
    ) -> tuple[Claim | Folding | None, str]:
        """Return a proof that the terms are equal, or None and the reason why there is none."""
        reason = "no cone with known operators"
        for cone in cones(left, right, shared, left_terms):
            if self._is_over(patient):
                return None, reason if time.monotonic() < self.deadline else "the time is over"
            if cone.own:  # a weight of the right model alone stands for a number, never for any number
                begun = time.process_time()
                self.rewriting.load()
                self.pause += time.process_time() - begun
                folding = self.rewriting.find(left, right, cone.leaves, cone.own, self.deadline)
                if folding is not None and folding_holds(folding, self.book, self.constants):
                    return folding, ""
                reason = "no rules lead to the weights of the second model"
                continue
            claim, reason = self._in_kernel(left, right, cone.rule)
            if claim is not None:
                return claim, ""
        return None, reason

    def _in_kernel(self, left: Term, right: Term, rule: Rule) -> tuple[Claim | None, str]:
        bindings = match((*rule.lhs, *rule.rhs), (left, right))
        if bindings is None:
            return None, "the cone is not an instance of its equation"
        types = tuple((name, term.type) for name, term in sorted(bindings.terms.items()))
        if (rule, types) in self.failed:
            return None, "the kernel does not prove it"
        reason = "the kernel does not prove it"
        claims = {(claim.signature, claim.reading): claim for claim in _claims(left, right, rule, bindings)}
        order = sorted(claims, key=lambda instance: instance != self.proven.get(rule))
        for share in (_FIRST_EFFORT, 1.0):  # one reading may have a short proof, another none that is short
            for instance in order:
                if self.given_up.get((rule, instance), 0.0) >= share:
                    reason = "the proof takes too long"
                    continue
                try:
                    if within_effort(holds, claims[instance], self.book, max_calls=int(share * _MAX_CALLS)):
                        self.proven[rule] = instance
                        return claims[instance], ""
                except GivenUp:
                    self.given_up[rule, instance] = share
                    reason = "the proof takes too long"
                    if share == 1.0:
                        break
        self.failed.add((rule, types))
        return None, reason

    def _is_over(self, patient: bool = False) -> bool:
        """Return True if the time is over: all of it, or unless `patient`, that of this pair."""
        return time.monotonic() > self.deadline or (not patient and time.process_time() > self.pause)

    def _closed(self, left: Term, right: Term) -> Claim | None:
        """Return a claim about two cones over variables and equal constants."""
        found, _ = self._proven(left, right, frozenset(), frozenset(topological((left, right))), patient=True)
        return found if isinstance(found, Claim) else None

    def _signature(self, rule: Rule, bindings: Bindings) -> Signature | None:
        try:
            return within_effort(self.book.check, rule, bindings, max_calls=_MAX_CALLS)
        except GivenUp:
            return None


def _dtype(term: Term) -> str:
    return "" if term.type is None else term.type.dtype


def _paired_by_name(left: Model, right: Model) -> dict[Term, Term]:
    """Return the tensor of the left model that has the name of each of the right model, as far as there is one.

    Operands of a pair with the same operator are a pair, unless names say otherwise: tools give new tensors new names.
    """
    ours = {name: term for term, name in _names(left).items()}
    found = {term: ours[name] for term, name in _names(right).items() if name in ours}
    for term in reversed(list(topological(right.outputs))):
        other = found.get(term)
        if other is not None and other.op == term.op:
            for theirs, operand in zip(other.inputs, term.inputs, strict=False):
                if theirs is not None and operand is not None:
                    found.setdefault(operand, theirs)
    return found


def _names(model: Model) -> dict[Term, str]:
    """Return the names of a model's tensors in its file, the names of outputs for these."""
    return {**model.names, **dict(zip(model.outputs, model.output_names, strict=True))}


def _claims(left: Term, right: Term, rule: Rule, bindings: Bindings) -> Iterator[Claim]:
    """Yield the claims to try: with the literals as they stand, then for what they may stand for."""
    found = list(signatures(rule, bindings))
    yield from (Claim(left, right, rule, signature) for signature in found)
    for reading in range(len(readings(rule, bindings.dtype() or "float"))):
        yield from (Claim(left, right, rule, signature, reading + 1) for signature in found)
