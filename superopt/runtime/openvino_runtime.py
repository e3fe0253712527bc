"""OpenVINO on the CPU, imported here on first use and nowhere else."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import ml_dtypes

from superopt.runtime.installed import OPENVINO, check_found
from superopt.runtime.loadable import Loadable, NodeTime
from superopt.runtime.target import CannotRun, RuntimeUnavailable, reason

__all__ = ["open_model", "profile", "version"]

# Models run in their own precision, as in ONNX Runtime: on some CPUs OpenVINO would choose bfloat16 for float32.
_CONFIGURATION = {"PERFORMANCE_HINT": "LATENCY", "EXECUTION_MODE_HINT": "ACCURACY", "NUM_STREAMS": "1"}


class _Compiled:
    """A compiled model with one request for inference."""

    def __init__(self, compiled: Any) -> None:
        self._request = compiled.create_infer_request()
        self._outputs = list(compiled.outputs)
        self.input_names = [value.any_name for value in compiled.inputs]
        self.output_names = [value.any_name for value in compiled.outputs]

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model and return all outputs. Raises CannotRun."""
        try:
            found = self._request.infer(feeds, share_inputs=True)
        except Exception as error:  # OpenVINO raises RuntimeError, and its bindings other exceptions
            raise CannotRun(reason(error)) from error
        return [_values(output, found[output]) for output in self._outputs]

    def run_profiled(self, feeds: Mapping[str, Any]) -> list[NodeTime]:
        """Run the model and return the times of its operators in this run. Raises CannotRun."""
        self.run(feeds)
        infos = [info for info in self._request.profiling_info if info.status == info.status.EXECUTED]
        return [NodeTime(one.node_name, one.node_type, one.real_time.total_seconds()) for one in infos]


def _values(output: Any, array: Any) -> Any:
    """Return the values of an output: OpenVINO gives the bits of bfloat16 as an array of float16."""
    is_bfloat16 = output.get_element_type().get_type_name() == "bf16"
    return array.view(ml_dtypes.bfloat16) if is_bfloat16 else array


def open_model(loadable: Loadable) -> _Compiled:
    """Compile a model for the CPU. Raises CannotRun, RuntimeUnavailable."""
    return _compiled(loadable, {})


def profile(loadable: Loadable, feeds: Mapping[str, Any], runs: int) -> list[NodeTime]:
    """Return the operators that run, each with its least time of `runs` runs. Raises CannotRun."""
    model = _compiled(loadable, {"PERF_COUNT": "YES"})
    least: dict[str, NodeTime] = {}
    for _ in range(runs):
        for node in model.run_profiled(feeds):
            least[node.name] = min(node, least.get(node.name, node), key=lambda one: one.seconds)
    return list(least.values())


def _compiled(loadable: Loadable, more: Mapping[str, Any]) -> _Compiled:
    core = _openvino().Core()
    configuration: dict[str, Any] = {**_CONFIGURATION, **more}
    if loadable.threads:
        configuration["INFERENCE_NUM_THREADS"] = loadable.threads
    try:
        return _Compiled(core.compile_model(core.read_model(loadable.model), "CPU", configuration))
    except Exception as error:  # as above
        raise CannotRun(reason(error)) from error


def version() -> str:
    """Return the version of OpenVINO. Raises RuntimeUnavailable."""
    return str(_openvino().__version__).partition("-")[0]


@functools.cache
def _openvino() -> ModuleType:
    """Return the module. Raises RuntimeUnavailable."""
    check_found(OPENVINO)
    try:
        import openvino
    except ImportError as error:
        raise RuntimeUnavailable(f"OpenVINO cannot be imported ({reason(error)})") from error
    module: ModuleType = openvino
    return module
