"""OpenVINO on the CPU, imported here on first use and nowhere else."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from superopt.runtime.installed import OPENVINO, check_found
from superopt.runtime.loadable import Loadable
from superopt.runtime.target import CannotRun, RuntimeUnavailable, reason

__all__ = ["open_model", "version"]

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
        return [found[output] for output in self._outputs]


def open_model(loadable: Loadable) -> _Compiled:
    """Compile a model for the CPU. Raises CannotRun, RuntimeUnavailable."""
    core = _openvino().Core()
    configuration: dict[str, Any] = dict(_CONFIGURATION)
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
