"""The interface of a runtime: a model in a form that it opens, and the model that it has opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

__all__ = ["CPU", "CUDA", "OPENVINO", "TENSORRT", "Loadable", "NodeTime", "OpenModel", "Runtime"]

# Values of `Loadable.provider`: ONNX Runtime's names of its execution providers, and OpenVINO.
CPU, CUDA, TENSORRT = "CPUExecutionProvider", "CUDAExecutionProvider", "TensorrtExecutionProvider"
OPENVINO = "OpenVINO"


@dataclass(frozen=True)
class Loadable:
    """A model, as its bytes or its absolute path, and how to open it.

    `provider` is the execution provider of ONNX Runtime, or OPENVINO. `level` is "all" for all of ONNX Runtime's
    optimizations, "none" for none of them, "any" for all, or none if the model does not load with them; OpenVINO has
    one level only. `rooted`: the model names the files of its weights relative to the root of the file system, not to
    its own folder. `tf32`: products of float32 may round their operands to TF32 (on CUDA).
    """

    model: bytes | str
    provider: str
    threads: int
    level: str = "all"
    rooted: bool = False
    tf32: bool = True


class NodeTime(NamedTuple):
    """An operator as a runtime runs it: the node's name, its type, and the seconds of one run."""

    name: str
    operator: str
    seconds: float


class OpenModel(Protocol):
    """A model that a runtime has opened, with the names of its inputs and outputs."""

    @property
    def input_names(self) -> list[str]: ...

    @property
    def output_names(self) -> list[str]: ...

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model and return all outputs, in the model's order. Raises CannotRun."""
        ...


class Runtime(Protocol):
    """A module that opens models: `onnx_runtime.py` and `openvino_runtime.py`. It imports its package on first use."""

    def open_model(self, loadable: Loadable) -> OpenModel:
        """Open a model on exactly the requested provider. Raises CannotRun, RuntimeUnavailable."""
        ...

    def profile(self, loadable: Loadable, feeds: Mapping[str, Any], runs: int) -> list[NodeTime]:
        """Return the operators that run, each with its least time of `runs` runs. Raises CannotRun."""
        ...

    def version(self) -> str:
        """Return the version of the package. Raises RuntimeUnavailable."""
        ...
