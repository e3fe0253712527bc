"""One run of the optimizer, from a model to a faster one. The package's docstring lists its phases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import onnx

from superopt.onnx_io import Model, read_bodies
from superopt.onnx_io.external_data import weight_bytes
from superopt.onnx_io.save import embedded
from superopt.optimizer.bodies import RewrittenBodies, search_bodies
from superopt.optimizer.candidate_check import CandidateCheck
from superopt.optimizer.context import RunContext
from superopt.optimizer.error_bound import error_factor
from superopt.optimizer.files import RESULT, check_inputs_stay, count_operators
from superopt.optimizer.input_data import check_given
from superopt.optimizer.model_search import Finder, FoundRewrites, SearchRequest
from superopt.optimizer.model_timer import Timer, Timers, each_alone, interleaved_timer
from superopt.optimizer.notices import notices
from superopt.optimizer.opening import begin_to_open
from superopt.optimizer.options import Options
from superopt.optimizer.outcome import Outcome
from superopt.optimizer.pace import Pace, busyness
from superopt.optimizer.phases import Phases
from superopt.optimizer.preparation import begin_to_prepare
from superopt.optimizer.proof_cache import ProofCache
from superopt.optimizer.remembered_search import remembered_search
from superopt.optimizer.result import Result
from superopt.optimizer.rule_reading import with_formulas
from superopt.optimizer.rule_summary import replay_summary, rule_attempts, rule_uses
from superopt.optimizer.selection import Selection, select
from superopt.optimizer.source import Source
from superopt.optimizer.speed_check import SpeedCheck
from superopt.optimizer.symbol_sizes import symbol_sizes
from superopt.optimizer.timing_cache import TimingCache
from superopt.optimizer.trace_json import traces_to_json
from superopt.rulebook.loading import chosen_rules
from superopt.runtime import close_unused, start_child, versions
from superopt.search import Device, calibrate, device_of
from superopt.store import ResultStore

__all__ = ["run"]

# Share of the time of the search for the bodies of control flow, in a model that has any.
_BODIES_SHARE = 0.4


def run(
    model: str | Path | onnx.ModelProto,
    outputs: Mapping[str, Path | None],
    options: Options,
    *,
    progress: Callable[[str], None] | None = None,
    finder: Finder = remembered_search,
    timer: Timer | None = None,
    validated: Callable[[Outcome | None], None] = lambda _: None,
) -> tuple[Source, Outcome]:
    """Make `model` faster; return the original and the outcome, and write nothing.

    `outputs` are the files to be written, by role (`check_outputs`). `validated` receives the best outcome so far each
    time that it changes, None if its candidate is refused after all. Other arguments and errors are those of
    `superopt.optimize`.
    """
    phases = Phases(progress)
    start_child()
    options = options.as_run()
    pace = Pace(options.budget_s, is_timed=options.is_timed)
    device = options.load_device()  # refused before the model is read
    with phases("read", "reading the model"):
        source = Source(model)
        check_inputs_stay(outputs, source)
        check_given(source.proto, options.inputs, options.shapes)
    with begin_to_open(source, options) as opening:
        with phases("read"):
            terms = source.terms
            target = opening.target()
        if options.quick:  # its few seconds are those after the reading
            pace = Pace(options.budget_s, is_timed=False, slack=busyness())
        own = None if options.rules is None else Path(options.rules)
        rules, certificates = chosen_rules(own, map(Path, options.add_rules), options.skip_rules)

        with ResultStore() as store:
            proofs = ProofCache(
                store, certificates, options.numerics, proves=not options.quick, budget_s=options.budget_s
            )
            context = RunContext(options, source, opening, target, device, rules, proofs, store, phases, pace)

            def outcome(selection: Selection) -> Outcome:
                names = {term: name for graph in (*selection.graphs, terms) for term, name in graph.names.items()}
                trace = traces_to_json(selection.traces, names, selection.found.rule_ids)
                return Outcome(_result(context, selection, outputs[RESULT]), trace)

            def keep(selection: Selection | None) -> None:
                validated(None if selection is None else outcome(selection))

            selection = _improve(context, finder, timer, keep)
    close_unused()
    if selection.proto is not None:
        selection.proto = embedded(selection.proto) or selection.proto
    return source, outcome(selection)


def _improve(
    context: RunContext, finder: Finder, timer: Timer | None, keep: Callable[[Selection | None], None]
) -> Selection:
    """Search, then select a candidate that is replayed, validated and measured; keep the original if there is none.

    A quick run searches while the original is loaded and run, if no size has to be found out by that.
    """
    source, target, store = context.source, context.target, context.store
    model, sizes = source.terms, tuple[Mapping[str, int], ...]()
    if context.options.numerics != "exact":
        model = with_formulas(model, context.rules)
    context.phases.progress("running the original")
    is_dynamic = _is_dynamic(model)
    beside = context.options.quick and not is_dynamic
    prepared = begin_to_prepare(context, beside=beside)
    if not beside and prepared().refusal:
        return Selection(prepared().refusal)
    if context.device is None and context.options.cost == "measured":
        context = replace(context, device=_this_machine(context))
    if is_dynamic and prepared().shapes:
        sizes = symbol_sizes(source, target, prepared().shapes, prepared().feeds)
        model = replace(model, sizes=dict(sizes[0]))
    with context.phases("search", "searching"):
        found, bodies = _search(context, model, sizes, finder)
    original = prepared()
    if original.refusal:
        return Selection(original.refusal)
    timers = _timers(context) if timer is None else Timers(each_alone(timer), each_alone(timer))
    speed = None if original.validator is None else SpeedCheck(original.validator, timers, context.pace)
    problems = [*original.notices, *bodies.problems, *([store.problem] if store.problem else [])]
    check = CandidateCheck(context, original.validator, speed, model, must_load=original.is_loaded)
    return select(check, found, bodies, problems, keep)


def _this_machine(context: RunContext) -> Device:
    """Return the description of the target, measured as far as no earlier run has done so and time allows."""
    target, phases = context.target, context.phases
    with phases("calibrate"):
        prior, limit_s = device_of(target.device), context.pace.calibration_s
        return calibrate(target, prior, context.store, limit_s=limit_s, progress=phases.progress).device


def _timers(context: RunContext) -> Timers:
    """Return the timers of the target, with the timings of earlier runs."""
    target, remeasure = context.target, context.options.remeasure
    choice, acceptance = (
        TimingCache(timer, target, context.source, context.store, purpose, remeasure=remeasure)
        for purpose, timer in (
            ("choice", interleaved_timer(target, apart=context.source.is_large)),
            ("acceptance", interleaved_timer(target, until_decided=False, apart=context.source.is_large)),
        )
    )
    return Timers(choice, acceptance, choice.known)


def _search(
    context: RunContext, model: Model, sizes: tuple[Mapping[str, int], ...], finder: Finder
) -> tuple[FoundRewrites, RewrittenBodies]:
    """Search the bodies of control flow, then the model around them, for all of `sizes`."""
    request = SearchRequest(
        model=model,
        sizes=sizes,
        rules=context.rules,
        proofs=context.proofs,
        target=context.target,
        device=context.device,
        store=context.store,
        options=context.options,
        pace=context.pace,
        time_regions=context.options.cost == "measured",
        progress=context.phases.progress,
    )
    bodies = RewrittenBodies()
    if next(read_bodies(model), None) is not None:
        bodies = search_bodies(replace(request, share=_BODIES_SHARE), finder, context.proofs.own)
        request = replace(request, share=1 - _BODIES_SHARE)
    found = finder(request)
    uncertified = len(context.proofs.uncertified)
    return replace(found, rule_ids={**bodies.rule_ids, **found.rule_ids}, uncertified=uncertified), bodies


def _is_dynamic(model: Model) -> bool:
    return any(type is None or type.concrete() is None for term in model.inputs for type in term.types)


def _result(context: RunContext, selection: Selection, out: Path | None) -> Result:
    """Return the public result of a run."""
    options, source, found = context.options, context.source, selection.found
    changed = selection.proto is not None
    proto = selection.proto if selection.proto is not None else source.proto
    return Result(
        model=source.name,
        out=None if out is None else str(out),
        changed=changed,
        reason=selection.reason,
        provider=context.target.provider,
        threads=context.target.threads,
        seed=options.seed,
        numerics=options.numerics,
        operators_before=count_operators(source.proto),
        operators_after=count_operators(proto),
        weight_bytes_before=weight_bytes(source.proto),
        weight_bytes_after=weight_bytes(proto),
        cost_before_ms=_milliseconds(found.cost_before),
        cost_after_ms=_milliseconds(found.cost_after),
        cost_source=found.cost_source,
        latency=selection.latency,
        difference=selection.difference,
        rules=rule_uses(selection.traces, selection.graphs, proto, found.rule_ids),
        attempts=rule_attempts(found.attempts, context.rules) if options.explain else [],
        proof=replay_summary(selection.traces) if changed else None,
        error_factor=_error_factor(context, selection) if changed else None,
        refused=selection.refused,
        notices=list(notices(context, selection)),
        seconds={name: round(value, 3) for name, value in context.phases.seconds.items()},
        versions=versions(context.target.provider),
        proto=proto,
    )


def _error_factor(context: RunContext, selection: Selection) -> float | None:
    """Return the proven factor of the result's error bound; None where classes did not decide what was used."""
    if context.options.numerics == "real-only":
        return None
    return error_factor(selection.traces, context.proofs.own)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e3
