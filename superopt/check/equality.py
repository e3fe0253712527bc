"""Proves that two models compute the same outputs.

First, regions that are equal in structure are one term (`joining.py`). Then the right model's tensors are replaced by
equal ones of the left model, inputs first (`proof.py`, `sweep.py`). Names propose which tensors are equal, then values
do. If they do not suffice, rules rewrite the left model, and the right one too (`derivation.py`); names and values
propose again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, cached_property

from superopt.check.constants import Constants
from superopt.check.deadline import Deadline
from superopt.check.derivation import Derived, derivation_text, derived, devices_of, fused_in
from superopt.check.equations import Equations
from superopt.check.joining import joined
from superopt.check.left_out import is_computed_as_often
from superopt.check.proof import SweepProof
from superopt.check.proven import Equality
from superopt.check.values import Proposals
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model
from superopt.optimizer.algorithm_timer import without_algorithms
from superopt.optimizer.proof_cache import ProofCache
from superopt.properties import jumping_operands
from superopt.rulebook.loading import chosen_rules
from superopt.search import Device
from superopt.store import ResultStore
from superopt.temporary import temporary_folder
from verify.certificates import Certificate

__all__ = ["but_for_jumps", "joined", "prove_equal"]

# Shares of the time: for rewriting one of the models, and for evaluating both.
_REWRITING_SHARE, _VALUES_SHARE = 0.2, 0.3
_PROOF_BUDGET = 4.0  # see `calls_within`: a rule that takes longer to prove is not used for rewriting


def prove_equal(
    left: Model,
    right: Model,
    *,
    seconds: float,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Equality:
    """Prove the outputs of two `joined` models equal, in about `seconds` seconds of CPU time (see `Deadline`)."""
    if len(left.outputs) != len(right.outputs):
        return Equality((left, right), (), (), (False,) * len(left.outputs), None)
    if not is_computed_as_often(left, right):
        reason = "the second model may fail where the first one does not: sizes must be equal, or a node is unread"
        unproven = tuple((a, b, reason) for a, b in zip(left.outputs, right.outputs, strict=True))
        return Equality((left, right), (), unproven, (False,) * len(left.outputs), None)
    return _Proof(left, right, seconds, seed, progress or (lambda line: None)).run()


def but_for_jumps(jumps: Iterable[str]) -> str:
    """Return what is proven if roundings before operators that jump are all that may tell two models apart."""
    return f"equal but for roundings before {' and '.join(sorted(jumps))}, which may jump there"


def _depends_on_jump(output: Term) -> bool:
    return any(not term.is_constant and jumping_operands(term) for term in topological((output,)))


@cache
def _rules() -> tuple[list[Rule], Mapping[Rule, Certificate]]:
    return chosen_rules()


@cache
def _usual_rules() -> list[Rule]:
    """Return the rules but for algorithms for an operator: their tensors are in no model that was made otherwise."""
    return list(without_algorithms(_rules()[0]))


class _Proof:
    def __init__(self, left: Model, right: Model, seconds: float, seed: int, progress: Callable[[str], None]) -> None:
        self.models, self.progress = (left, right), progress
        self.seconds, self.seed = seconds, seed
        self.deadline = Deadline.after(seconds)
        self.equations = Equations()
        self.constants = Constants.of_models(left, right)
        self.compared: dict[tuple[tuple[Term, ...], ...], Equality] = {}  # bodies by their outputs
        self.proposals: dict[tuple[tuple[Term, ...], ...], Proposals] = {}  # of two graphs by their outputs

    def run(self) -> Equality:
        """Return the first sweep that proves all outputs equal, or the last one.

        With more tensors to cut at, other cones are proven, so each sweep begins anew; what is known is not lost.
        """
        found = self._named(self.models)
        if all(found.outputs) or found.changed:
            return found
        found = self._swept(self.models, by_values=True)
        if all(found.outputs):
            return found
        otherwise = self._but_for_jumps(found.jumps) if found.jumps else None
        found = self._found_by_rules() or found
        return replace(found, jumps=frozenset()) if all(found.outputs) or otherwise is None else otherwise

    def _but_for_jumps(self, jumps: frozenset[str]) -> Equality | None:
        """Return what is proven if all outputs are equal, should no rounding matter to operators that jump; or None.

        An output that does not depend on such an operator is proven equal.
        """
        found = self._swept(self.models, by_values=True, but_for_jumps=True)
        if not all(found.outputs):
            return None
        pairs = list(zip(*(model.outputs for model in self.models), strict=True))
        outputs = tuple(not any(map(_depends_on_jump, pair)) for pair in pairs)
        why = but_for_jumps(jumps)
        unproven = tuple((*pair, why) for pair, proven in zip(pairs, outputs, strict=True) if not proven)
        return replace(found, outputs=outputs, unproven=unproven, jumps=jumps)

    def _found_by_rules(self) -> Equality | None:
        """Return what sweeps prove after rules have rewritten the left model, and then the right one as well.

        An optimizer with the same rules has done to the left model what they do here, up to some pass. None if the time
        is over before.
        """
        right = Derived(self.models[1], ())
        for device in devices_of(self.models):
            if time.monotonic() > self.deadline.clock_s:
                return None
            passes = self._rewritten(self.models[0], 1, device)
            for left in reversed(passes[1:]):
                found = self._named((left.model, right.model))
                if all(found.outputs) or found.changed:
                    return self._with_derivations(found, left, right)
        if time.monotonic() > self.deadline.clock_s:
            return None
        left, right = passes[-1], self._rewritten(self.models[1], 2, device)[-1]
        if right.traces:
            found = self._named((left.model, right.model))
            if all(found.outputs) or found.changed:
                return self._with_derivations(found, left, right)
        found = self._swept((left.model, right.model), by_values=True, is_last=True)
        found = replace(found, changed=())
        return self._with_derivations(found, left, right) if left.traces or right.traces else found

    def _with_derivations(self, found: Equality, left: Derived, right: Derived) -> Equality:
        """Return the result for the models as read, with the steps that lead to those that were compared."""
        found = self._as_found_by_rules(found)
        if found.certificate is None:
            return found
        one, other = (
            derivation_text(model, end.traces, self.equations.book)
            for model, end in zip(self.models, (left, right), strict=True)
        )
        return replace(found, certificate=replace(found.certificate, derivations=(one, other)))

    def _as_found_by_rules(self, found: Equality) -> Equality:
        """Return the result with what is one structure in the rewritten models only as found by rules."""
        as_read = [set(topological(model.outputs)) for model in self.models]
        return replace(
            found,
            matches=tuple(
                replace(one, by="rules")
                if one.by == "same" and not (one.left in as_read[0] and one.right in as_read[1])
                else one
                for one in found.matches
            ),
        )

    def _named(self, models: tuple[Model, Model]) -> Equality:
        """Return the result of a sweep by names. It has changed weights only if all else is equal."""
        found = replace(self._swept(models), jumps=frozenset())
        if all(found.outputs) or not found.changed:
            return replace(found, changed=())
        otherwise = self._swept(models, but_for_changed=True)
        return replace(found, changed=otherwise.changed if all(otherwise.outputs) else ())

    def _swept(
        self,
        models: tuple[Model, Model],
        by_values: bool = False,
        is_last: bool = False,
        but_for_changed: bool = False,
        but_for_jumps: bool = False,
    ) -> Equality:
        """Return the result of a sweep, which takes half of the time that is left unless it is the last or succeeds."""
        left, right = models
        values = None
        if by_values:
            key = (left.outputs, right.outputs)
            if key not in self.proposals:
                self.progress("evaluating both models on random inputs")
                self.proposals[key] = Proposals(left, right, self.seed, self.seconds * _VALUES_SHARE)
            values = self.proposals[key]
            # However long names took, these proofs get their share.
            self.deadline = self.deadline.with_left(max(self.deadline.left_s, self.seconds * (1 - _VALUES_SHARE) / 2))
        return SweepProof(
            left,
            right,
            self.equations,
            self.constants,
            _usual_rules,
            values=values,
            but_for_changed=but_for_changed,
            but_for_jumps=but_for_jumps,
            compare=self._compared,
            deadline=self.deadline if is_last else self.deadline.with_left(self.deadline.left_s / 2),
            end=self.deadline,
            is_last=is_last,
            progress=self.progress,
        ).run()

    def _compared(self, left: Model, right: Model) -> Equality:
        """Return what a proof of its own finds about two bodies, in half of the time that is left."""
        key = (left.outputs, right.outputs)
        if key not in self.compared:
            seconds = self.deadline.left_s / 2
            self.compared[key] = prove_equal(left, right, seconds=seconds, seed=self.seed, progress=self.progress)
        return self.compared[key]

    def _rewritten(self, model: Model, number: int, device: Device) -> list[Derived]:
        """Return what rules make of a model, pass by pass, beginning with the model, which is number 1 or 2.

        The costs that lead them are those of `device`.
        """
        self.progress(f"rewriting model {number} of 2 by rules")
        seconds = self.seconds * _REWRITING_SHARE
        fused = fused_in(self.models)
        deadline = min(time.monotonic() + 2 * seconds, self.deadline.clock_s)
        book, other, is_second = self.equations.book, self.models[number % 2].outputs, number == 2
        return derived(model, _rules()[0], self._proofs, book, seconds, deadline, device, fused, other, is_second)

    @cached_property
    def _proofs(self) -> ProofCache:
        """The kernel's answers about rules, for both models and all devices. The closed store keeps none of them."""
        with temporary_folder() as folder, ResultStore(folder / "store.sqlite") as store:
            return ProofCache(store, _rules()[1], budget_s=_PROOF_BUDGET)
