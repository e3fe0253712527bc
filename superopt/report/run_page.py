"""Rendering of one run of `optimize` as a page: before and after, applied rules, costs and proofs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from superopt.ir.notation import parse_rule, show_terms
from superopt.report.page import environment

__all__ = ["render_run"]


def render_run(run: Mapping[str, Any]) -> str:
    """Return the page for `run`, an object written by `Result.to_json` (schema version 2; null for infinity and NaN).

    The page loads nothing, like the verification report.
    """
    before, after = run["operators_before"], run["operators_after"]
    operators = [(name, before.get(name, 0), after.get(name, 0)) for name in sorted({*before, *after})]
    operators.sort(key=lambda row: -abs(row[2] - row[1]))  # the largest changes first
    rules = []
    for use in run["rules"]:
        rule = parse_rule(use["rule"])
        rules.append((use, show_terms(rule.lhs), show_terms(rule.rhs)))
    made = environment()
    made.filters.update(ms=_ms, ratio=_ratio, small=_small, change=_change)
    made.globals.update(quotient=_quotient)
    return made.get_template("run.html").render(
        run=run,
        name=PurePath(run["model"]).name,
        operators=operators,
        rules=rules,
        before=sum(before.values()),
        after=sum(after.values()),
    )


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if value < 10 else f"{value:,.1f}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _small(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.1e}"


def _change(number: int) -> str:
    return f"{number:+,}".replace("-", "−") if number else "0"


def _quotient(before: float | None, after: float | None) -> str:
    return _ratio(None if before is None or not after else before / after)
