"""The search over one model: rules, proofs on demand, and costs for the target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.ir.trace import Rewrite, Trace
from superopt.onnx_io import Model, has_operator, is_standard
from superopt.optimizer.folding import first_allowance
from superopt.optimizer.options import Options
from superopt.optimizer.strategies import Strategy
from superopt.properties import lists_numbers
from superopt.runtime import Target
from superopt.search import (
    AnalyticCost,
    Attempts,
    Device,
    MeasuredCost,
    ModelTimer,
    SearchProgress,
    TimerOverSizes,
    device_of,
    find_device,
    search,
    shipped_devices,
)
from superopt.search.apply import AppliedTrace
from superopt.search.cost.over_sizes import RESOLUTION, SizeGuard
from superopt.store import ResultStore
from verify.proof_book import Book

__all__ = ["Finder", "FoundRewrites", "SearchRequest", "search_model"]

# Analytic times on a device that differ by less than this share are equal. They have no noise, but the search rounds
# prices to as much, and a weight folded into a bias is a few bytes more to read.
_ANALYTIC_RESOLUTION = 0.001
# Share of the budget for measuring operators (earlier measurements are in the cache).
_OPERATOR_MEASURING_SHARE = 0.5
# (seconds for one region, multiple of the budget for all regions)
_REGION_TIMING = (0.8, 1.75)
# As _REGION_TIMING, for rules whose gain depends on the values in a tensor (denormal numbers): a short timing suffices.
_VALUE_TIMING = (0.25, 0.25)


@dataclass(frozen=True)
class SearchRequest:
    """One search, guided by the costs of `strategy`.

    `sizes` has the values of the model's symbolic sizes, for each of the sizes at which it is measured (empty: only
    `model.sizes`).

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
    sizes: tuple[Mapping[str, int], ...] = ()

    @property
    def all_sizes(self) -> tuple[Mapping[str, int], ...]:
        """The values of symbolic sizes that costs are for, at least one set."""
        return self.sizes or (self.model.sizes,)

    @property
    def name(self) -> str:
        """Hash of everything that the search depends on, except its strategy. Only a repeated request has the same."""
        options = self.options
        parts = [*(output.digest for output in self.model.outputs), *(rule.id for rule in self.rules)]
        parts += [f"{name}={size}" for sizes in self.all_sizes for name, size in sorted(sizes.items())]
        parts += map(repr, (options.seed, self.budget_s, options.alpha, options.effort, options.numerics, self.device))
        parts += map(repr, (options.domains, options.quick))
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
    device = request.device or device_of(target.device)
    devices = _all_devices(device) if options.quick else [device]
    costs: list[AnalyticCost] | list[MeasuredCost]
    costs = analytic = [AnalyticCost(one, target.threads, sizes) for one in devices for sizes in request.all_sizes]
    measured: list[MeasuredCost] = []
    if request.strategy.cost == "measured":
        costs = measured = [
            MeasuredCost(
                target,
                sizes=estimate.sizes,
                opset=model.opset,
                store=request.store,
                fallback=estimate,
                budget_s=_OPERATOR_MEASURING_SHARE * request.budget_s,
                run=request.name,
                present=topological(model.outputs),
            )
            for estimate in analytic
        ]
    timers = [_timers(request, *seconds) for seconds in (_REGION_TIMING, _VALUE_TIMING)]
    result = search(
        model.outputs,
        request.rules if measured else list(_without_algorithms(request.rules)),
        request.proofs.check,
        costs[0],
        further_costs=costs[1:],
        resolution=_ANALYTIC_RESOLUTION if options.quick else RESOLUTION,
        position=model.position,
        alpha=options.alpha,
        efforts=0 if options.quick else options.effort,
        budget_s=request.budget_s,
        region_timer=TimerOverSizes(timers[0]) if timers[0] else None,
        denormal_timer=TimerOverSizes(timers[1]) if timers[1] else None,
        progress=report,
        available=lambda op: has_operator(op, model.opset) and (options.domains == "all" or is_standard(op)),
        max_folding_s=first_allowance(options.budget),
        measuring_s=lambda: sum(one.spent_s for one in measured) + sum(t.spent_s for group in timers for t in group),
    )
    source = f"analytic, {', '.join(one.name for one in devices)}"
    if measured:
        known = sum(one.counts.measured + one.counts.cached for one in measured)
        source = f"{known} operators measured, {sum(one.counts.estimated for one in measured)} estimated"
    traces = result.traces
    if options.quick:
        traces = _passes_not_slower(model.outputs, traces, SizeGuard(costs, _ANALYTIC_RESOLUTION))
    reported = (result.cost_before, result.cost_after if traces == result.traces else None, source)
    return FoundRewrites(traces, *reported, result.savings_s, result.origin, result.match_report.by_rule)


def _all_devices(first: Device) -> list[Device]:
    """Return `first` and all shipped devices."""
    return list(dict.fromkeys((first, *map(find_device, shipped_devices()))))


def _passes_not_slower(outputs: tuple[Term, ...], traces: Sequence[Trace], guard: SizeGuard) -> tuple[Trace, ...]:
    """Return the first passes, as many as leave the whole graph no slower in any case.

    The search has compared regions, and the runtime fuses operators across their borders.
    """
    kept, after = 0, outputs
    for number, trace in enumerate(traces, 1):
        after = AppliedTrace(after, trace, {}).outputs
        if not guard.is_slower(after, outputs):
            kept = number
    return tuple(traces[:kept])


def _timers(request: SearchRequest, seconds: float, multiple: float) -> list[ModelTimer]:
    """Return the timers of regions at the smallest and the largest size, none if the strategy times no regions.

    A region gets about `seconds` seconds at each size, all regions `multiple` times the search's budget.
    """
    if request.strategy.cost != "measured" or not request.strategy.time_regions:
        return []
    smallest, *others = request.all_sizes
    return [
        ModelTimer(
            request.target,
            request.model.weights,
            sizes=sizes,
            opset=request.model.opset,
            budget_s=seconds,
            total_budget_s=multiple * request.budget_s,
            store=request.store,
            run=request.name,
        )
        for sizes in (smallest, *others[-1:])
    ]


def _without_algorithms(rules: Iterable[Rule]) -> Iterator[Rule]:
    """Drop rules that are algorithms for an operator, such as minimal filtering. They introduce constants.

    The analytic model counts multiplications but does not model the runtime's kernels, so it cannot tell if fewer
    multiplications are faster.
    """
    return (rule for rule in rules if not any(lists_numbers(term.op) for term in topological((*rule.lhs, *rule.rhs))))
