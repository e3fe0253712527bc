"""Pictures of rules: both sides as graphs with an arrow between them, in one self-contained SVG file."""

from __future__ import annotations

import re

from superopt.ir.notation import show_terms
from superopt.ir.rule import Rule
from superopt.report.drawing import Drawing, draw

__all__ = ["picture"]

_GAP, _MARGIN, _CAPTION = 110, 16, 34  # pixels: between the sides, around them, and below for the equation
_STYLE = """
text { font: 13px ui-sans-serif, system-ui, "DejaVu Sans", sans-serif; text-anchor: middle; fill: #1d2127; }
.op { font-weight: 600; } .var { font-style: italic; } .no { font-size: 10px; fill: #fff; }
.at, .port { font-size: 10px; fill: #626a75; } .equation { font: 12px ui-monospace, monospace; fill: #626a75; }
ellipse { fill: #fff; stroke: #8d96a1; } rect { fill: #f4f5f7; stroke: #c3c9d1; }
.contract rect { fill: #e6eefb; stroke: #9cb7e2; } .move rect { fill: #f4efe3; stroke: #cfc09a; }
.constant rect { fill: none; stroke: #8d96a1; stroke-dasharray: 3 3; }
.e, .step { fill: none; stroke: #8d96a1; stroke-width: 1.2; } .a, .tip { fill: #8d96a1; } .end { fill: #2b5ea8; }
.step { stroke-width: 2; }
@media (prefers-color-scheme: dark) {
  text { fill: #e4e7eb; } .at, .port, .equation { fill: #9aa3ae; } ellipse { fill: #14171b; }
  rect { fill: #20252c; stroke: #4a525d; } .contract rect { fill: #1c2a41; stroke: #46669b; }
  .move rect { fill: #2b271c; stroke: #6e6344; } .end { fill: #8fb5ee; } .no { fill: #14171b; }
}
"""


def picture(rule: Rule) -> str:
    """Return the text of an SVG file that shows `rule` from left to right, with its equation below.

    The file loads nothing and follows the reader's light or dark colour scheme.
    """
    left, right = draw(rule.lhs, "before"), draw(rule.rhs, "after")
    heights = _height(left), _height(right)
    tall = max(heights)
    equation = f"{show_terms(rule.lhs)}  =  {show_terms(rule.rhs)}"
    width = max(left.width + _GAP + right.width, round(7.3 * len(equation))) + 2 * _MARGIN
    height = tall + 2 * _MARGIN + _CAPTION
    start = (width - left.width - _GAP - right.width) / 2
    middle = _MARGIN + tall / 2
    arrow = start + left.width + 20, start + left.width + _GAP - 20
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"<style>{_STYLE}</style>"
        f"{_placed(left, start, _MARGIN + (tall - heights[0]) / 2)}"
        f'<path class="step" d="M{arrow[0]:.0f} {middle:.0f}H{arrow[1] - 8:.0f}"/>'
        f'<path class="tip" d="M{arrow[1] - 9:.0f} {middle - 6:.0f}v12L{arrow[1]:.0f} {middle:.0f}z"/>'
        f"{_placed(right, start + left.width + _GAP, _MARGIN + (tall - heights[1]) / 2)}"
        f'<text class="equation" x="{width / 2:.0f}" y="{height - _MARGIN:.0f}">{_escaped(equation)}</text></svg>\n'
    )


def _height(side: Drawing) -> int:
    found = re.search(r' height="(\d+)"', side.svg)
    assert found is not None
    return int(found[1])


def _placed(side: Drawing, x: float, y: float) -> str:
    return side.svg.replace("<svg ", f'<svg x="{x:.0f}" y="{y:.0f}" ', 1)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
