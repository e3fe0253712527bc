"""Drawing of a benchmark as a bar chart (SVG): one panel per clock, one group of bars per model.

A bar begins at 1, the speed of the original in ONNX Runtime alone, and goes right if a contestant is faster. The axis
is logarithmic: factors of 2 and 1/2 are equally far from 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from superopt.bench.result import Benchmark, EngineSpeed, Row

__all__ = ["draw"]

_ROW, _GROUP_GAP, _TOP = 16.0, 14.0, 64.0  # heights in pixels
_LABEL, _PANEL, _VALUE, _MARGIN = 140.0, 320.0, 56.0, 24.0  # widths
_TICKS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0)
_LEAST_REACH = 1.25  # the axis reaches at least this ratio, so that noise looks small
_TICK_GAP = 26.0  # minimum distance of two ticks in pixels
_MEAN = "geometric mean"


@dataclass(frozen=True)
class Bar:
    """A bar from `left` to `left + width` with its 95% interval as a whisker (None: not measured) and a text."""

    left: float
    width: float
    whisker: tuple[float, float] | None
    text: str
    text_x: float


@dataclass(frozen=True)
class Line:
    """A row of the chart: a contestant on a model, or the model's name alone (no `kind`); `y` is its middle."""

    label: str
    y: float
    kind: str = ""
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True)
class Axis:
    """The logarithmic axis of every panel; `lefts` are the panels' left edges in pixels."""

    low: float
    high: float
    lefts: tuple[float, ...]

    def x(self, panel: int, ratio: float) -> float:
        """Return the position of a ratio in pixels from the left, clamped to the panel."""
        share = math.log(ratio / self.low) / math.log(self.high / self.low)
        return self.lefts[panel] + _PANEL * min(1.0, max(0.0, share))

    def ticks(self) -> list[float]:
        """Return the ratios to mark: 1, and others that are not too close to each other."""
        inside = [tick for tick in _TICKS if self.low <= tick <= self.high]
        kept = [1.0]
        for tick in sorted(inside, key=lambda tick: abs(math.log(tick))):
            if all(abs(self.x(0, tick) - self.x(0, other)) >= _TICK_GAP for other in kept):
                kept.append(tick)
        return sorted(kept)


def draw(benchmark: Benchmark) -> str:
    """Return the chart as the text of an SVG file that loads nothing and needs no script."""
    axis = _axis(benchmark)
    lines = list(_lines(benchmark, axis))
    environment = Environment(
        loader=PackageLoader("superopt.bench", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("chart.svg").render(
        width=round(axis.lefts[-1] + _PANEL + _VALUE + _MARGIN),
        height=round(lines[-1].y + 44 if lines else _TOP + 44),
        axis=axis,
        panels=list(enumerate(benchmark.clocks.values())),
        panel_width=_PANEL,
        top=_TOP,
        bottom=lines[-1].y + 12 if lines else _TOP,
        lines=lines,
        caption=_caption(benchmark),
    )


def _axis(benchmark: Benchmark) -> Axis:
    ratios = [s.ratio for c in benchmark.contests for row in c.rows for s in row.speeds.values()]
    low = min([1 / _LEAST_REACH, *ratios]) / 1.02
    high = max([_LEAST_REACH, *ratios]) * 1.02
    step = _PANEL + _VALUE + _MARGIN
    return Axis(low, high, tuple(_LABEL + step * number for number in range(len(benchmark.clocks))))


def _lines(benchmark: Benchmark, axis: Axis) -> Iterator[Line]:
    """Yield the rows of all models and, if there are several, of their geometric mean."""
    y = _TOP
    for contest in benchmark.contests:
        y += _GROUP_GAP
        yield Line(contest.model, y)
        for row in contest.rows:
            if row.kind != "baseline":
                y += _ROW
                bars = (_bar(axis, panel, row.speeds.get(c), row) for panel, c in enumerate(benchmark.clocks))
                yield Line(row.contestant, y, row.kind, tuple(bars))
        y += _ROW
    if len(benchmark.contests) < 2:
        return
    y += _GROUP_GAP
    yield Line(_MEAN, y)
    for name, kind in benchmark.contestants.items():
        if kind != "baseline":
            y += _ROW
            means = (benchmark.mean(name, clock) for clock in benchmark.clocks)
            bars = (_mean_bar(axis, panel, mean, len(benchmark.contests)) for panel, mean in enumerate(means))
            yield Line(name, y, kind, tuple(bars))


def _bar(axis: Axis, panel: int, speed: EngineSpeed | None, row: Row) -> Bar:
    if speed is None:
        return Bar(axis.x(panel, 1), 0, None, row.status if row.status != "ok" else "-", axis.x(panel, 1) + 5)
    whisker = axis.x(panel, speed.low), axis.x(panel, speed.high)
    return _placed(axis, panel, speed.ratio, whisker, f"{speed.ratio:.3f}")


def _mean_bar(axis: Axis, panel: int, mean: tuple[float, int] | None, models: int) -> Bar:
    if mean is None:
        return Bar(axis.x(panel, 1), 0, None, "-", axis.x(panel, 1) + 5)
    return _placed(axis, panel, mean[0], None, f"{mean[0]:.3f}" + (f" ({mean[1]})" if mean[1] < models else ""))


def _placed(axis: Axis, panel: int, ratio: float, whisker: tuple[float, float] | None, text: str) -> Bar:
    start, end = sorted((axis.x(panel, 1), axis.x(panel, ratio)))
    return Bar(start, end - start, whisker, text, max(end, whisker[1] if whisker else 0) + 5)


def _caption(benchmark: Benchmark) -> str:
    machine, runtime = benchmark.machine, benchmark.versions.get("onnxruntime", "")
    return f"{machine.get('cpu', '')}, {machine.get('cores', '?')} cores; ONNX Runtime {runtime}"
