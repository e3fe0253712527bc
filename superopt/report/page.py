"""Rendering of the verification report: an index that opens at once, and a page for each family of rules.

Each page is self-contained: style, script and drawings are inside.
"""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from superopt.ir.notation import parse_terms
from superopt.report.data import Report, RuleEntry
from superopt.report.drawing import Drawing, draw

__all__ = ["REFUSED", "Pages", "environment", "render"]

REFUSED = "refused.html"  # beside the pages of families

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


class Pages(NamedTuple):
    """The report: the text of its index, and of the pages that the index links to, by the names of their files."""

    front: str
    details: dict[str, str]


def render(report: Report, index: str = "report.html", folder: str = "report_rules") -> Pages:
    """Return the pages. They work without JavaScript, which only searches and filters.

    `index` is the name of the index's file, `folder` that of the folder beside it for the other pages.
    """
    made = environment()
    made.globals.update(ranks=_ranks, legend=_legend, kinds=_KINDS)
    made.filters.update(seconds=_seconds)
    family = made.get_template("family.html")
    details = {
        f"{total.family}.html": family.render(
            index=index, total=total, rules=[rule for rule in report.rules if rule.family == total.family]
        )
        for total in report.totals
    }
    if report.candidates:
        details[REFUSED] = made.get_template("refused.html").render(index=index, report=report)
    return Pages(made.get_template("report.html").render(report=report, stages=_STAGES, folder=folder), details)


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
