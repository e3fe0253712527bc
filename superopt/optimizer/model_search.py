"""The search over one model: rules, proofs on demand, and costs for the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.ir.trace import Rewrite, Trace
from superopt.onnx_io import Model, has_kernel, is_writable
from superopt.optimizer.algorithm_timer import AlgorithmTimer, without_algorithms
from superopt.optimizer.folding import first_allowance
from superopt.optimizer.options import Options
from superopt.optimizer.pace import Pace
from superopt.optimizer.result import MEAN_SAVINGS
from superopt.runtime import Target
from superopt.search import (
    AnalyticCost,
    Attempts,
    CostModel,
    Device,
    ModelTimer,
    SearchProgress,
    TimerOverSizes,
    device_of,
    find_device,
    search,
    shipped_devices,
)
from superopt.search.apply import AppliedTrace
from superopt.search.cost.graph_cost import SECONDS_PER_PS, GraphCost
from superopt.search.cost.over_sizes import RESOLUTION, SizeGuard
from superopt.store import ResultStore
from verify.proof_book import Book

__all__ = ["Finder", "FoundRewrites", "SearchRequest", "search_model"]

# Analytic times on a device that differ by less than this share are equal. They have no noise, but the search rounds
# prices to as much, and a weight folded into a bias is a few bytes more to read.
_ANALYTIC_RESOLUTION = 0.001
# Seconds for timing one region; fewer for rules whose gain depends on the values in a tensor (denormal numbers).
_REGION_SECONDS, _VALUE_SECONDS = 0.6, 0.25
_ALGORITHMS_SHARE = 0.1  # of the budget, for timing algorithms


@dataclass(frozen=True)
class SearchRequest:
    """One search, guided by the costs of `device` (None: the provider's default device).

    `sizes` has the values of the model's symbolic sizes, for each of the sizes at which it is measured (empty: only
    `model.sizes`).

    It has `share` of the time that `pace` gives to searches. `proofs` decides where a rule may be applied. `store` has
    measurements of earlier runs. With `time_regions`, rewritten regions are timed as models of their own. `progress`
    receives one line now and then.
    """

    model: Model
    rules: list[Rule]
    proofs: Book
    target: Target
    store: ResultStore
    options: Options
    pace: Pace
    device: Device | None
    progress: Callable[[str], None]
    time_regions: bool = False
    share: float = 1.0
    sizes: tuple[Mapping[str, int], ...] = ()

    @property
    def all_sizes(self) -> tuple[Mapping[str, int], ...]:
        """The values of symbolic sizes that costs are for, at least one set."""
        return self.sizes or (self.model.sizes,)


@dataclass(frozen=True)
class FoundRewrites:
    """Result of one search.

    `traces` are its passes, each on the result of the pass before. Costs are in seconds; `gains` are the seconds
    that one use of a rewrite saves. `origin` names the rule that made a term. `attempts` counts, for each rule by id,
    matches, trials and uses. `rule_ids` has the id in the rule files for the rule of each step. `complete` is True if
    the search ended by itself and not by its time. `uncertified` is the number of rules that match where no certificate
    proves them, in a search that proves none.
    """

    traces: tuple[Trace, ...] = ()
    cost_before: float | None = None
    cost_after: float | None = None
    cost_source: str = ""
    gains: Mapping[Rewrite, float] = field(default_factory=dict)
    origin: Mapping[Term, str] = field(default_factory=dict)
    attempts: Mapping[str, Attempts] = field(default_factory=dict)
    complete: bool = False
    rule_ids: Mapping[Rule, str] = field(default_factory=dict)
    uncertified: int = 0


Finder = Callable[[SearchRequest], FoundRewrites]


def search_model(request: SearchRequest) -> FoundRewrites:
    """Search for a cheaper graph within the request's time."""

    def report(at: SearchProgress) -> None:
        regions = f"{at.done} of {at.total} regions"
        request.progress(f"searching: pass {at.pass_number}, {regions}, cost {at.cost_ratio:.3f} of before")

    model, target, options = request.model, request.target, request.options
    device = request.device or device_of(target.device)

    def available(operator: Term) -> bool:
        writable = is_writable(operator, model.opset, standard=options.domains == "onnx")
        return writable and has_kernel(operator, device.provider)

    devices = _all_devices(device) if options.quick else [device]
    costs = [AnalyticCost(one, target.threads, sizes) for one in devices for sizes in request.all_sizes]
    guard = SizeGuard(costs, _ANALYTIC_RESOLUTION if options.quick else RESOLUTION)
    timers = [_timers(request, seconds) for seconds in (_REGION_SECONDS, _VALUE_SECONDS)]
    algorithms = _algorithm_timer(request, costs)
    result = search(
        model.outputs,
        request.rules if algorithms is not None else list(without_algorithms(request.rules)),
        request.proofs.check,
        guard,
        position=model.position,
        alpha=options.alpha,
        efforts=0 if options.quick else options.effort,
        budget_s=request.share * request.pace.search_work_s,
        deadline=request.pace.search_deadline(request.share),
        region_timer=TimerOverSizes(timers[0]) if timers[0] else None,
        denormal_timer=TimerOverSizes(timers[1]) if timers[1] else None,
        algorithm_gains=algorithms,
        progress=report,
        available=available,
        max_folding_s=first_allowance(request.pace.search_work_s),
    )
    is_measured = devices[0].measured and options.cost == "measured" and not options.quick
    source = f"{'measured operators' if is_measured else 'analytic'}, {devices[0].name}"
    if len(devices) > 1:
        source += f"; no slower by those for {', '.join(one.name for one in devices[1:])}"
        source += MEAN_SAVINGS
    traces, cost_before, cost_after = result.traces, result.cost_before, result.cost_after
    if options.quick:
        # The search has compared means over all devices; the user is told the times on one device.
        own = SizeGuard(costs[: len(request.all_sizes)]).mean(model.outputs)
        traces, outputs = _passes_not_slower(model.outputs, traces, guard)
        cost_before, cost_after = _seconds(model.outputs, own), _seconds(outputs, own)
    reported = (cost_before, cost_after, source)
    counts = result.match_report.by_rule
    return FoundRewrites(traces, *reported, result.savings_s, result.origin, counts, result.complete, result.rule_ids)


def _all_devices(first: Device) -> list[Device]:
    """Return `first` and all shipped devices."""
    return list(dict.fromkeys((first, *map(find_device, shipped_devices()))))


def _passes_not_slower(
    outputs: tuple[Term, ...], traces: Sequence[Trace], guard: SizeGuard
) -> tuple[tuple[Trace, ...], tuple[Term, ...]]:
    """Return the first passes, as many as leave the whole graph no slower in any case, and the outputs after them.

    The search has compared regions, and the runtime fuses operators across their borders.
    """
    kept, last, after = 0, outputs, outputs
    for number, trace in enumerate(traces, 1):
        after = AppliedTrace(after, trace, {}).outputs
        if not guard.is_slower(after, outputs):
            kept, last = number, after
    return tuple(traces[:kept]), last


def _seconds(outputs: Sequence[Term], model: CostModel) -> float:
    return GraphCost(model).price(outputs).time_ps * SECONDS_PER_PS


def _algorithm_timer(request: SearchRequest, costs: Sequence[AnalyticCost]) -> AlgorithmTimer | None:
    """Return the timer of algorithms, at the smallest and the largest size; None if nothing is timed."""
    if not (request.time_regions and request.options.is_timed):
        return None
    budget_s = request.share * _ALGORITHMS_SHARE * request.options.budget_s
    ends = [costs[0], *costs[1:][-1:]]
    return AlgorithmTimer(ends, request.target, opset=request.model.opset, budget_s=budget_s, store=request.store)


def _timers(request: SearchRequest, seconds: float) -> list[ModelTimer]:
    """Return the timers of regions at the smallest and the largest size, none if the request times no regions.

    A region gets about `seconds` seconds at each size.
    """
    if not request.time_regions:
        return []
    smallest, *others = request.all_sizes
    return [
        ModelTimer(
            request.target,
            request.model.weights,
            sizes=sizes,
            opset=request.model.opset,
            budget_s=seconds,
            deadline=request.pace.regions_deadline(request.share),
            store=request.store,
        )
        for sizes in (smallest, *others[-1:])
    ]
