"""The search, set up for one model on one target: rules, proofs on demand, costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from superopt.ir.rule import Rule
from superopt.onnx_io import Model
from superopt.optimizer.candidates import Found
from superopt.runtime import Target
from superopt.search import MeasuredCost, ModelTimer, Progress, search
from verify.proofs import ProofBook

__all__ = ["Request", "find"]

# Share of the budget that may go into measuring operators (those measured before are in the cache).
_MEASURING_SHARE = 0.3


@dataclass(frozen=True)
class Request:
    """What a search is to do; costs are those at `model.sizes`. `budget` is in seconds; `progress` hears one line now
    and then."""

    model: Model
    rules: list[Rule]
    book: ProofBook
    target: Target
    alpha: float
    budget: float
    seed: int
    progress: Callable[[str], None]


def find(request: Request) -> Found:
    """Searches within the budget, on measured costs."""

    def tell(at: Progress) -> None:
        request.progress(f"searching: pass {at.number}, {at.done} of {at.total} regions, cost {at.ratio:.3f} of before")

    model, target = request.model, request.target
    cost = MeasuredCost(target, sizes=model.sizes, opset=model.opset, budget_s=_MEASURING_SHARE * request.budget)
    result = search(
        model.outputs,
        request.rules,
        request.book.check,
        cost,
        position=model.position,
        alpha=request.alpha,
        budget_s=request.budget,
        seed=request.seed,
        region_timer=ModelTimer(target, model.weights, sizes=model.sizes, opset=model.opset),
        progress=tell,
    )
    counts = cost.counts
    source = f"{counts.measured + counts.cached} operators measured, {counts.estimated} estimated"
    return Found(
        result.traces, result.cost_before, result.cost_after, source, result.gains, result.origin, tuple(cost.notices)
    )
