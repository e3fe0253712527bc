"""Summaries of a run for its result: rules applied, rules tried, and what the kernel replayed."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

import onnx

from superopt.ir.infer import replace
from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule
from superopt.ir.term import Term, node_of
from superopt.ir.trace import Application, Trace
from superopt.onnx_io import Model
from superopt.optimizer.equations import show_sides
from superopt.optimizer.result import ReplaySummary, RuleAttempts, RuleUse
from superopt.search import Attempts
from superopt.search.apply import step_positions

__all__ = ["replay_summary", "rule_attempts", "rule_uses"]


def rule_uses(
    traces: tuple[Trace, ...], graphs: Iterable[Model], result: onnx.ModelProto, rule_ids: Mapping[Rule, str]
) -> list[RuleUse]:
    """Return the uses of each rule in the model with their nodes, the most used rule first.

    `graphs` has the graph before each pass. `result` is the rewritten model: the name of a node that a rule has made
    contains the rule's id. `rule_ids` has the id in the rule files for the rules of steps.
    """
    counts: dict[Rule, int] = {}
    nodes: dict[Rule, dict[str, None]] = {}
    positions = functools.cache(step_positions)  # many places share a rewrite
    for trace, graph in zip(traces, graphs, strict=True):
        for application in trace.applications:
            named = _rewritten_nodes(positions(application.rewrite), application, graph)
            for step, names in zip(application.rewrite.steps, named, strict=True):
                counts[step.rule] = counts.get(step.rule, 0) + 1
                nodes.setdefault(step.rule, {}).update(dict.fromkeys(names))
    names = [node.name for node in result.graph.node]
    used = [
        RuleUse(id, *show_sides(rule), n, list(nodes[rule]), [name for name in names if id in name])
        for rule, n in counts.items()
        for id in [rule_ids.get(rule, rule.id)]
    ]
    return sorted(used, key=lambda use: (-use.count, use.id, use.rule))


def rule_attempts(attempts: Mapping[str, Attempts], rules: Iterable[Rule]) -> list[RuleAttempts]:
    """Return the counts for each rule that matched, by saving and then by number of trials, in descending order."""
    known = {rule.id: show_rule(Rule(rule.lhs, rule.rhs)) for rule in rules}
    found = [
        RuleAttempts(id, known.get(id, ""), a.matched, a.tried, a.unproven, a.used, round(a.saved_s * 1e3, 6))
        for id, a in attempts.items()
    ]
    return sorted(found, key=lambda one: (-one.saved_ms, -one.used, -one.tried, -one.matched, one.id))


def replay_summary(traces: tuple[Trace, ...]) -> ReplaySummary:
    """Return the counts of the kernel's checks in a replay of `traces`."""
    applications = [application for trace in traces for application in trace.applications]
    steps = [step for rewrite in dict.fromkeys(a.rewrite for a in applications) for step in rewrite.steps]
    return ReplaySummary(
        rules=len({step.rule for step in steps}),
        signatures=len({(step.rule, step.signature) for step in steps}),
        steps=len(steps),
        places=len(applications),
    )


def _rewritten_nodes(steps: list[tuple[Term, ...]], application: Application, graph: Model) -> list[list[str]]:
    """Return the names of the nodes of `graph` at which each step of a rewrite was applied, by the steps' positions."""
    terms = list(dict.fromkeys(term for step in steps for term in step))
    actual = dict(zip(terms, replace(terms, dict(application.leaves)), strict=True))
    named = [[_node_name(actual[term], graph) for term in step] for step in steps]
    return [[name for name in step if name] for step in named]


def _node_name(term: Term, graph: Model) -> str:
    """Return the name of a term's node, else the name of its value; empty if it has neither."""
    note = graph.nodes.get(node_of(term))
    return (note.name if note is not None else "") or graph.names.get(term, "")
