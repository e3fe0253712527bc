"""Atomic writing of model files."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
from onnx import TensorProto, external_data_helper

from superopt.onnx_io.model import ModelError

__all__ = ["save_model"]

_LIMIT = 2_000_000_000  # bytes; protobuf messages end at 2 GiB
_BIG = 1024  # bytes; smaller tensors stay inside the file, shape inference reads them there


def save_model(model: onnx.ModelProto, path: str | Path, limit: int = _LIMIT) -> None:
    """Write `model` to `path` atomically; more than `limit` bytes of weights go to `<path>.data` beside it.

    Raises ModelError if the file system refuses; then neither file has changed (the data file is replaced first).
    """
    path = Path(path)
    if path.is_dir():
        raise ModelError(f"{path}: is a directory; name a file in it")
    weights = sum(len(tensor.raw_data) for tensor in model.graph.initializer)
    temporary: list[Path] = []
    try:
        if weights > limit:
            data = path.with_name(path.name + ".data")
            temporary.append(_temporary(data))
            model = _external(model, data.name, temporary[0])
        temporary.append(_temporary(path))
        _write(temporary[-1], model.SerializeToString())
        for source, target in zip(temporary, [data, path] if weights > limit else [path], strict=True):
            os.replace(source, target)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        for leftover in temporary:
            leftover.unlink(missing_ok=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def _write(path: Path, *parts: bytes) -> None:
    with open(path, "xb") as file:
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(file.fileno())


def _external(model: onnx.ModelProto, name: str, file: Path) -> onnx.ModelProto:
    """Return `model` with its big initializers in `file`, referred to as `name`."""
    slim = onnx.ModelProto()
    slim.CopyFrom(model)
    offset = 0
    with open(file, "xb") as data:
        for tensor in slim.graph.initializer:
            size = len(tensor.raw_data)
            if tensor.data_type != TensorProto.STRING and size > _BIG:
                data.write(b"\0" * (-offset % 64))  # alignment, for readers that map the file
                offset += -offset % 64
                data.write(tensor.raw_data)
                external_data_helper.set_external_data(tensor, name, offset, size)
                tensor.ClearField("raw_data")
                offset += size
        data.flush()
        os.fsync(data.fileno())
    return slim
