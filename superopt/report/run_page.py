"""Rendering of one run of `optimize` as a page: before and after, applied rules, costs and proofs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from superopt.ir.notation import NotationError, parse_terms
from superopt.report.page import environment

__all__ = ["is_drawable", "render_run"]


def render_run(run: Mapping[str, Any]) -> str:
    """Return the page for `run`, an object written by `Result.to_json` (schema version 2; null for infinity and NaN).

    The page loads nothing, like the verification report.
    """
    before, after = run["operators_before"], run["operators_after"]
    operators = [(name, before.get(name, 0), after.get(name, 0)) for name in sorted({*before, *after})]
    operators.sort(key=lambda row: -abs(row[2] - row[1]))  # the largest changes first
    made = environment()
    made.filters.update(ms=_ms, ratio=_ratio, small=_small, change=_change)
    made.globals.update(quotient=_quotient, is_drawable=is_drawable)
    return made.get_template("run.html").render(
        run=run,
        name=PurePath(run["model"]).name,
        operators=operators,
        before=sum(before.values()),
        after=sum(after.values()),
    )


def is_drawable(side: str) -> bool:
    """Return False for a side that is too large to be a tree: `optimize` writes it as a list of assignments."""
    try:
        parse_terms(side)
    except NotationError:
        return False
    return True


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
