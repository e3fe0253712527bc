"""The search, set up for one model on one target: rules, proofs on demand, costs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from superopt.ir.rule import Rule
from superopt.ir.term import topological
from superopt.onnx_io import Model, has_operator
from superopt.optimizer.candidates import Found
from superopt.runtime import Target
from superopt.search import AnalyticCost, Device, MeasuredCost, ModelTimer, Progress, device_of, search
from verify.proofs import ProofBook

__all__ = ["COSTS", "Request", "find"]

COSTS = ("measured", "analytic")  # where costs may come from

# Share of the budget that may go into measuring operators (those measured before are in the cache).
_MEASURING_SHARE = 0.5
# About so many seconds are for one region's timing, and so many times the budget for all.
_TIMING = (0.8, 1.75)
# The same for rules of which only timings tell what they are worth: what shows in a short look is what they are for.
_TIMING_OF_VALUES = (0.25, 0.25)


@dataclass(frozen=True)
class Request:
    """What a search is to do; costs are those at `model.sizes`. `budget` is in seconds; `progress` hears one line now
    and then. `numerics` is that of `book`, `cost` one of COSTS; `device` describes the target to the analytic model
    (None: a usual one). With measured costs, `regions` are timed as models of their own as well."""

    model: Model
    rules: list[Rule]
    book: ProofBook
    target: Target
    alpha: float
    efforts: int
    budget: float
    seed: int
    progress: Callable[[str], None]
    numerics: str
    cost: str = COSTS[0]
    device: Device | None = None
    regions: bool = True

    @property
    def name(self) -> str:
        """The same for a repetition of this request, and for no other."""
        parts = [*(output.digest for output in self.model.outputs), *(rule.id for rule in self.rules)]
        parts += [f"{name}={size}" for name, size in sorted(self.model.sizes.items())]
        parts += map(repr, (self.seed, self.budget, self.alpha, self.efforts, self.numerics, self.device))
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


def find(request: Request) -> Found:
    """Searches within the budget, on costs from where the request says."""

    def tell(at: Progress) -> None:
        request.progress(f"searching: pass {at.number}, {at.done} of {at.total} regions, cost {at.ratio:.3f} of before")

    model, target = request.model, request.target
    device = request.device or device_of(target.provider)
    analytic = AnalyticCost(device, target.threads, model.sizes)
    measured: MeasuredCost | None = None
    timers: list[ModelTimer] = []
    if request.cost == "measured":
        share = _MEASURING_SHARE * request.budget
        measured = MeasuredCost(
            target,
            sizes=model.sizes,
            opset=model.opset,
            fallback=analytic,
            budget_s=share,
            run=request.name,
            present=topological(model.outputs),
        )
        if request.regions:
            timers = [
                ModelTimer(
                    target,
                    model.weights,
                    sizes=model.sizes,
                    opset=model.opset,
                    budget_s=seconds,
                    most_s=times * request.budget,
                    cache=measured.cache,
                    run=request.name,
                )
                for seconds, times in (_TIMING, _TIMING_OF_VALUES)
            ]
    result = search(
        model.outputs,
        request.rules if measured else list(_without_algorithms(request.rules)),
        request.book.check,
        measured or analytic,
        position=model.position,
        alpha=request.alpha,
        efforts=request.efforts,
        budget_s=request.budget,
        region_timer=timers[0] if timers else None,
        value_timer=timers[1] if timers else None,
        progress=tell,
        available=lambda op: has_operator(op, model.opset),
        measuring=lambda: (measured.spent_s if measured else 0.0) + sum(timer.spent_s for timer in timers),
    )
    source = f"analytic, {device.name}"
    if measured is not None:
        counts = measured.counts
        source = f"{counts.measured + counts.cached} operators measured, {counts.estimated} estimated"
        measured.cache.close()
    notices = () if measured is None else tuple(measured.notices)
    costs = (result.cost_before, result.cost_after, source)
    return Found(result.traces, *costs, result.gains, result.origin, notices, result.tally.of_rule)


def _without_algorithms(rules: Iterable[Rule]) -> Iterator[Rule]:
    """The rules that are no algorithm for an operator, with numbers of its own: whether fewer multiplications pay is a
    matter of kernels, of which the analytic model knows nothing."""
    return (rule for rule in rules if all(term.op != "Constant" for term in topological((*rule.lhs, *rule.rhs))))
