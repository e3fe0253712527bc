"""Time the results of `optimize` again, by other means, and compare the ratios with those that it reported.

python scripts/honest_ratios.py MODEL.onnx ...                      optimize, then time
python scripts/honest_ratios.py MODEL.onnx ... --rounds 9 -- --threads 2 --budget 120

Options after `--` go to `optimize`. Nothing of superopt's own timing is used: each sample is a new process on one core
that opens a session, runs it for a while and reports the median of its times. A round is original, result, result,
original. Prints reported, measured and reported / measured for each changed model, and the geometric mean of the last.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Shapes = Mapping[str, list[int]]
_RUN_SECONDS = 1.5  # of a sample, after a first run
_MIN_RUNS = 5
_NORMAL_95 = 1.96


def main() -> None:
    """Optimize and time the models that the command names."""
    arguments, options = sys.argv[1:], list[str]()
    if "--" in arguments:
        at = arguments.index("--")
        arguments, options = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", type=int, default=max(_cores(), default=0))
    given = parser.parse_args(arguments)
    quotients: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for model in given.models:
            result, report = Path(folder) / "result.onnx", optimized(model, Path(folder) / "result.onnx", options)
            if report is None or not report["changed"] or report["latency"] is None:
                print(f"{model.stem:32} {'failed' if report is None else 'kept'}", flush=True)
                continue

            def seconds(path: Path, shapes: Shapes, threads: int = report["threads"]) -> float:
                return median_seconds(path, shapes, threads, given.core)

            reported = report["latency"]["ratio"]
            sizes = [one["shapes"] for one in report["latency"]["sizes"]]
            ratio, low, high = measured_ratio(model, result, sizes, given.rounds, seconds)
            quotients.append(reported / ratio)
            print(
                f"{model.stem:32} reported {reported:.3f}  measured {ratio:.3f} ({low:.3f} to {high:.3f})"
                f"  reported / measured {quotients[-1]:.3f}",
                flush=True,
            )
    if quotients:
        print(
            f"geometric mean of reported / measured over {len(quotients)}: {statistics.geometric_mean(quotients):.4f}"
        )


def optimized(model: Path, out: Path, options: list[str]) -> dict[str, Any] | None:
    """Return the report of `superopt optimize` on `model`, or None if it failed."""
    run = [sys.executable, "-c", "from superopt.cli import main; main()", "optimize", str(model), "-o", str(out)]
    done = subprocess.run([*run, "--json", "--ep", "cpu", *options], stdout=subprocess.PIPE, text=True)
    return None if done.returncode else dict(json.loads(done.stdout))


def measured_ratio(
    original: Path, result: Path, sizes: list[Shapes], rounds: int, seconds: Callable[[Path, Shapes], float]
) -> tuple[float, float, float]:
    """Return the geometric mean of the ratios over rounds and sizes, with the ends of its 95% interval."""
    logs: list[float] = []
    for _ in range(rounds):
        per_size: list[float] = []
        for shapes in sizes:
            a, b, c, d = (seconds(model, shapes) for model in (original, result, result, original))
            per_size.append(math.log((a + d) / (b + c)))
        logs.append(statistics.fmean(per_size))
    mean = statistics.fmean(logs)
    half = _NORMAL_95 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def median_seconds(model: Path, shapes: Shapes, threads: int, core: int) -> float:
    """Return the median seconds of a run in a new process; CPU time at one thread, else wall time."""
    sample = [sys.executable, __file__, "--sample", str(model), json.dumps(dict(shapes)), str(threads), str(core)]
    return float(subprocess.run(sample, stdout=subprocess.PIPE, text=True, check=True).stdout)


def sample(model: str, shapes: Shapes, threads: int, core: int) -> float:
    """Return the median seconds of a run in this process."""
    import numpy as np
    import onnxruntime as ort

    if threads == 1 and core in _cores():
        os.sched_setaffinity(0, {core})
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    for integer in (0, 1):  # token numbers and indices, then masks and lengths
        feeds = {i.name: _array(rng, i.type, shapes[i.name], integer) for i in session.get_inputs()}
        try:
            session.run(None, feeds)
            break
        except Exception:  # ONNX Runtime has no common class: large integers are no token numbers
            if integer:
                raise
    clock = time.process_time if threads == 1 else time.perf_counter
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < _MIN_RUNS or time.perf_counter() - begun < _RUN_SECONDS:
        start = clock()
        session.run(None, feeds)
        times.append(clock() - start)
    return statistics.median(times)


def _array(rng: Any, kind: str, shape: list[int], integer: int) -> Any:
    name = {"tensor(float)": "float32", "tensor(double)": "float64"}.get(kind, kind[len("tensor(") : -1])
    if name.startswith("float"):
        return rng.standard_normal(shape).astype(name)
    import numpy as np

    return np.full(shape, integer, name)


def _cores() -> set[int]:
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--sample"]:
        _, _, path, given_shapes, number_of_threads, on_core = sys.argv
        print(sample(path, json.loads(given_shapes), int(number_of_threads), int(on_core)))
    else:
        main()
