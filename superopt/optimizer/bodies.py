"""Bodies of If, Loop and Scan, searched as graphs of their own; the innermost first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import onnx

from superopt.onnx_io import Body, Model, ModelError, Place, bodies, put_back, write_body
from superopt.optimizer.candidates import Found, Traces
from superopt.optimizer.engine import Request
from verify.proofs import ProofBook
from verify.replay import ReplayError, replay

__all__ = ["Inside", "search_bodies"]


@dataclass
class Inside:
    """Bodies that became less, by their places, and the traces that led there, each with the graph that it began
    with; `folded` are the bodies as reading alone makes them less."""

    written: dict[Place, onnx.GraphProto] = field(default_factory=dict)
    folded: dict[Place, onnx.GraphProto] = field(default_factory=dict)
    traces: Traces = ()
    graphs: list[Model] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # of bodies that stay as they are


def search_bodies(request: Request, finder: Callable[[Request], Found], book: ProofBook) -> Inside:
    """Searches the bodies in `request.model` and those inside them, within the request's budget; every step is replayed
    with `book`. A body of which anything fails stays as it is."""
    inside = Inside()
    found = list(bodies(request.model))
    total = sum(map(_weight, found))
    for body in found:
        own = replace(request, budget=request.budget * _weight(body) / total, progress=_telling(request.progress, body))
        try:
            _search(body, own, finder, book, inside)
        except (ModelError, ReplayError, onnx.checker.ValidationError) as error:
            inside.problems.append(f"the body {body.place[1]} of {body.owner.op} stays as it is: {error}")
    return inside


def _telling(progress: Callable[[str], None], body: Body) -> Callable[[str], None]:
    return lambda line: progress(f"in {body.place[1]} of {body.owner.op}: {line}")


def _weight(body: Body) -> int:
    return 1 + len(body.graph.node)


def _search(body: Body, request: Request, finder: Callable[[Request], Found], book: ProofBook, inside: Inside) -> None:
    exact, nested = request.numerics == "exact", Inside()
    if next(bodies(body.model), None) is not None:
        request = replace(request, budget=request.budget / 2)
        nested = search_bodies(replace(request, model=body.model), finder, book)
    inside.problems += nested.problems
    if nested.folded or body.model.reduced:
        inside.folded[body.place] = write_body(body, put_back(body.model, nested.folded), exact=exact)
    model = put_back(body.model, nested.written)
    found = finder(replace(request, model=model))
    traces = tuple(trace for trace in found.traces if trace.applications)
    graphs: list[Model] = []
    for trace in traces:
        graphs.append(model)
        model = model.with_outputs(replay(model.outputs, trace, book), trace)
    if traces or nested.written or body.model.reduced:
        inside.written[body.place] = write_body(body, model, found.origin, exact)
        inside.traces += (*nested.traces, *traces)
        inside.graphs += [*nested.graphs, *graphs]
