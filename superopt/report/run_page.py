"""Rendering of one run of `optimize` as a page: what changed, what it brought, and why it can be trusted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from superopt.ir.notation import NotationError, parse_terms
from superopt.ir.term import node_of, topological
from superopt.optimizer.result import MEAN_SAVINGS, gain_is_predicted
from superopt.report.interval import draw_interval
from superopt.report.page import environment
from superopt.wording import counted

__all__ = ["is_drawable", "render_run"]

# Explanations of refusals, by the beginnings of their reasons (`optimizer/candidate_check.py`, `speed_check.py`).
_EXPLANATIONS = {
    "slower": "The prediction was wrong for this model on this machine: the measurement decides.",
    "not surely faster": "The gain is smaller than the noise of the measurement.",
    "too noisy to tell": "The machine was too busy for a verdict. A repeated run measures again.",
    "outputs differ": "Proofs are about real numbers. Here roundings, overflow or the runtime's own fusions made a"
    " difference beyond the bound.",
    "the kernel does not accept it": "A step could not be replayed in this run, so the rewrite counts as unproven.",
    "ONNX Runtime does not run it": "The runtime lacks an operator for these types, or has a fault.",
    "OpenVINO does not run it": "The runtime lacks an operator for these types, or has a fault.",
    "folding its weights": "Computing the new weights would take longer than the budget leaves.",
}
_MOST_OPERATORS = 4  # that a heading names


def render_run(run: Mapping[str, Any]) -> str:
    """Return the page for `run`, an object written by `Result.to_json` (schema version 2; null for infinity and NaN).

    The page loads nothing, like the verification report.
    """
    before, after = run["operators_before"], run["operators_after"]
    operators = [(name, before.get(name, 0), after.get(name, 0)) for name in sorted({*before, *after})]
    operators.sort(key=lambda row: -abs(row[2] - row[1]))  # the largest changes first
    made = environment()
    made.filters.update(ms=_ms, ratio=_ratio, small=_small, change=_change, operators=_operators)
    made.globals.update(quotient=_quotient, is_drawable=is_drawable, explained=_explained, mean_savings=MEAN_SAVINGS)
    return made.get_template("run.html").render(
        run=run,
        name=PurePath(run["model"]).name or "model in memory",
        drawn=_drawn(run["latency"]),
        differs=not run["changed"] and run["reason"].startswith("outputs differ"),
        is_gain=gain_is_predicted(run["cost_before_ms"], run["cost_after_ms"]),
        operators=operators,
        operators_text=f"{counted(sum(before.values()), 'operator')} before, {sum(after.values()):,} after.",
        before=sum(before.values()),
        after=sum(after.values()),
    )


def _drawn(latency: Mapping[str, Any] | None) -> str | None:
    """Return the drawing of the measured ratio, or None if there is none."""
    numbers = [latency[key] for key in ("ratio", "low", "high")] if latency else []
    if not numbers or any(number is None or number <= 0 for number in numbers):
        return None
    return draw_interval(*numbers)


def _operators(side: str) -> str:
    """Return the operators of one side of a rule, each with its number if there are several.

    What several outputs share counts once, as it is drawn.
    """
    try:
        nodes = dict.fromkeys(map(node_of, topological(parse_terms(side))))
        found = Counter(node.op for node in nodes if node.op != "Var")
    except NotationError:  # assignments, which name what is shared
        found = Counter(re.findall(r"([A-Z]\w*)[\[(]", side))
    names = [name if number == 1 else f"{number} {name}" for name, number in found.items()]
    more = len(names) - _MOST_OPERATORS
    return ", ".join(names[:_MOST_OPERATORS] + ([f"{more} more"] if more > 0 else [])) or "nothing"


def _explained(reason: str) -> str:
    return next((text for start, text in _EXPLANATIONS.items() if reason.startswith(start)), "")


def is_drawable(side: str) -> bool:
    """Return False for a side that is too large to be a tree: `optimize` writes it as a list of assignments."""
    try:
        parse_terms(side)
    except NotationError:
        return False
    return True


def _ms(value: float | None) -> str:
    """Return milliseconds as text, with three digits at least."""
    if value is None:
        return "–"
    return f"{value:.3g}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:,.1f}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _small(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.1e}"


def _change(number: int) -> str:
    return f"{number:+,}".replace("-", "−") if number else "0"


def _quotient(before: float | None, after: float | None) -> str:
    return _ratio(None if before is None or not after else before / after)
