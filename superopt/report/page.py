"""Rendering of the report as one self-contained HTML page: style, script and drawings are inside."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from superopt.ir.notation import parse_terms
from superopt.report.data import Report, RuleEntry
from superopt.report.drawing import Drawing, draw

__all__ = ["environment", "render"]

_STAGES = {
    "graphs": "graphs enumerated",
    "classes": "different functions among them, by fingerprint",
    "equal_pairs": "pairs with equal fingerprints",
    "conjectures": "conjectures, after renaming and special cases",
    "derivable": "left out: follow from other rules",
    "accidental": "left out: equal at the sizes tried only",
    "weak": "left out: large, and neither side is cheaper",
    "again": "left out: refused before",
    "refuted": "refuted",
    "unknown": "neither proven nor refuted",
    "proved": "proven",
    "redundant": "left out: follow from rules found later",
    "rules": "rules shipped",
    "signatures": "signatures at which they are proven",
}

_KINDS = {
    "exact": "Both sides give the same bits, NaN and infinities included",
    "reassociating": "The same real value of finite inputs, computed in another order: the sides differ by roundings,"
    " and by what overflows",
    "real-only": "The same real value wherever all intermediate values of both sides are finite",
}


def render(report: Report) -> str:
    """Return the page. It works without JavaScript, which only searches and filters."""
    made = environment()
    made.globals.update(ranks=_ranks, legend=_legend, kinds=_KINDS)
    made.filters.update(seconds=_seconds)
    return made.get_template("report.html").render(report=report, stages=_STAGES)


def environment() -> Environment:
    """Return the template environment of this package. Text is escaped unless a template says `safe`."""
    made = Environment(
        loader=PackageLoader("superopt.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(thousands=_thousands, signs=_signs)
    made.globals.update(drawing=_drawing, count=_count, inline=lambda name: _inline(made, name))
    return made


def _thousands(number: int) -> str:
    return f"{number:,}"


def _inline(made: Environment, name: str) -> str:
    """Return a file of this package unescaped: it holds no text of a user."""
    assert made.loader is not None
    return made.loader.get_source(made, name)[0]


def _drawing(text: str, side: str) -> Drawing:
    """Draw one side of an equation; `draw` escapes its text."""
    return draw(parse_terms(text), side)


def _legend() -> Drawing:
    return _drawing("Add(Relu(Split[axis=-1, split=n](x).0), MatMul(Zeros[shape=z], y))", "legend")


def _signs(condition: str) -> str:
    """Return a condition with mathematical signs."""
    return condition.replace("<=", "≤").replace("==", "=")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _ranks(rule: RuleEntry) -> str:
    if rule.ranks is None:
        return ""
    low, high = rule.ranks
    return f"rank {low}" if low == high else f"ranks {low}–{high}"


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"
