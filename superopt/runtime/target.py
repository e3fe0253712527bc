"""The runtime and execution provider to measure on, and the errors of running a model there."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

__all__ = ["CannotRun", "RanTooLong", "RuntimeUnavailable", "Target", "lacks_operator", "reason"]

# Parts of the runtimes' messages about a failed allocation.
_ALLOCATION_ERRORS = ("bad_alloc", "Failed to allocate memory", "bad allocation")
# Parts of their messages about an operator that is missing here, and that another runtime or provider may have. "No Op
# registered for" is not among them: ONNX itself does not define such an operator in the model's version.
_OPERATOR_ERRORS = (
    "is not a registered function/op",
    "Could not find an implementation for",
    "No conversion rule found for operations",  # OpenVINO
)
# Places in C++ source: ONNX Runtime writes file, line and signature of a function before some messages; OpenVINO writes
# file and line, and the check that failed.
_SOURCE_LOCATION = re.compile(
    r"(?:Exception from|Check 'false' failed at) src[/\\]\S+:\d+: | at src[/\\]\S+:\d+(?=:)|"
    r"(?:/|[A-Z]:\\)\S*onnxruntime\S*\.(?:cc|cpp|cu|cuh|h):\d+ "
    r"(?:[\w:<>~*&, {}]*(?:\(\))?\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])? )?"
)


class RuntimeUnavailable(RuntimeError):
    """The requested execution provider cannot be used on this machine."""


class CannotRun(RuntimeError):
    """The runtime does not load the model, or fails on given inputs; the message is one line."""


class RanTooLong(CannotRun):
    """Opening or running the model took longer than its limit."""


def reason(error: Exception) -> str:
    """Return the message of a runtime's exception in one line, without places in its C++ source or a full stop."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = _SOURCE_LOCATION.sub("", text).removesuffix(".")
    if isinstance(error, MemoryError) or any(part in text for part in _ALLOCATION_ERRORS):
        return f"it needs more memory than is available here ({text})"
    return text


def lacks_operator(error: CannotRun) -> bool:
    """Return True if the runtime lacks an operator of the model, or lacks it for the model's element types."""
    return any(part in str(error) for part in _OPERATOR_ERRORS)


@dataclass(frozen=True)
class Target:
    """Runtime and device, and number of threads (0: the runtime's own choice).

    `provider` is an execution provider of ONNX Runtime, `cpu` or `cuda`, or `openvino` for OpenVINO on the CPU. `tf32`:
    on CUDA, products of float32 may round their operands to TF32, which ONNX Runtime does unless it is told not to.
    """

    provider: str = "cpu"
    threads: int = 1
    tf32: bool = True

    @property
    def runtime(self) -> str:
        """The runtime's name."""
        return "OpenVINO" if self.provider == "openvino" else "ONNX Runtime"

    @property
    def device(self) -> str:
        """The name of the default device of the analytic costs, `cpu` or `cuda`."""
        return "cuda" if self.provider == "cuda" else "cpu"

    @property
    def rounds_operands(self) -> bool:
        """True if products of float32 may round their operands to TF32."""
        return self.provider == "cuda" and self.tf32

    @property
    def in_float32(self) -> Target:
        """This target without TF32."""
        return replace(self, tf32=False)

    @property
    def has_levels(self) -> bool:
        """True if the runtime can run a model without its optimizations."""
        return self.provider != "openvino"

    @property
    def cpu_clock(self) -> bool:
        """True if CPU time measures a run, because one thread does all its work."""
        return self.device == "cpu" and self.threads == 1

    @property
    def clock(self) -> str:
        """The clock that times a run: "cpu" or "wall"."""
        return "cpu" if self.cpu_clock else "wall"
