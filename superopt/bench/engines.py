"""Engines that run a model: ONNX Runtime, for which the optimizers optimize, and OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from superopt.runtime import CannotRun, Feeds, Standing, Target, loadable, time_contest
from superopt.runtime.engine import local_run

__all__ = ["ENGINES", "outputs", "time_engines"]

Run: TypeAlias = Callable[[Feeds], list[Any]]


def _onnxruntime(path: Path, target: Target) -> Run:
    with loadable(path, target) as model:
        return local_run(model)


def _openvino(path: Path, target: Target) -> Run:
    """Compile for the CPU in the model's own precision; on some CPUs OpenVINO would otherwise choose bfloat16."""
    import openvino

    config: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "EXECUTION_MODE_HINT": "ACCURACY"}
    if target.threads:
        config["INFERENCE_NUM_THREADS"] = target.threads
    compiled = openvino.Core().compile_model(str(path), "CPU", config)
    request = compiled.create_infer_request()

    def run(feeds: Feeds) -> list[Any]:
        try:
            found = request.infer(feeds, share_inputs=True)
        except RuntimeError as error:
            raise CannotRun(" ".join(str(error).split())) from error
        return [found[output] for output in compiled.outputs]

    return run


ENGINES: Mapping[str, Callable[[Path, Target], Run]] = {"ONNX Runtime": _onnxruntime, "OpenVINO": _openvino}


def time_engines(
    entrants: Sequence[tuple[str, Path]],
    target: Target,
    feeds: Feeds,
    cpu_clock: bool,
    budget_s: float,
    seed: str,
    sample_s: float,
) -> list[Standing]:
    """Time models, each by its engine, against the first of them (`time_contest`). Raises CannotRun."""

    def maker(engine: str, path: Path) -> Callable[[], Callable[[], object]]:
        return lambda: partial(ENGINES[engine](path, target), feeds)

    makers = [maker(*entrant) for entrant in entrants]
    return time_contest(makers, budget_s=budget_s, cpu_clock=cpu_clock, seed=seed, sample_s=sample_s)


def outputs() -> Callable[[str, Path, Sequence[Target], Sequence[Feeds]], list[list[list[Any]]]]:
    """Return the worker's function: the outputs of the model at `path` for each target and each set of inputs.

    A crash or hang happens in the worker, not in the benchmark.
    """

    def run(engine: str, path: Path, targets: Sequence[Target], feeds: Sequence[Feeds]) -> list[list[list[Any]]]:
        found: list[list[list[Any]]] = []
        for target in targets:
            execute = ENGINES[engine](path, target)
            found.append([[*execute(one)] for one in feeds])
        return found

    return run
