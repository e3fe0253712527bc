"""Run the benchmark on all models, and record the machine and versions."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from superopt.bench.contest import BenchmarkSettings, Progress, contest
from superopt.bench.contestants import Contestant
from superopt.bench.result import Benchmark, Contest
from superopt.onnx_io.load import load_proto
from superopt.optimizer.input_sizes import InputSizes
from superopt.runtime import InputError, Unfeedable, input_specs, versions
from superopt.temporary import temporary_folder

__all__ = ["bench"]


def bench(
    models: Sequence[Path],
    contestants: Sequence[Contestant],
    options: BenchmarkSettings,
    *,
    keep: Path | None = None,
    absent: Mapping[str, str] | None = None,
    progress: Progress = lambda _: None,
    finished: Callable[[Contest], None] = lambda _: None,
) -> Benchmark:
    """Run all contestants on all models; `finished` is called after each model.

    The optimized models are kept in the folder `keep`, if given. A contestant that fails gets a row with its failure.

    Raises ModelError for a file that is not a model, InputError for a shape that no model accepts (both before any
    measurement), RuntimeUnavailable, OSError.
    """
    _check(models, options.shapes)
    contests: list[Contest] = []
    for model, label in zip(models, _labels(models), strict=True):
        with _folder(keep, label) as folder:
            contests.append(contest(model, label, folder, contestants, options, progress))
        finished(contests[-1])
    return Benchmark(
        clocks={name: title for name, (title, _) in options.clocks.items()},
        contests=contests,
        absent=dict(absent or {}),
        machine=_machine(),
        versions=versions() | {c.name: version for c in contestants if (version := c.version()) is not None},
        options={
            "provider": options.target.provider,
            "threads": options.threads,
            "seed": options.seed,
            "shapes": {name: list(shape) for name, shape in options.shapes.items()},
            "measure_s": options.measure_s,
            "timeout_s": options.timeout_s,
            **options.ours,
        },
    )


def _check(models: Sequence[Path], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse unusable models and shapes before hours of work."""
    taken: set[str] = set()
    for model in models:
        try:
            specs = input_specs(load_proto(model))
            given = {spec.name: shapes[spec.name] for spec in specs if spec.name in shapes}
            InputSizes(specs, given)
        except Unfeedable:
            continue  # its contest reports the problem
        taken |= given.keys()
    if unknown := sorted(shapes.keys() - taken):
        raise InputError(f"no model has an input {unknown[0]!r}")


def _labels(models: Sequence[Path]) -> list[str]:
    """Return short, distinct names: the file's name, with its folder or a number if names clash."""
    for names in ([m.stem for m in models], [f"{m.absolute().parent.name}_{m.stem}" for m in models]):
        if max(Counter(names).values(), default=0) <= 1:
            return names
    return [f"{number}_{model.stem}" for number, model in enumerate(models, 1)]


@contextmanager
def _folder(keep: Path | None, label: str) -> Iterator[Path]:
    if keep is None:
        with temporary_folder() as folder:
            yield folder
    else:
        folder = keep / label
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _cpu() -> str:
    """Return the processor's model name, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return named or platform.processor() or "unknown"
