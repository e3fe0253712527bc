"""Drawing of a measured ratio with its interval, on a logarithmic axis, as an inline SVG that fits any width.

Positions are percentages of the width, so that the text keeps its size on a narrow screen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["draw_interval"]

_HEIGHT, _AXIS, _BAR = 84, 52, 26  # pixels from the top
_MARGIN = 0.12  # of the axis on each side of what is shown
_LEAST_SPAN = math.log(1.1)  # of the axis: a narrow interval is not blown up to the whole width
_TICKS = (0.2, 0.5, 0.75, 0.9, 0.95, 1, 1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 20, 50, 100)
_TICK_DISTANCE = 11.0  # percent of the width


def draw_interval(ratio: float, low: float, high: float) -> str:
    """Return the drawing of `ratio` between `low` and `high`, with "as fast as before" at 1."""
    first, last = math.log(min(low, 1)), math.log(max(high, 1))
    span = max(last - first, _LEAST_SPAN)
    first -= (span - (last - first)) / 2
    scale = (1 - 2 * _MARGIN) / span

    def at(value: float) -> float:
        return 100 * (_MARGIN + (math.log(value) - first) * scale)

    ticks = ""
    for value in _ticks(at):
        name = "one" if value == 1 else "tick"
        top = 8 if value == 1 else _AXIS
        ticks += f'<line class="{name}" x1="{at(value):.2f}%" x2="{at(value):.2f}%" y1="{top}" y2="{_AXIS + 5}"/>'
        ticks += f'<text class="{name}" x="{at(value):.2f}%" y="{_AXIS + 22}">{value:g}×</text>'
    bar = at(high) - at(low)
    text = f"{ratio:.3f} times as fast, 95% interval {low:.3f} to {high:.3f}"
    return (
        f'<svg class="interval" role="img" aria-label="{text}" width="100%" height="{_HEIGHT}">'
        f'<rect class="slower" x="0" y="8" width="{max(0.0, min(100.0, at(1))):.2f}%" height="{_AXIS - 8}"/>'
        f'<line class="axis" x1="0" x2="100%" y1="{_AXIS}" y2="{_AXIS}"/>{ticks}'
        f'<rect class="range" x="{at(low):.2f}%" y="{_BAR - 7}" width="{max(bar, 0.4):.2f}%" height="14" rx="7"/>'
        f'<circle class="ratio" cx="{at(ratio):.2f}%" cy="{_BAR}" r="6"/></svg>'
    )


def _ticks(at: Callable[[float], float]) -> list[float]:
    """Return the ticks to show, 1 among them, with enough distance for their texts."""
    shown = [1.0]
    for value in sorted(_TICKS, key=lambda one: abs(math.log(one))):
        if 4 <= at(value) <= 96 and all(abs(at(value) - at(other)) >= _TICK_DISTANCE for other in shown):
            shown.append(value)
    return sorted(shown)
