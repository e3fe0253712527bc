"""Models of PyTorch as ONNX, for callers who give one. Nothing here imports torch: the caller's object brings it."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import onnx

from superopt.onnx_io import ModelError

__all__ = ["from_torch", "is_torch", "warn_of_training"]


def is_torch(model: object) -> bool:
    """Return True for a `torch.nn.Module` and for a `torch.onnx.ONNXProgram`."""
    torch = sys.modules.get("torch")
    return torch is not None and (isinstance(model, torch.nn.Module) or _is_program(model))


def warn_of_training(model: Any) -> None:
    """Warn the caller's caller of a module in training mode, as PyTorch's exporter does, which is silenced here."""
    if not _is_program(model) and model.training:
        warnings.warn(
            "superopt: the module is in training mode, and the exported model may compute what it does in inference"
            " (BatchNorm by its running statistics, no Dropout); call module.eval() first if that is meant",
            stacklevel=3,
        )


def from_torch(model: Any, example_inputs: Sequence[Any] | None, **settings: Any) -> onnx.ModelProto:
    """Return the ONNX model of a program or, exported with `example_inputs`, of a module in its current mode.

    `settings` are arguments of `torch.onnx.export`. Raises ModelError.
    """
    if _is_program(model):
        if example_inputs is not None:
            raise ModelError("example inputs are for a torch.nn.Module; an ONNXProgram is exported already")
        return _proto(model)
    if example_inputs is None:
        raise ModelError("a torch.nn.Module needs example inputs: optimize(module, example_inputs=(x,))")
    if isinstance(example_inputs, Mapping) or not isinstance(example_inputs, Sequence):
        raise ModelError(
            "example inputs must be a tuple with one entry for each argument of the module's forward; a dict at its end"
            " holds keyword arguments"
        )
    torch = sys.modules["torch"]
    try:
        # PyTorch's exporter replaces functions of its own while it runs, and so do the contexts here: one at a time.
        with _EXPORTING, _no_compilation(), _silence(), _plain_attention(torch.backends.mha), torch.no_grad():
            program = torch.onnx.export(model, tuple(example_inputs), dynamo=True, verbose=False, **settings)
    except ImportError as error:
        raise ModelError(f"exporting from PyTorch needs another package: {error}") from error
    except Exception as error:  # the exporter raises what any of its passes raises
        raise ModelError(f"PyTorch cannot export the module to ONNX: {_first_line(error)}") from error
    return _proto(program)


_EXPORTING = threading.RLock()
_EXPORTER_LOGGERS = ("torch.onnx", "onnxscript", "onnx_ir")


def _no_compilation() -> AbstractContextManager[Any]:
    """Return the lock under which torch.compile captures graphs, which goes wrong during an export."""
    frames = sys.modules.get("torch._dynamo.convert_frame")
    lock: AbstractContextManager[Any] = getattr(frames, "compile_lock", nullcontext())
    return lock


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keep the exporter from printing its progress, and warning of packages that the model does not need."""
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in _EXPORTER_LOGGERS}
    for logger in levels:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(_QuietHere()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)


class _QuietHere:
    """Standard output, without what this thread writes to it."""

    def __init__(self) -> None:
        self._stream, self._thread = sys.stdout, threading.get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)


@contextlib.contextmanager
def _plain_attention(settings: Any) -> Iterator[None]:
    """Keep attention layers from using one fused operator, which has no counterpart in ONNX."""
    enabled = settings.get_fastpath_enabled()
    settings.set_fastpath_enabled(False)
    try:
        yield
    finally:
        settings.set_fastpath_enabled(enabled)


def _is_program(model: object) -> bool:
    # By name: importing torch.onnx takes seconds, and an object of this class shows that it was imported.
    return any(kind.__name__ == "ONNXProgram" and kind.__module__.startswith("torch.") for kind in type(model).__mro__)


def _proto(program: Any) -> onnx.ModelProto:
    proto: onnx.ModelProto = program.model_proto
    return proto


def _first_line(error: BaseException) -> str:
    while error.__cause__ is not None:  # the cause says more than the exporter's page of advice
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
