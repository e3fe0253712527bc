"""The search, set up for one model on one target: rules, proofs on demand, costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from superopt.ir.dim import Size
from superopt.ir.rule import Rule
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType
from superopt.onnx_io import Model
from superopt.optimizer.candidates import Found
from superopt.runtime import Target
from superopt.search import CPU, CUDA, AnalyticCost, CostModel, Progress, search
from verify.proofs import ProofBook

__all__ = ["AtSizes", "Request", "find"]


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


class AtSizes:
    """A cost model asked at given values of symbolic sizes. Proofs stay general: only costs see these values."""

    def __init__(self, cost: CostModel, sizes: Mapping[str, int]) -> None:
        self._cost = cost
        self._sizes: dict[str, Size] = dict(sizes)

    @property
    def seconds_per_weight_byte(self) -> float:
        """As the model underneath has it."""
        return self._cost.seconds_per_weight_byte

    def cost(self, term: Term) -> float:
        """Seconds for the one operator `term` at the sizes given."""
        if not self._sizes:
            return self._cost.cost(term)
        inputs = tuple(i if i is None or i.weight_only else self._leaf(i) for i in term.inputs)
        return self._cost.cost(Term.of(term.op, inputs, dict(term.attrs), tuple(map(self._at, term.types))))

    def _leaf(self, term: Term) -> Term:
        return var(term.digest, self._at(term.type))

    def _at(self, type: TensorType | None) -> TensorType | None:
        return None if type is None else type.with_sizes(self._sizes)


def find(request: Request) -> Found:
    """Searches within the budget."""

    def tell(at: Progress) -> None:
        request.progress(f"searching: pass {at.number}, {at.done} of {at.total} regions, cost {at.ratio:.3f} of before")

    analytic = AnalyticCost(CUDA if request.target.provider == "cuda" else CPU, max(1, request.target.threads))
    result = search(
        request.model.outputs,
        request.rules,
        request.book.check,
        AtSizes(analytic, request.model.sizes),
        position=request.model.position,
        alpha=request.alpha,
        budget_s=request.budget,
        seed=request.seed,
        progress=tell,
    )
    return Found(result.traces, result.cost_before, result.cost_after, "analytic", result.gains, result.origin)
