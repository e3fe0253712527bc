#!/usr/bin/env python3
"""Optimize every model of a folder and print what came out: operators, latency ratio, difference, time.

The ratio is measured once more here, by itself, for what was written: original against result in ONNX Runtime with
all its optimizations on, interleaved (above 1: the result is faster).

    bench_zoo.py MODELS_DIR [NAME ...] [--out DIR] [--budget 60] [--markdown]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import onnx

from superopt.onnx_io import ModelError
from superopt.optimizer import Result, optimize
from superopt.optimizer.judge import Judge
from superopt.runtime import CannotRun, Comparison, Target, Timing, Unfeedable, open_session

HEADINGS = ("model", "operators", "before", "after", "ratio (95%)", "difference", "tolerance", "seconds", "outcome")


def judged(source: Path, written: Path, target: Target, measure_s: float) -> tuple[Comparison, Timing]:
    """Fresh inputs (another seed than the optimizer's) and a fresh measurement."""
    judge = Judge(source, onnx.load(source, load_external_data=False), target, seed=12345, shapes={}, inputs=2)
    return judge.compare(open_session(written, target)), judge.time(written, measure_s)


def operators(result: Result) -> str:
    return f"{sum(result.operators_before.values())} -> {sum(result.operators_after.values())}"


def outcome(result: Result) -> str:
    return ("written: " if result.changed else "kept: ") + result.reason


def unmeasured(name: str, result: Result, seconds: float) -> tuple[str, ...]:
    return (name, operators(result), *"-----", f"{seconds:.0f}", outcome(result))


def row(name: str, result: Result, comparison: Comparison, timing: Timing, seconds: float) -> tuple[str, ...]:
    return (
        name,
        operators(result),
        f"{timing.before * 1e3:.2f} ms",
        f"{timing.after * 1e3:.2f} ms",
        f"{timing.ratio:.3f} ({timing.low:.3f} to {timing.high:.3f})",
        f"{comparison.relative:.1e}" + ("" if comparison.ok else " WRONG"),
        f"{comparison.tolerance:.1e}",
        f"{seconds:.0f}",
        outcome(result),
    )


def show(cells: tuple[str, ...], markdown: bool) -> None:
    if markdown:
        print("| " + " | ".join(cells) + " |", flush=True)
    else:
        widths = (30, 14, 11, 11, 24, 10, 10, 8, 0)
        print("".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these")
    parser.add_argument("--out", type=Path, help="keep the results (and their reports as JSON) here")
    parser.add_argument("--rules", type=Path)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--measure", type=float, default=5.0, help="seconds for each measurement")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    target, failed = Target("cpu", arguments.threads), False
    show(HEADINGS, arguments.markdown)
    if arguments.markdown:
        show(("---",) * len(HEADINGS), True)
    with tempfile.TemporaryDirectory() as temporary:
        out = arguments.out or Path(temporary)
        out.mkdir(parents=True, exist_ok=True)
        for source in sorted(arguments.models.glob("*.onnx")):
            if arguments.names and not any(name in source.stem for name in arguments.names):
                continue
            start = time.perf_counter()
            try:
                result = optimize(
                    source,
                    out / source.name,
                    ep="cpu",
                    threads=arguments.threads,
                    budget=arguments.budget,
                    rules=arguments.rules,
                    measure_s=arguments.measure,
                    progress=lambda message, name=source.stem: print(f"{name}: {message}", file=sys.stderr),
                )
            except ModelError as error:
                failed = True
                print(f"{source.stem}: {error}", flush=True)
                continue
            seconds = time.perf_counter() - start
            if arguments.out:
                (out / f"{source.stem}.json").write_text(result.to_json())
            try:
                comparison, timing = judged(source, out / source.name, target, arguments.measure)
            except (CannotRun, Unfeedable):
                show(unmeasured(source.stem, result, seconds), arguments.markdown)
            else:
                failed |= not comparison.ok or timing.high < 0.98
                show(row(source.stem, result, comparison, timing, seconds), arguments.markdown)
            if not arguments.out:
                (out / source.name).unlink()
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
