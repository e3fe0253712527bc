"""Engines that run a model: ONNX Runtime, for which the optimizers optimize, and others that take the original.

All take inputs from the memory of the host and return outputs there, so the copies to and from a GPU count for each.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from superopt.runtime import CannotRun, Feeds, Standing, Target, loadable, time_contest
from superopt.runtime.engine import local_run
from superopt.runtime.loadable import TENSORRT

__all__ = ["ENGINES", "outputs", "time_engines"]

Run: TypeAlias = Callable[[Feeds], list[Any]]


def _of_target(path: Path, target: Target) -> Run:
    with loadable(path, target) as model:
        return local_run(model)


def _openvino(path: Path, target: Target) -> Run:
    return _of_target(path, replace(target, provider="openvino"))


def _tensorrt(path: Path, target: Target) -> Run:
    """ONNX Runtime's TensorRT provider; operators that TensorRT lacks run on CUDA, or else on the CPU."""
    with loadable(path, target) as model:
        return local_run(replace(model, provider=TENSORRT))


@functools.lru_cache(maxsize=1)  # compilation takes up to minutes: heats share it
def _torch_compile(path: Path, target: Target) -> Run:
    """PyTorch's compiler, on the model as a module of PyTorch."""
    import onnx
    import onnx2torch
    import torch

    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    names = [value.name for value in graph.input if value.name not in weights]
    device = torch.device(target.provider)
    torch.set_float32_matmul_precision("high" if target.tf32 else "highest")  # as ONNX Runtime takes them
    compiled = torch.compile(onnx2torch.convert(str(path)).eval().to(device))

    def run(feeds: Feeds) -> list[Any]:
        try:
            with torch.inference_mode():
                found = compiled(*(torch.from_numpy(feeds[name]).to(device) for name in names))
                results = found if isinstance(found, (tuple, list)) else [found]
                return [result.cpu().numpy() for result in results]
        except RuntimeError as error:
            raise CannotRun(" ".join(str(error).split())) from error

    return run


ENGINES: Mapping[str, Callable[[Path, Target], Run]] = {
    "ONNX Runtime": _of_target,
    "OpenVINO": _openvino,
    "TensorRT": _tensorrt,
    "torch.compile": _torch_compile,
}


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
