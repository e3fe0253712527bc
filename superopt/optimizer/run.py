"""`optimize`: read, search, replay, write to memory, compare, measure, and only then write the file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import onnx

from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.onnx_io import Model, bodies, read_reduced, save_model
from superopt.optimizer.bodies import Inside, search_bodies
from superopt.optimizer.candidate_check import Candidate, Outcome, Trial
from superopt.optimizer.candidates import Found, Traces, candidates, explained, proof_of, rule_uses
from superopt.optimizer.engine import COSTS, Request, find
from superopt.optimizer.files import count_operators, keep_original, write_text
from superopt.optimizer.proof_cache import RememberedProofs
from superopt.optimizer.result import Difference, Latency, Refusal, Result
from superopt.optimizer.strategies import Preferred, Way
from superopt.optimizer.timing_cache import Timer
from superopt.optimizer.trace_json import traces_to_json
from superopt.optimizer.validator import Judge
from superopt.rulebook.loading import certified_rules
from superopt.runtime import CannotRun, Target, Unfeedable, resolve_target, versions
from superopt.search import Device, find_device
from verify.proofs import Certificate, ProofBook
from verify.verdict import NUMERICS

__all__ = ["optimize"]

Finder = Callable[[Request], Found]

# No further part of a result is tried after so many looks at candidates; a close call counts as three.
_PATIENCE = 8
# Nor after so many times the seconds meant for one look: sessions of large models take long to open.
_LONGEST = 6
# The same of results of other searches.
_LONGEST_OF_RIVALS = 12
# Of the time for searching, at most so much for the bodies of control flow (nothing where there are none).
_BODIES_SHARE = 0.4


def optimize(
    model: str | Path | onnx.ModelProto,
    out: str | Path | None = None,
    *,
    ep: str = "auto",
    rules: str | Path | None = None,
    seed: int = 0,
    budget: float = 60.0,
    alpha: float = 2.0,
    effort: int = 1,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    threads: int | None = None,
    trace: str | Path | None = None,
    measure_s: float = 5.0,
    inputs: int = 3,
    numerics: str = "real-only",
    cost: str = "measured",
    device: Device | str | Path | None = None,
    target_absent: bool = False,
    remeasure: bool = False,
    explain: bool = False,
    progress: Callable[[str], None] | None = None,
    finder: Finder = find,
    timer: Timer | None = None,
) -> Result:
    """Makes `model` faster on the chosen target, or keeps it as it is; writes to `out` where that is given.

    What is written replays in the kernel step by step, gives the original's outputs on `inputs` random inputs, and
    was not slower in an interleaved measurement of about `measure_s` seconds; otherwise smaller parts of the rewrite
    are tried, and at the end the original is written unchanged. `Result.proto` is the model in memory.

    `budget` is in seconds, for the search (measurements that no earlier run has made take up to 2.5 times as many, on
    top); `alpha` lets it pass through graphs that cost up to alpha times the best;
    `effort` (1 to `superopt.search.EFFORTS`) is how thoroughly it looks for gains behind dearer graphs;
    `shapes` are sizes at which dynamic inputs are measured (the result stays dynamic). `numerics` is the loosest class
    of rules to use (`verify.verdict.NUMERICS`); with "exact" the result gives the original's outputs bit for bit.
    `cost` says where the search has the costs of operators from: "measured" (then the result of a search on analytic
    ones is timed as well, and the fastest counts), or "analytic", a model of `device` (a description, its file, or the
    name of a shipped one; None: a usual device of the provider). With `target_absent`
    that device is not here: outputs are compared on what is here, but nothing is timed, and `Result.notices` says so.
    A candidate that an earlier run has timed against this original, under the same conditions, is not timed again, and
    of several searches only the best is made again, so that the same run has the same result; with `remeasure` all are.
    With `explain`, `Result.attempts` says of every rule where it matched, whether it was tried, and what it gained.
    `finder` and `timer` replace the search and the clock.

    Raises ModelError (unreadable model), RulesError, RuntimeUnavailable, ValueError (unusable option or description of
    a device), OSError.
    """
    if cost not in COSTS:
        raise ValueError(f"unknown source of costs {cost!r} ({', '.join(COSTS)})")
    if target_absent and (cost != "analytic" or device is None):
        raise ValueError("a target that is not here needs analytic costs and the description of a device")
    if numerics not in NUMERICS:
        raise ValueError(f"unknown class of numerics {numerics!r} ({', '.join(NUMERICS)})")
    run = _Run(
        model if isinstance(model, onnx.ModelProto) else Path(model),
        None if out is None else Path(out),
        resolve_target(ep, threads),
        seed,
        dict(shapes or {}),
        progress or (lambda _: None),
        numerics,
        cost,
        device if isinstance(device, Device) or device is None else find_device(device),
        target_absent,
        remeasure,
        explain,
    )
    run.read([Path(path) for path in (out, trace) if path is not None])
    listed, run.certificates = certified_rules(None if rules is None else Path(rules))
    run.rules = list(dict.fromkeys(entry.rule for entry in listed))
    with run.phase("total"):
        try:
            run.prepare(inputs, timer)
        except (CannotRun, Unfeedable) as error:
            run.reason = f"the original cannot be run here, so nothing can be measured: {error}"
        else:
            run.search(finder, budget, alpha, effort, measure_s)
            run.choose(measure_s)
    result = run.result()
    if trace is not None:
        write_text(Path(trace), traces_to_json(run.traces, run.names()))
    if run.out is not None:
        if result.changed:
            assert result.proto is not None
            save_model(result.proto, run.out)
        else:
            keep_original(run.source, run.proto, run.out)
    return result


@dataclass
class _Run:
    """One call of `optimize`, step by step."""

    source: Path | onnx.ModelProto
    out: Path | None
    target: Target
    seed: int
    shapes: dict[str, tuple[int, ...]]
    progress: Callable[[str], None]
    numerics: str
    cost: str
    device: Device | None
    target_absent: bool
    remeasure: bool
    explain: bool
    rules: list[Rule] = field(default_factory=list)
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    reason: str = ""
    judge: Judge | None = None
    preferred: Preferred | None = None
    searched: dict[Way, Found] = field(default_factory=dict)
    found: Found | None = None  # of these, what the result is from
    traces: Traces = ()
    graphs: list[Model] = field(default_factory=list)  # what each of the traces began with
    inside: Inside = field(default_factory=Inside)
    changed: bool = False
    chosen: onnx.ModelProto | None = None
    difference: Difference | None = None
    latency: Latency | None = None

    @cached_property
    def remembered(self) -> RememberedProofs:
        """Proofs that the search may rely on: certificates, and those of earlier runs."""
        return RememberedProofs(self.certificates, self.numerics)

    @property
    def book(self) -> ProofBook:
        """Proofs made in this run, on which what is written rests."""
        return self.remembered.own

    @contextmanager
    def phase(self, name: str, message: str | None = None) -> Iterator[None]:
        """Adds the time spent inside to `seconds[name]`."""
        if message is not None:
            self.progress(message)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def read(self, outputs: list[Path]) -> None:
        """The model as terms and as it is on disk; `outputs` are the files that will be written."""
        with self.phase("read", "reading the model"):
            self.model: Model = read_reduced(self.source)
            self.proto = (
                self.source
                if isinstance(self.source, onnx.ModelProto)
                else onnx.load(self.source, load_external_data=False)
            )
        for out in outputs:
            if out.is_dir():
                raise IsADirectoryError(f"{out}: is a directory, not a file to write to")
            if not out.absolute().parent.is_dir():
                raise NotADirectoryError(f"{out.parent}: no such folder to write to")

    def prepare(self, inputs: int, timer: Timer | None) -> None:
        """The original's session, inputs and outputs. Raises CannotRun, Unfeedable, InputError."""
        with self.phase("prepare", "running the original"):
            kind = self.source
            self.judge = Judge(
                kind.SerializeToString() if isinstance(kind, onnx.ModelProto) else kind,
                self.proto,
                self.target,
                seed=self.seed,
                shapes=self.shapes,
                inputs=inputs,
                timer=timer,
                exact=self.numerics == "exact",
                remeasure=self.remeasure,
            )
            if any(type is None or type.concrete() is None for term in self.model.inputs for type in term.types):
                self.model = read_reduced(self.source, self.judge.shapes)  # the same terms, and what their symbols are

    def search(self, finder: Finder, budget: float, alpha: float, efforts: int, measure_s: float) -> None:
        """Fills `searched` and, first, `inside`."""
        assert self.judge is not None
        with self.phase("search", "searching"):
            request = Request(
                self.model,
                self.rules,
                self.remembered,
                self.target,
                alpha,
                efforts,
                budget,
                self.seed,
                self.progress,
                self.numerics,
                self.cost,
                self.device,
            )
            self.preferred = Preferred(request, measure_s, anew=self.remeasure)
            if next(bodies(self.model), None) is not None:
                self.inside = search_bodies(replace(request, budget=budget * _BODIES_SHARE), finder, self.book)
                request = replace(request, budget=budget * (1 - _BODIES_SHARE))
            self.searched = {way: finder(way.of(request)) for way in self.preferred.ways}

    def choose(self, measure_s: float) -> None:
        """The fastest of what the searches have found as a whole, else the first part of the first search's result, of
        what is proven, right and not slower."""
        assert self.judge is not None and self.preferred is not None
        trial = Trial(
            self.model,
            self.proto,
            self.judge,
            self.remembered,
            self.target,
            self.numerics == "exact",
            not self.target_absent,
            measure_s,
            self.phase,
        )
        (first, self.found), *others = self.searched.items()
        preferred, parts = first, self._candidates(first)
        whole = next(parts, None)
        best = None if whole is None else self._tried(trial, whole)
        # Looks at other searches' results are not counted with these: a repeated run does not take them.
        rivals, seen = replace(trial), [self.found.traces]
        for way, found in others:
            if rivals.looked_s >= _LONGEST_OF_RIVALS * measure_s:
                break
            if found.traces not in seen and (other := next(self._candidates(way), None)) is not None:
                seen.append(found.traces)
                if best is not None:
                    best[1].proto = None  # it has all weights, and can be made again
                rival = self._tried(rivals, other)
                if rival is not None and (best is None or _ratio(rival[1]) > _ratio(best[1])):
                    preferred, best = way, rival
        while best is None and trial.looks < _PATIENCE and trial.looked_s < _LONGEST * measure_s:
            part = next(parts, None)
            if part is None:
                break
            best = self._tried(trial, part)
        self.preferred.remember(preferred)
        if best is not None:
            self._take(*best, self.searched[preferred], trial)
        elif whole is not None:
            self.reason = f"no candidate passed: {self.refused[0].reason}"
        else:
            self.reason = "the search found nothing that the cost model prefers"

    def _tried(self, trial: Trial, candidate: Candidate) -> tuple[Candidate, Outcome] | None:
        """The candidate and what was found out about it, if it passed."""
        outcome = trial.outcome(candidate)
        if outcome.problem is None:
            return candidate, outcome
        if not self.refused:  # where none passes, it is said what the first one came to: a repeated run has it, too
            self.difference, self.latency = outcome.difference, outcome.latency
        self.refused.append(Refusal(candidate.name, outcome.problem))
        return None

    def _take(self, candidate: Candidate, outcome: Outcome, found: Found, trial: Trial) -> None:
        self.found, self.changed = found, True
        self.chosen, self.graphs = outcome.proto or trial.made(candidate), outcome.graphs
        self.traces = (*candidate.traces, *candidate.inside.traces)
        self.difference, self.latency = outcome.difference, outcome.latency
        self.reason = f"{candidate.name}, not timed" if self.target_absent else candidate.name

    def _candidates(self, way: Way) -> Iterator[Candidate]:
        """What to try of what one search has found: rewritten bodies with all else and alone, then everything with
        bodies that are only folded, and the graph around them alone."""
        found = self.searched[way]
        outside, folded = list(candidates(found)), Inside(written=self.inside.folded)

        def candidate(name: str, traces: Traces, inside: Inside) -> Candidate:
            return Candidate(name + way.name, traces, inside, found.origin)

        if self.inside.traces:
            for name, traces in outside[:1]:
                yield candidate(f"{name}, also in bodies", traces, self.inside)
            yield candidate("rewrites in bodies", (), self.inside)
        for name, traces in outside:
            yield candidate(name, traces, folded)
        if self.model.reduced or folded.written:
            yield candidate("folding only", (), folded)
        if folded.written:
            for name, traces in outside[:1]:
                yield candidate(f"{name}, and bodies as they are", traces, Inside())

    def names(self) -> dict[Term, str]:
        """Names of tensors, those in bodies too."""
        return {term: name for graph in (*self.graphs, self.model) for term, name in graph.names.items()}

    def _unmeasured(self) -> list[str]:
        if not (self.changed and self.target_absent and self.device is not None):
            return []
        return [f"not timed: {self.device.name} is not here, so only the cost model says that the result is faster"]

    def result(self) -> Result:
        """Everything found out."""
        found = self.found or Found()
        proto = self.chosen if self.changed else self.proto
        assert proto is not None
        milli = [None if cost is None else cost * 1e3 for cost in (found.cost_before, found.cost_after)]
        return Result(
            model="" if isinstance(self.source, onnx.ModelProto) else str(self.source),
            out=None if self.out is None else str(self.out),
            changed=self.changed,
            reason=self.reason,
            provider=self.target.provider,
            threads=self.target.threads,
            seed=self.seed,
            numerics=self.numerics,
            operators_before=count_operators(self.proto),
            operators_after=count_operators(proto),
            cost_before_ms=milli[0],
            cost_after_ms=milli[1],
            cost_source=found.cost_source,
            latency=self.latency,
            difference=self.difference,
            rules=rule_uses(self.traces, self.graphs),
            attempts=explained(found.attempts, self.rules) if self.explain else [],
            proof=proof_of(self.traces) if self.changed else None,
            refused=self.refused,
            notices=[
                *(self.judge.notices if self.judge else ()),
                *self.inside.problems,
                *found.notices,
                *self._unmeasured(),
            ],
            seconds={name: round(value, 3) for name, value in self.seconds.items()},
            versions=versions(),
            proto=proto,
        )


def _ratio(outcome: Outcome) -> float:
    """How much faster it is; 1 where that was not measured."""
    return outcome.latency.ratio if outcome.latency is not None else 1.0
