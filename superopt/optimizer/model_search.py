"""The search over one model: rules, proofs on demand, and costs for the target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.ir.trace import Rewrite, Trace
from superopt.onnx_io import Model, has_operator
from superopt.optimizer.options import Options
from superopt.optimizer.strategies import Strategy
from superopt.properties import lists_numbers
from superopt.runtime import Target
from superopt.search import AnalyticCost, Attempts, Device, MeasuredCost, ModelTimer, SearchProgress, device_of, search
from superopt.store import ResultStore
from verify.proof_book import Book

__all__ = ["Finder", "FoundRewrites", "SearchRequest", "search_model"]

# Share of the budget for measuring operators (earlier measurements are in the cache).
_OPERATOR_MEASURING_SHARE = 0.5
# (seconds for one region, multiple of the budget for all regions)
_REGION_TIMING = (0.8, 1.75)
# As _REGION_TIMING, for rules whose gain depends on the values in a tensor (denormal numbers): a short timing suffices.
_VALUE_TIMING = (0.25, 0.25)


@dataclass(frozen=True)
class SearchRequest:
    """One search, guided by the costs of `strategy` at `model.sizes`.

    `budget_s` is its share of `options.budget`, in seconds. `proofs` decides where a rule may be applied. `device` is
    the device of the analytic model (None: the provider's default device). `store` holds measurements of earlier runs.
    `progress` receives one line now and then.
    """

    model: Model
    rules: list[Rule]
    proofs: Book
    target: Target
    store: ResultStore
    options: Options
    budget_s: float
    device: Device | None
    progress: Callable[[str], None]
    strategy: Strategy

    @property
    def name(self) -> str:
        """Hash of everything that the search depends on, except its strategy. Only a repeated request has the same."""
        options = self.options
        parts = [*(output.digest for output in self.model.outputs), *(rule.id for rule in self.rules)]
        parts += [f"{name}={size}" for name, size in sorted(self.model.sizes.items())]
        parts += map(repr, (options.seed, self.budget_s, options.alpha, options.effort, options.numerics, self.device))
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class FoundRewrites:
    """Result of one search.

    `traces` are its passes, each on the result of the pass before. Costs are in seconds; `gains` are the seconds
    that one use of a rewrite saves. `origin` names the rule that made a term. `attempts` counts, for each rule by id,
    matches, trials and uses.
    """

    traces: tuple[Trace, ...] = ()
    cost_before: float | None = None
    cost_after: float | None = None
    cost_source: str = ""
    gains: Mapping[Rewrite, float] = field(default_factory=dict)
    origin: Mapping[Term, str] = field(default_factory=dict)
    attempts: Mapping[str, Attempts] = field(default_factory=dict)


Finder = Callable[[SearchRequest], FoundRewrites]


def search_model(request: SearchRequest) -> FoundRewrites:
    """Search for a cheaper graph within the budget, with the costs of the request's strategy."""

    def report(at: SearchProgress) -> None:
        regions = f"{at.done} of {at.total} regions"
        request.progress(f"searching: pass {at.pass_number}, {regions}, cost {at.cost_ratio:.3f} of before")

    model, target, options = request.model, request.target, request.options
    device = request.device or device_of(target.provider)
    analytic = AnalyticCost(device, target.threads, model.sizes)
    measured: MeasuredCost | None = None
    timers: list[ModelTimer] = []
    if request.strategy.cost == "measured":
        measured = MeasuredCost(
            target,
            sizes=model.sizes,
            opset=model.opset,
            store=request.store,
            fallback=analytic,
            budget_s=_OPERATOR_MEASURING_SHARE * request.budget_s,
            run=request.name,
            present=topological(model.outputs),
        )
        if request.strategy.time_regions:
            timers = [
                ModelTimer(
                    target,
                    model.weights,
                    sizes=model.sizes,
                    opset=model.opset,
                    budget_s=seconds,
                    total_budget_s=multiple * request.budget_s,
                    store=request.store,
                    run=request.name,
                )
                for seconds, multiple in (_REGION_TIMING, _VALUE_TIMING)
            ]
    result = search(
        model.outputs,
        request.rules if measured else list(_without_algorithms(request.rules)),
        request.proofs.check,
        measured or analytic,
        position=model.position,
        alpha=options.alpha,
        efforts=options.effort,
        budget_s=request.budget_s,
        region_timer=timers[0] if timers else None,
        denormal_timer=timers[1] if timers else None,
        progress=report,
        available=lambda op: has_operator(op, model.opset),
        measuring_s=lambda: (measured.spent_s if measured else 0.0) + sum(timer.spent_s for timer in timers),
    )
    source = f"analytic, {device.name}"
    if measured is not None:
        counts = measured.counts
        source = f"{counts.measured + counts.cached} operators measured, {counts.estimated} estimated"
    costs = (result.cost_before, result.cost_after, source)
    return FoundRewrites(result.traces, *costs, result.savings_s, result.origin, result.match_report.by_rule)


def _without_algorithms(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Drop rules that are algorithms for an operator, such as minimal filtering. They introduce constants.

    The analytic model counts multiplications but does not model the runtime's kernels, so it cannot tell if fewer
    multiplications are faster.
    """
    return (rule for rule in rules if not any(lists_numbers(term.op) for term in topological((*rule.lhs, *rule.rhs))))
