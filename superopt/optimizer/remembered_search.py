"""Searches of earlier runs: a repeated run takes the rewrites that were found, and checks them anew.

A search is remembered for the same graph, rules and options, the same general figures of the machine, and the same
source code. Nothing relies on it: the rewrites are replayed in the kernel, compared and timed as those of a new search
are.
"""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from superopt.ir.dim import Dim, Quotient
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import AttrVar, Term, topological
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.ir.types import TensorType
from superopt.optimizer.digests import source_digest, text_digest
from superopt.optimizer.model_search import FoundRewrites, SearchRequest, search_model
from superopt.search import device_of
from superopt.search.apply import AppliedTrace
from superopt.search.cost.measurement_key import conditions
from superopt.store import FoundBefore, SearchKey

__all__ = ["remembered_search"]

# An earlier search is taken if it ended by itself, or had at least this share of the time that a new one has.
_LEAST_SHARE = 0.5
_PARTS = (
    Application,
    AttrVar,
    Condition,
    Dim,
    FoundRewrites,
    Quotient,
    Rewrite,
    Rule,
    Signature,
    Step,
    TensorType,
    Trace,
)
_GLOBALS: dict[tuple[str, str], Any] = {(part.__module__, part.__qualname__): part for part in _PARTS}
_GLOBALS[Term.__module__, "Term.of"] = Term.of


def remembered_search(request: SearchRequest) -> FoundRewrites:
    """Return what an earlier run found for the same request, or search, and remember what was found.

    The checks of what an earlier run found have as much time as after a search: the run ends sooner.
    """
    options, store, pace = request.options, request.store, request.pace
    if options.quick or options.explain:  # takes a moment; reports on the search itself
        return search_model(request)
    key = SearchKey(_conditions(request), text_digest(term.digest for term in request.model.outputs))
    row = None if options.remeasure else store.searches.get(key)
    available_s = pace.search_deadline(request.share) - time.monotonic()
    if row is not None:
        found = _decoded(row.found, request.model.outputs)
        if found is not None and (found.complete or row.seconds >= _LEAST_SHARE * available_s):
            request.progress("searching: an earlier run has searched")
            pace.leave_checks()
            return found
    # On a busy machine a search gets less done in its time. One that times regions waits for them, in another process.
    clock = time.monotonic if request.time_regions else time.process_time
    begun = clock()
    found = search_model(request)
    encoded = _encoded(found, request.model.outputs)
    if encoded is not None:
        store.searches.put(key, FoundBefore(encoded, clock() - begun))
    return found


def _conditions(request: SearchRequest) -> str:
    """Return a hash of all that a search depends on besides the graph, the store and the clock."""
    options, model, target = request.options, request.model, request.target
    chosen = [getattr(options, name) for name in ("alpha", "effort", "budget_s", "cost", "numerics", "domains", "seed")]
    device = request.device or device_of(target.device)
    if options.device is None and device.measured:
        # A later run measures the kinds of kernels that this one had no time for.
        device = replace(device.general, name="", overhead=0.0)
    sizes = [sorted(one.items()) for one in request.all_sizes]
    rules = [rule.id for rule in request.rules]
    facts = conditions(target, model.opset), chosen, device, sizes, rules, request.time_regions, request.share
    return text_digest(map(repr, (*facts, source_digest())))


def _encoded(found: FoundRewrites, outputs: tuple[Term, ...]) -> bytes | None:
    """Return the result of a search of the graph `outputs` as bytes; None for a graph that is nested too deeply.

    The terms of a pass are written relative to the graph before it, and those of `origin` to the last graph.
    """
    try:
        passes = []
        for trace in found.traces:
            passes.append(_pickled(trace, outputs))
            outputs = AppliedTrace(outputs, trace, {}).outputs
        rest = replace(found, traces=(), origin=dict(found.origin), gains=dict(found.gains), attempts={})
        return pickle.dumps((*passes, _pickled(rest, outputs)))
    except RecursionError:
        return None


def _decoded(encoded: bytes, outputs: tuple[Term, ...]) -> FoundRewrites | None:
    """Return the result that `_encoded` gave for the same graph; None for other bytes."""
    try:
        *passes, rest = _unpickled(encoded, ())
        traces: list[Trace] = []
        for one in passes:
            traces.append(_unpickled(one, outputs))
            outputs = AppliedTrace(outputs, traces[-1], {}).outputs
        found: FoundRewrites = _unpickled(rest, outputs)
        return replace(found, traces=tuple(traces))
    except (pickle.UnpicklingError, ValueError, LookupError, TypeError, AttributeError, EOFError):
        return None


def _pickled(value: object, graph: Sequence[Term]) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, graph).dump(value)
    return stream.getvalue()


def _unpickled(encoded: bytes, graph: Sequence[Term]) -> Any:
    return _Unpickler(io.BytesIO(encoded), graph).load()


class _Pickler(pickle.Pickler):
    """Writes terms of a graph as their places in it."""

    def __init__(self, stream: io.BytesIO, graph: Sequence[Term]) -> None:
        super().__init__(stream, protocol=5)
        self._places = {term: place for place, term in enumerate(topological(graph))}

    def persistent_id(self, value: object) -> int | None:
        return self._places.get(value) if isinstance(value, Term) else None


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` has written. Nobody else's bytes can make it call anything but the parts of a trace."""

    def __init__(self, stream: io.BytesIO, graph: Sequence[Term]) -> None:
        super().__init__(stream)
        self._terms = list(topological(graph))

    def persistent_load(self, place: int) -> Term:
        return self._terms[place]

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _GLOBALS:
            raise pickle.UnpicklingError(f"{module}.{name} is no part of a trace")
        return _GLOBALS[module, name]
