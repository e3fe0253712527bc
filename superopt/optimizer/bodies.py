"""Search of the bodies of If, Loop and Scan as separate graphs, the innermost first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import onnx

from superopt.ir.rule import Rule
from superopt.ir.trace import Trace
from superopt.onnx_io import Body, BodyKey, Model, ModelError, read_bodies, replace_bodies, write_body
from superopt.optimizer.model_search import Finder, SearchRequest
from superopt.search.apply import replacements
from verify.proof_book import ProofBook
from verify.replay import ReplayError, replay

__all__ = ["RewrittenBodies", "search_bodies"]


@dataclass
class RewrittenBodies:
    """Bodies that became smaller.

    `written` are the rewritten bodies by key, `folded` the bodies that were only simplified while reading. `traces` are
    the passes that led to `written`, and `graphs` the graph before each pass. `problems` has one line for each body
    that is unchanged because of an error. `rule_ids` has the id in the rule files for the rule of each step.
    """

    written: dict[BodyKey, onnx.GraphProto] = field(default_factory=dict)
    folded: dict[BodyKey, onnx.GraphProto] = field(default_factory=dict)
    traces: tuple[Trace, ...] = ()
    graphs: list[Model] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    rule_ids: dict[Rule, str] = field(default_factory=dict)


def search_bodies(request: SearchRequest, finder: Finder, book: ProofBook) -> RewrittenBodies:
    """Search all bodies in `request.model`, also nested ones, within the request's time.

    The time is shared in proportion to the number of nodes. Every step is replayed with `book`. After an
    error a body stays unchanged.
    """
    result = RewrittenBodies()
    found = list(read_bodies(request.model))
    at_sizes = [
        {body.key: body.model.sizes for body in read_bodies(replace(request.model, sizes=dict(sizes)))}
        for sizes in request.sizes
    ]
    total = sum(map(_node_count, found))
    for body in found:
        share = request.share * _node_count(body) / total
        sizes = tuple(at[body.key] for at in at_sizes if body.key in at)
        own = replace(request, share=share, progress=_prefixed(request.progress, body), sizes=sizes)
        try:
            _search_body(body, own, finder, book, result)
        except (ModelError, ReplayError, onnx.checker.ValidationError) as error:
            result.problems.append(f"the body {body.key[1]} of {body.owner.op} stays as it is: {error}")
    return result


def _search_body(body: Body, request: SearchRequest, finder: Finder, book: ProofBook, result: RewrittenBodies) -> None:
    """Search one body and the bodies inside it, and add the findings to `result`."""
    exact, nested = request.options.numerics == "exact", RewrittenBodies()
    if next(read_bodies(body.model), None) is not None:
        request = replace(request, share=request.share / 2)
        nested = search_bodies(replace(request, model=body.model), finder, book)
    result.problems += nested.problems
    if nested.folded or body.model.simplified_nodes:
        result.folded[body.key] = write_body(body, replace_bodies(body.model, nested.folded), exact=exact)
    model = replace_bodies(body.model, nested.written)
    found = finder(replace(request, model=model))
    traces = tuple(trace for trace in found.traces if trace.applications)
    result.rule_ids.update({**nested.rule_ids, **found.rule_ids})
    graphs: list[Model] = []
    for trace in traces:
        graphs.append(model)
        model = model.with_outputs(replay(model.outputs, trace, book), replacements(trace))
    if traces or nested.written or body.model.simplified_nodes:
        result.written[body.key] = write_body(body, model, found.origin, exact)
        result.traces += (*nested.traces, *traces)
        result.graphs += [*nested.graphs, *graphs]


def _prefixed(progress: Callable[[str], None], body: Body) -> Callable[[str], None]:
    return lambda line: progress(f"in {body.key[1]} of {body.owner.op}: {line}")


def _node_count(body: Body) -> int:
    return 1 + len(body.graph.node)
