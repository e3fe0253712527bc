"""Engines that run a model: ONNX Runtime, for which the optimizers optimize, and OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from superopt.runtime import CannotRun, Feeds, Target, open_session

__all__ = ["ENGINES", "outputs"]

Run: TypeAlias = Callable[[Feeds], list[Any]]


def _onnxruntime(path: Path, target: Target) -> Run:
    return open_session(path, target).run


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
