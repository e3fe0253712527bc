"""What to try when: all that was found first, then ever smaller parts of it, the largest gains kept longest.

A search works in passes, each on the graph that the one before left. Regions of one pass do not overlap, so any part
of a last pass is proof material as good as the whole: the kernel replays it like the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.onnx_io import Model
from superopt.optimizer.equations import show_equation
from superopt.optimizer.result import Proof, RuleAttempts, RuleUse
from superopt.search import Attempts
from superopt.search.apply import fill, places

__all__ = ["Found", "Traces", "candidates", "explained", "proof_of", "rule_uses"]

Traces: TypeAlias = tuple[Trace, ...]


@dataclass(frozen=True)
class Found:
    """What a search came back with: its passes. Costs in seconds; `gains` is what one use of a rewrite saves,
    `origin` names the rule that made a term, `attempts` says what became of each rule."""

    traces: Traces = ()
    cost_before: float | None = None
    cost_after: float | None = None
    cost_source: str = ""
    gains: Mapping[Rewrite, float] = field(default_factory=dict)
    origin: Mapping[Term, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    attempts: Mapping[str, Attempts] = field(default_factory=dict)


def candidates(found: Found) -> Iterator[tuple[str, Traces]]:
    """Passes to try, each with a name: all, without the last pass, ..., then the better half of the first pass, a
    quarter, ... down to its best rewrite."""
    traces = tuple(trace for trace in found.traces if trace.applications)
    for count in range(len(traces), 0, -1):
        yield "all rewrites" if count == len(traces) else f"the first {count} of {len(traces)} passes", traces[:count]
    if not traces:
        return
    total: dict[Rewrite, float] = {}
    for application in traces[0].applications:
        gain = found.gains.get(application.rewrite, 0.0)
        total[application.rewrite] = total.get(application.rewrite, 0.0) + gain
    ranked = sorted(total, key=lambda rewrite: -total[rewrite])
    count = len(ranked)
    while count > 1:
        count = (count + 1) // 2
        kept = set(ranked[:count])
        part = Trace(tuple(a for a in traces[0].applications if a.rewrite in kept))
        yield f"the best {count} of {len(ranked)} rewrites", (part,)


def rule_uses(traces: Traces, graphs: Iterable[Model]) -> list[RuleUse]:
    """How often each rule was applied in the model, most often first, and where; `graphs` are what each pass began
    with."""
    counts: dict[Rule, int] = {}
    nodes: dict[Rule, dict[str, None]] = {}
    for trace, graph in zip(traces, graphs, strict=True):
        for application in trace.applications:
            for step, at in zip(application.rewrite.steps, _places(application, graph), strict=True):
                counts[step.rule] = counts.get(step.rule, 0) + 1
                nodes.setdefault(step.rule, {}).update(dict.fromkeys(at))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0].id))
    return [RuleUse(rule.id, show_equation(rule), n, list(nodes[rule])) for rule, n in ordered]


def explained(attempts: Mapping[str, Attempts], rules: Iterable[Rule]) -> list[RuleAttempts]:
    """What became of each rule that matched, those that save most first, then those that were tried most."""
    known = {rule.id: show_rule(Rule(rule.lhs, rule.rhs)) for rule in rules}
    found = [
        RuleAttempts(id, known.get(id, ""), a.matched, a.tried, a.unproven, a.used, round(a.saved_s * 1e3, 6))
        for id, a in attempts.items()
    ]
    return sorted(found, key=lambda one: (-one.saved_ms, -one.used, -one.tried, -one.matched, one.id))


def _places(application: Application, graph: Model) -> list[list[str]]:
    """For each step the nodes of `graph` at which it was applied."""
    steps = places(application.rewrite)
    terms = list(dict.fromkeys(term for step in steps for term in step))
    actual = dict(zip(terms, fill(terms, dict(application.leaves)), strict=True))
    named = [[_name(actual[term], graph) for term in step] for step in steps]
    return [[name for name in step if name] for step in named]


def _name(term: Term, graph: Model) -> str:
    """A node by its name, or by the name of its value; empty where it has neither."""
    node = term.inputs[0] if term.op == "Out" else term
    note = graph.nodes.get(node) if node is not None else None
    return (note.name if note is not None else "") or graph.names.get(term, "")


def proof_of(traces: Traces) -> Proof:
    """What the kernel has checked when it has replayed `traces`."""
    applications = [application for trace in traces for application in trace.applications]
    steps = [step for rewrite in dict.fromkeys(a.rewrite for a in applications) for step in rewrite.steps]
    return Proof(
        rules=len({step.rule for step in steps}),
        signatures=len({(step.rule, step.signature) for step in steps}),
        steps=len(steps),
        places=len(applications),
    )
