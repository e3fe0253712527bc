"""The search, set up for one model on one target: rules, proofs on demand, costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from superopt.ir.rule import Rule
from superopt.onnx_io import Model
from superopt.optimizer.candidates import Found
from superopt.runtime import Target
from superopt.search import CPU, CUDA, AnalyticCost, Progress, search
from verify.proofs import ProofBook

__all__ = ["Request", "find"]


@dataclass(frozen=True)
class Request:
    """What a search is to do. `budget` in seconds; `progress` hears one line now and then."""

    model: Model
    rules: list[Rule]
    book: ProofBook
    target: Target
    alpha: float
    budget: float
    seed: int
    progress: Callable[[str], None]


def find(request: Request) -> Found:
    """Searches within the budget."""

    def tell(at: Progress) -> None:
        request.progress(f"searching: pass {at.number}, {at.done} of {at.total} regions, cost {at.ratio:.3f} of before")

    cost = AnalyticCost(CUDA if request.target.provider == "cuda" else CPU, max(1, request.target.threads))
    result = search(
        request.model.outputs,
        request.rules,
        request.book.check,
        cost,
        position=request.model.position,
        alpha=request.alpha,
        budget_s=request.budget,
        seed=request.seed,
        progress=tell,
    )
    return Found(result.traces, result.cost_before, result.cost_after, "analytic", result.gains, result.origin)
