"""Traces as JSON, with graphs and rules in the project's notation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from superopt.ir.notation import show_graph, show_signature
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.optimizer.equations import show_equation

__all__ = ["traces_to_json"]


def traces_to_json(
    traces: tuple[Trace, ...], names: Mapping[Term, str] | None = None, rule_ids: Mapping[Rule, str] | None = None
) -> str:
    """Return `traces` as JSON: each rewrite once, with its graphs and steps, then the places of application by pass.

    A place is given by the names of its leaves' tensors, or by the content hash of a term without a name. The rule of a
    step stands as it was applied, and its id is that in the rule files, from `rule_ids`.
    """
    names = names or {}
    rewrites: dict[Rewrite, int] = {}
    for trace in traces:
        for application in trace.applications:
            rewrites.setdefault(application.rewrite, len(rewrites))
    passes = [[_place(a, rewrites[a.rewrite], names) for a in trace.applications] for trace in traces]
    content = {"schema_version": 1, "rewrites": [_rewrite(r, rule_ids or {}) for r in rewrites], "passes": passes}
    return json.dumps(content, indent=2)


def _place(application: Application, rewrite: int, names: Mapping[Term, str]) -> dict[str, Any]:
    # A hash is found from the whole graph below a term, which took 28 seconds for the 2,989 places of an LSTM.
    leaves = {_leaf(leaf): names.get(term) or term.digest for leaf, term in application.leaves}
    return {"rewrite": rewrite, "leaves": leaves}


def _rewrite(rewrite: Rewrite, rule_ids: Mapping[Rule, str]) -> dict[str, Any]:
    return {
        "before": show_graph(rewrite.before).splitlines(),
        "steps": [_step(step, rule_ids) for step in rewrite.steps],
        "after": show_graph(rewrite.after).splitlines(),
    }


def _step(step: Step, rule_ids: Mapping[Rule, str]) -> dict[str, Any]:
    return {
        "rule": show_equation(step.rule),
        "id": rule_ids.get(step.rule, step.rule.id),
        "signature": show_signature(step.signature),
        "roots": [root.digest for root in step.roots],
    }


def _leaf(leaf: Term) -> str:
    return str(leaf.attr("name" if leaf.op == "Var" else "hash"))
