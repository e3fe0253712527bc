"""The tables of `superopt bench`. On a terminal that is too narrow, a wide table becomes several narrow ones."""

from __future__ import annotations

from collections.abc import Mapping

from rich.box import HEAVY_HEAD, MARKDOWN
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from superopt.bench.result import Benchmark, Contest, EngineSpeed, Row

__all__ = ["print_contest", "print_summary"]

_FACTS = ("operators", "optimized in", "peak memory", "difference")


def print_contest(console: Console, contest: Contest, clocks: Mapping[str, str], markdown: bool) -> None:
    """Print the tables of one model, as soon as it is measured: a run may take hours. `clocks` are titles by name."""
    if contest.rows:
        whole = _contest_table(contest, clocks, with_facts=True)
        if markdown or _fits(console, whole):
            _print(console, whole, markdown)
        else:
            _print(console, _contest_table(contest, {}, with_facts=True))
            for clock, title in clocks.items():
                _print(console, _contest_table(contest, {clock: title}, with_facts=False))
        for row in contest.rows:
            if row.note:
                console.print(f"{row.contestant}: {row.note}", markup=False)
    for clock, title in clocks.items():
        fastest = contest.fastest(clock)
        if fastest is not None:
            who = f"{fastest.contestant}, {fastest.speeds[clock].ratio:.3f} times as fast"
            console.print(f"fastest by {title}: {who}", markup=False)
        elif any(clock in row.speeds for row in contest.rows):
            console.print(f"by {title}, no result is surely faster", markup=False)
    if contest.problem is not None:
        console.print(f"{contest.model}: {contest.problem}", markup=False)


def print_summary(console: Console, benchmark: Benchmark, markdown: bool) -> None:
    """Print the ratios of all contestants on all models, with geometric means over the timed models."""
    names = [name for name, kind in benchmark.contestants.items() if kind != "baseline"]
    rows = {contest.model: {row.contestant: row for row in contest.rows} for contest in benchmark.contests}
    ratios = {
        **{model: [_ratios(of.get(name), benchmark) for name in names] for model, of in rows.items()},
        "geometric mean": [_means(name, benchmark) for name in names],
    }
    title = f"ratio to ONNX Runtime alone: {' / '.join(benchmark.clocks.values())}"
    table = Table("model", title=title, title_justify="left")
    for name in names:
        table.add_column(name, justify="right")
    *models, mean = ratios
    for model in models:
        table.add_row(model, *ratios[model])
    if not markdown:  # a line between rows would be one more row there
        table.add_section()
    table.add_row(mean, *ratios[mean], style="bold")
    if markdown or _fits(console, table):
        _print(console, table, markdown)
        return
    table = Table("model", "", title=title, title_justify="left")
    table.add_column("ratio", justify="right")
    for model, cells in ratios.items():
        for name, cell in zip(names, cells, strict=True):
            table.add_row(model if name == names[0] else "", name, cell)
        table.add_section()
    _print(console, table)


def _contest_table(contest: Contest, clocks: Mapping[str, str], *, with_facts: bool) -> Table:
    """Return the table of one model with its facts, or its times by `clocks`, or both."""
    title = contest.model if with_facts else f"{contest.model}, {', '.join(clocks.values())}"
    table = Table("", title=title, title_justify="left")
    for name in _FACTS if with_facts else ():
        table.add_column(name, justify="right")
    for name in clocks.values():
        table.add_column(f"{name} (ms)" if with_facts else "ms", justify="right")
        table.add_column("ratio (95%)", justify="right")
    for row in contest.rows:
        speeds = [cell for clock in clocks for cell in _speed(row.speeds.get(clock), row)]
        table.add_row(row.contestant, *(_facts(row) if with_facts else ()), *speeds)
    return table


def _fits(console: Console, table: Table) -> bool:
    """Return True unless the table is too wide for a terminal. A file may have lines of any length."""
    return not console.is_terminal or _width(console, table) <= console.width


def _width(console: Console, table: Table) -> int:
    table.box = HEAVY_HEAD
    for column in table.columns:
        column.no_wrap = True
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def _print(console: Console, table: Table, markdown: bool = False) -> None:
    """Print a table at its own width: cells are not wrapped, even if lines are longer than the terminal."""
    wide, width = _width(console, table), console.width
    table.box = MARKDOWN if markdown else HEAVY_HEAD
    console.width = max(width, wide)
    console.print(table)
    console.width = width


def _facts(row: Row) -> tuple[str, str, str, str]:
    return (
        "" if row.operators is None else str(row.operators),
        "" if row.seconds is None else f"{row.seconds:.1f} s",
        "" if row.peak_mb is None else f"{row.peak_mb:.0f} MiB",
        _difference(row.relative) if row.status == "ok" else row.status,
    )


def _difference(relative: float | None) -> str:
    if relative is None:
        return ""
    return f"{relative:.1e}" if relative else "0"


def _speed(speed: EngineSpeed | None, row: Row) -> tuple[str, str]:
    if speed is None:
        return "", ""
    reach = max(speed.high_ms - speed.ms, speed.ms - speed.low_ms)
    ratio = "1" if row.kind == "baseline" else f"{speed.ratio:.3f} ({speed.low:.3f} to {speed.high:.3f})"
    return f"{_digits(speed.ms)} ± {_digits(reach)}", ratio


def _digits(milliseconds: float) -> str:
    return f"{milliseconds:.3f}" if milliseconds < 10 else f"{milliseconds:.1f}"


def _ratios(row: Row | None, benchmark: Benchmark) -> str:
    if row is None or not row.speeds:
        return "-" if row is None or row.status == "ok" else row.status
    return " / ".join(f"{row.speeds[clock].ratio:.3f}" if clock in row.speeds else "-" for clock in benchmark.clocks)


def _means(name: str, benchmark: Benchmark) -> str:
    means = [benchmark.mean(name, clock) for clock in benchmark.clocks]
    text = " / ".join("-" if mean is None else f"{mean[0]:.3f}" for mean in means)
    models = min((mean[1] for mean in means if mean is not None), default=0)
    return text if models == len(benchmark.contests) else f"{text} (of {models})"
