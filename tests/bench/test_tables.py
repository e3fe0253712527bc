"""The tables of the benchmark on terminals."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from superopt.bench.result import Benchmark, Contest, EngineSpeed, Row
from superopt.cli.bench_tables import print_contest, print_summary

CLOCKS = {"cpu": "CPU time, 1 thread", "wall": "wall time, all threads"}
NAMES = ("saved again", "superopt+openvino", "onnxruntime-basic", "onnxoptimizer", "onnxscript")
SPEEDS = dict.fromkeys(CLOCKS, EngineSpeed(1234.5, 1230.0, 1240.0, 1.234, 1.2, 1.3, 12))


def contest(model: str) -> Contest:
    rows = [
        Row(name, "peer", operators=1000, seconds=100.0, peak_mb=5000.0, relative=1e-7, speeds=SPEEDS) for name in NAMES
    ]
    return Contest(model, [Row("onnxruntime", "baseline", speeds=SPEEDS), *rows])


@pytest.mark.parametrize(("width", "tables"), [(80, 4), (200, 2)])
def test_tables_fit(width: int, tables: int) -> None:
    """Several narrow ones stand in the place of a wide one."""
    benchmark = Benchmark(CLOCKS, [contest("one"), contest("two")])
    shown = StringIO()
    console = Console(width=width, force_terminal=True, color_system=None, file=shown)
    print_contest(console, benchmark.contests[0], CLOCKS, markdown=False)
    print_summary(console, benchmark, markdown=False)
    lines = shown.getvalue().splitlines()
    assert max(map(len, lines)) <= width and not any("…" in line for line in lines)
    assert sum(line.startswith("┏") for line in lines) == tables
    assert sum(line.count("1.234 (1.200 to 1.300)") for line in lines) == 2 * len(NAMES)
    assert sum(line.count("1.234 / 1.234") for line in lines) == 3 * len(NAMES)  # two models and their mean


def test_markdown_has_one_line_of_dashes_in_a_table() -> None:
    shown = StringIO()
    print_summary(Console(file=shown), Benchmark(CLOCKS, [contest("one")]), markdown=True)
    assert shown.getvalue().count("\n|--") == 1
