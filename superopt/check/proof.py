"""One sweep over two models: proposes equal tensors, by names or by values, and proves them one after the other.

Most tools keep names. If they do not suffice, values on random inputs propose more (`values.py`), which takes an
evaluation of both models. Each proposal becomes an equation over the nearest tensors below that both models have
(`cones.py`). Constants that one model folded are compared by value (`constants.py`), if need be after rules have led to
them (`folding.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set

from superopt.check.bodies import Bodies, has_bodies
from superopt.check.certificate import BodyClaim, certified
from superopt.check.cones import cones
from superopt.check.constants import Candidates, ChangedWeight, Constants, rests_on
from superopt.check.deadline import Deadline
from superopt.check.equations import FIRST_EFFORT, PATIENT_EFFORT, TOO_LONG, Equations
from superopt.check.folding import Folding, Rewriting, folding_holds
from superopt.check.layouts import Layouts
from superopt.check.proven import Equality, Match
from superopt.check.runs import ConstantRuns
from superopt.check.sweep import Claim, Sweep
from superopt.check.values import Proposals
from superopt.evaluate import rounding_decides
from superopt.ir.dim import Dim
from superopt.ir.infer import OPERATORS, make
from superopt.ir.rule import Rule
from superopt.ir.term import Term, node_of, topological
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.onnx_io import Model
from superopt.onnx_io.opaque import is_random
from verify.replay import merged_casts

__all__ = ["SweepProof"]

_MAX_FAILURES = 3  # below a tensor, among those that were tried by their names
_MAX_MISSES = 2  # tensors in a row that need a weight to which rules do not lead
_MANY_TERMS = 40  # of an equation, variables among them
_PAIR_SHARE = 1 / 4  # of the time that is left: a pair that cannot be proven leaves time for the others
_NO_FOLDING = "no rules lead to the weights of the second model"
_NO_EXACT_FOLDING = (
    "no rules lead to exactly the weights of the second model, and roundings matter: {} jumps behind them"
)
_JUMPS = "a function jumps behind it, and a literal is not quite the number that it would have to be"


class SweepProof:
    """A proof by one sweep. `values` proposes equal tensors, besides names; `progress` receives one line now and then.

    With values, rules are tried where only one model has a weight. With `but_for_changed`, weights of which a few
    elements were changed are taken for equal. With `but_for_jumps`, roundings before functions that jump are taken for
    harmless. In both cases nothing is proven of the models themselves.

    `compare` proves two bodies equal. The proof ends at `deadline`, or at `end` as long as it has proven every pair.
    Unless it is the last one, it also ends where rules do not lead to weights: then the right model is more than the
    left one with folded weights.
    """

    def __init__(
        self,
        left: Model,
        right: Model,
        equations: Equations,
        constants: Constants,
        rules: Callable[[], list[Rule]],
        *,
        values: Proposals | None,
        but_for_changed: bool = False,
        but_for_jumps: bool = False,
        compare: Callable[[Model, Model], Equality],
        deadline: Deadline,
        end: Deadline,
        is_last: bool = False,
        progress: Callable[[str], None],
    ) -> None:
        self.left, self.right, self.progress = left, right, progress
        self._deadline, self._end, self.values = deadline, end, values
        self.pause = 0.0  # of CPU time, when the next pair has its turn
        self.equations, self.constants = equations, constants.within(left, right, but_for_jumps=but_for_jumps)
        self.sweep = Sweep(left, right)
        self.named = _paired_by_name(left, right)
        self.runs = ConstantRuns(left, right)
        self.bodies, self.compare = Bodies(left, right), compare
        self.body_claims: list[BodyClaim] = []
        self.but_for_changed, self.but_for_jumps = but_for_changed, but_for_jumps
        self.jumps: set[str] = set()
        self.changed: list[ChangedWeight] = []
        constants_left = [term for term in self.sweep.left if term.is_constant]
        self.by_type = _by_type(constants_left, self.sweep.left)
        self.candidates: dict[TensorType | None, Candidates] = {}
        self.layouts = Layouts(constants_left, left.weights)
        self.not_named: set[Term] = set()  # images that are not proven equal to the tensor of their name
        self.by: dict[Term, tuple[str, float]] = {}
        self.claims: list[Claim] = []
        self.congruent: list[tuple[Term, Term]] = []  # terms over operands that are claimed to be equal
        self.folded: list[tuple[Term, Term, float, bool]] = []  # with True where ONNX Runtime computed one
        self.rounded: set[Term] = set()  # constants that are equal within a bound only to those of the right model
        self.foldings: list[Folding] = []
        self.rewriting = Rewriting(rules, self.constants, equations.signature, self._closed)
        self.unproven: list[tuple[Term, Term, str]] = []
        self.is_last, self.misses = is_last, 0

    @property
    def deadline(self) -> Deadline:
        """The time at which the proof ends."""
        return self._deadline if self.unproven else self._end

    def run(self) -> Equality:
        """Return what the sweep proves."""
        matches: list[Match] = []
        total = sum(1 for _ in topological(self.right.outputs))
        for number, (term, image) in enumerate(self.sweep.run(self.decide, self.is_equal), 1):
            if image in self.sweep.left or term in self.by:  # a negated weight is no term of the left model
                matches.append(Match(image, term, *self.by.get(term, ("same", 0.0))))
            if number % 50 == 0 or number == total:
                self.progress(f"proving: {number} of {total} tensors and weights, {len(matches)} equal")
        outputs = tuple(a is b for a, b in zip(self.left.outputs, self.sweep.outputs, strict=True))
        if merged_casts(self.left.outputs).keys() != merged_casts(self.right.outputs).keys():
            reason = "ONNX Runtime would merge other Casts"
            self.unproven += [(a, b, reason) for a, b in zip(self.left.outputs, self.right.outputs, strict=True)]
            outputs = (False,) * len(outputs)
        certificate = None
        if all(outputs) and not (self.changed and self.but_for_changed) and not self.but_for_jumps:
            parts = self.claims, self.congruent, self.foldings, self.folded, self.body_claims
            certificate = certified(self.left, self.right, *parts)
        pair, unproven, changed = (self.left, self.right), tuple(self.unproven), tuple(self.changed)
        return Equality(pair, tuple(matches), unproven, outputs, certificate, changed, frozenset(self.jumps))

    def decide(self, term: Term, image: Term) -> Term | None:
        """Return a term of the left model that is equal to `image`, or None."""
        if image.is_constant:
            return self._constant(term, image)
        if has_bodies(image):
            return self._with_equal_bodies(term, image)
        if len(term.types) != 1:
            return None  # an operator of several outputs is no tensor
        reason = ""
        candidates = self._candidates(term, image)
        seconds = _PAIR_SHARE * self.deadline.left_s
        for candidate in candidates:
            self.pause = time.process_time() + seconds / len(candidates)
            if self._is_over():
                reason = reason or "the time is over"
                break
            found, reason = self._proven(candidate, image, self.sweep.shared, self.sweep.left)
            last = found.last if isinstance(found, Folding) else found
            if not self.constants.bears(last, candidate, term):
                found, reason = None, _JUMPS
                self._jump_behind((term,))
            if isinstance(found, Claim):
                self.claims.append(found)
                self.by[term] = "kernel", found.read().error
            elif found is not None:
                self.foldings.append(found)
                self.by[term] = "rules", found.error
            if found is not None:
                return candidate
        # The cones of an operator with a definition have its operands in them.
        for candidate in (one for one in candidates if one.op not in OPERATORS):
            claims = (
                self._operands_equal(candidate, image, term)
                if self.sweep.is_congruent(candidate, image, term)
                else None
            )
            if claims is not None:
                self.claims += claims
                self.congruent.append((image, candidate))
                self.by[term] = "kernel", max((claim.read().error for claim in claims), default=0.0)
                return candidate
        if candidates:
            self.not_named.add(image)
            self.unproven.append((candidates[0], term, reason))
        return None

    def _operands_equal(self, ours: Term, image: Term, own: Term) -> list[Claim] | None:
        """Return claims that the operands of two terms are equal, all of the left model, or None.

        A model may compute a tensor twice, in two ways, and the other one read the first result in place of the second.
        """
        claims: list[Claim] = []
        for one, other in zip(ours.inputs, image.inputs, strict=True):
            if one is not other and one is not None and other is not None:
                found, _ = self._proven(one, other, self.sweep.shared, self.sweep.left)
                if not isinstance(found, Claim) or not self.constants.bears(found, ours, own):
                    return None
                claims.append(found)
        return claims

    def is_equal(self, end: Term, output: Term) -> bool:
        """Return True if outputs are proven equal, of which the right one's image is another term of the left model."""
        self.pause = time.process_time() + _PAIR_SHARE * self.deadline.left_s
        found, reason = self._proven(end, self.sweep.image[output], self.sweep.shared, self.sweep.left)
        if isinstance(found, Claim) and self.constants.bears(found, end, output):
            self.claims.append(found)
            return True
        reason = reason or _JUMPS
        self.unproven.append((end, output, reason))
        return False

    def _with_equal_bodies(self, term: Term, image: Term) -> Term | None:
        """Return a node of the left model that reads the same tensors and has equal bodies, or None."""
        for ours in sorted(filter(has_bodies, self.sweep.left), key=lambda node: node.digest):
            pairs = self.bodies.pairs(ours, image)
            if pairs is None:
                continue
            certificates, by, error = [], "bodies", 0.0
            for pair in pairs:
                found = self.compare(*pair)
                if found.certificate is None:
                    break
                certificates.append(found.certificate)
                error = max([error, *(match.error for match in found.matches)])
                by = "runtime" if any(match.by == "runtime" for match in found.matches) else by
            else:
                self.body_claims.append((image.digest, ours.digest, tuple(certificates)))
                self.by[term] = by, error
                return ours
            self.unproven.append((ours, term, "the bodies are not proven equal"))
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
        """Return terms of the left model that may equal `term`: by its values if they are known, else by its name."""
        if self.values is not None and term in self.values:
            return self.values.of(term)
        same = self.named.get(term)
        if same is None or same.is_constant or not _may_have_one_type(same, term):
            return []
        return [] if self.values is None and self._is_above_failures(image) else [same]

    def _constant(self, term: Term, image: Term) -> Term | None:
        """Return a constant over those of the left model with the same value, or None."""
        if image.type not in self.candidates:
            self.candidates[image.type] = Candidates(self.constants, self.by_type.get(image.type, ()))
        near = self.candidates[image.type].near(image)
        # What roundings decide only a run says, and operators may read it. Other runs are the last resort.
        decided = [rounding_decides(candidate) for candidate in near]
        for may_run in (True, False):
            for candidate, is_decided in zip(near, decided, strict=True):
                error = self.constants.difference(candidate, image, term) if may_run else None
                if error and rests_on(image, self.rounded):
                    error = None
                ran = error is None and is_decided == may_run and self.runs.agree(candidate, image)
                if error is not None or ran:
                    self.folded.append((candidate, image, error or 0.0, ran))
                    self.rounded.update((candidate,) if error else ())
                    self.by[term] = ("runtime" if ran else "values"), error or 0.0
                    return candidate
        for candidate in self.layouts.expressions(image):
            if self.constants.difference(candidate, image) == 0.0:
                self.folded.append((candidate, image, 0.0, False))
                return candidate
        same = self.named.get(term)
        changed = None if same is None else self.constants.changed(same, image)
        if changed is None:
            return None
        self.changed.append(changed)
        return same if self.but_for_changed else None

    def _proven(
        self, left: Term, right: Term, shared: Set[Term], left_terms: Set[Term], in_time: bool = True
    ) -> tuple[Claim | Folding | None, str]:
        """Return a proof that the terms are equal, or None and the reason why there is none.

        It ends when the time of this pair is over, unless it need not be `in_time`.
        """
        if is_random(node_of(left)):
            return None, "it draws random numbers"
        reason, is_first, missed = "no cone with known operators", True, 0
        too_long: frozenset[Term] | None = None  # the leaves of a cone whose proof takes too long
        for cone in cones(left, right, shared, left_terms):
            if self._is_over(in_time):
                return None, "the time is over" if self.deadline.is_over else reason
            if too_long is not None and self.values is None:
                break  # other tensors are next
            if too_long == cone.leaves:
                continue  # nor will the proof be short for numbers in place of variables
            if cone.own:  # a weight of the right model alone stands for a number, never for any number
                jump = self._jump_behind(cone.own)
                reason = _NO_FOLDING if jump is None else _NO_EXACT_FOLDING.format(jump)
                if self.values is None:
                    continue
                begun = time.process_time()
                self.rewriting.load()
                self.pause += time.process_time() - begun
                folding = self.rewriting.find(left, right, cone.leaves, cone.own, self.deadline)
                if folding is not None and folding_holds(folding, self.equations.book, self.constants):
                    self.misses = 0
                    return folding, ""
                missed = 1
                continue
            # By values, there will be more tensors to cut at, and wide cones may not be needed. Equal values are worth
            # more time.
            is_wide = not is_first or len(set(topological((*cone.rule.lhs, *cone.rule.rhs)))) > _MANY_TERMS
            effort = FIRST_EFFORT if is_wide else 1.0
            if self.values is not None:
                effort = PATIENT_EFFORT if in_time and not is_wide else 1.0
            # `MAX_CALLS` take a second or two, so the last proof cannot go on long after the end.
            effort = min(effort, max(FIRST_EFFORT, self.deadline.left_s))
            claim, reason = self.equations.claim(left, right, cone.rule, effort)
            if claim is not None:
                return claim, ""
            is_first = False
            too_long = cone.leaves if reason == TOO_LONG else too_long
        self.misses += missed
        return None, reason

    def _jump_behind(self, terms: Iterable[Term]) -> str | None:
        """Return and note the operator that jumps behind one of `terms`, or None."""
        jump = self.constants.jump_behind(terms)
        self.jumps.update(() if jump is None else (jump.op,))
        return None if jump is None else jump.op

    def _is_over(self, in_time: bool = True) -> bool:
        """Return True if the time is over: all of it, or if a proof must be `in_time`, that of this pair."""
        if self.deadline.is_over or (not self.is_last and self.misses >= _MAX_MISSES):
            return True
        return in_time and time.process_time() > self.pause

    def _closed(self, left: Term, right: Term) -> Claim | None:
        """Return a claim about two cones over variables and equal constants."""
        found, _ = self._proven(left, right, frozenset(), frozenset(topological((left, right))), in_time=False)
        return found if isinstance(found, Claim) else None


def _by_type(constants: Iterable[Term], terms: Iterable[Term]) -> dict[TensorType | None, list[Term]]:
    """Return constants by type: bare ones, those that operators at run time read, and those below; then all negated."""
    read = {operand for term in terms if not term.is_constant for operand in term.inputs}
    found: dict[TensorType | None, list[Term]] = {}
    for term in sorted(constants, key=lambda t: (bool(t.inputs), t not in read, t.digest)):
        found.setdefault(term.type, []).append(term)
    for type, alike in found.items():
        if type is not None and type.dtype in FLOAT_DTYPES:  # a search moves signs between weights and operators
            alike += [make("Neg", (term,)) for term in alike]
    return found


def _may_have_one_type(left: Term, right: Term) -> bool:
    """Return False if the element types differ, or the ranks, or two sizes that are numbers."""
    one, other = left.type, right.type
    if one is None or other is None:
        return one is other
    if one.dtype != other.dtype or one.shape is None or other.shape is None:
        return one.dtype == other.dtype
    pairs = zip(one.shape, other.shape, strict=False)
    return len(one.shape) == len(other.shape) and all(
        a == b or isinstance(a, Dim) or isinstance(b, Dim) for a, b in pairs
    )


def _paired_by_name(left: Model, right: Model) -> dict[Term, Term]:
    """Return the tensor of the left model that has the name of each of the right model, as far as there is one.

    Operands of a pair with the same operator are a pair, unless names say otherwise: tools give new tensors new names.
    So are operands that one operator computes, if the pair has two: a LeakyRelu of a Conv, and a PRelu of a Conv.
    """
    ours = {name: term for term, name in _names(left).items()}
    found = {term: ours[name] for term, name in _names(right).items() if name in ours}
    for term in reversed(list(topological(right.outputs))):
        other = found.get(term)
        if other is None:
            continue
        for theirs, operand in zip(other.inputs, term.inputs, strict=False):
            if theirs is not None and operand is not None and (other.op == term.op or theirs.op == operand.op):
                found.setdefault(operand, theirs)
    return found


def _names(model: Model) -> dict[Term, str]:
    """Return the names of a model's tensors in its file, the names of outputs for these."""
    return {**model.names, **dict(zip(model.outputs, model.output_names, strict=True))}
