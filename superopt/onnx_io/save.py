"""Atomic writing of model files. Above the limit of protobuf, weights go to a second file."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto, external_data_helper

from superopt.files import replacing, write_whole

__all__ = ["save_model"]

_LIMIT = 2_000_000_000  # bytes; protobuf messages end at 2 GiB
_BIG = 1024  # bytes; smaller tensors stay inside the file, shape inference reads them there
_ALIGNMENT = 64  # bytes, for readers that map the file
_NAME_BYTES = 255  # of a file's name, on all usual file systems
_WEIGHTS = re.compile(r"\.[0-9a-f]{16}\.data")


def save_model(model: onnx.ModelProto, path: str | Path, limit: int = _LIMIT) -> None:
    """Write `model` to `path`, all or nothing; more than `limit` bytes of weights go to a file beside it.

    The name of that file contains a hash of the weights, so that the weights of an earlier model at `path` stay until
    `path` is replaced. Then they are removed, unless another file of the folder mentions them. Raises OutputError.
    """
    path = Path(path)
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) <= limit:
        write_whole(path, model.SerializeToString())
        return
    old = _own_weights(path)
    weights = path.with_name(_weights_name(path, model))
    existed = weights.exists()
    with replacing(weights) as file:
        slim = _external(model, weights.name, file)
    try:
        write_whole(path, slim.SerializeToString())
    except BaseException:
        if not existed:
            weights.unlink(missing_ok=True)
        raise
    for name in old - {weights.name}:
        _remove_unused(path.with_name(name))


def _big(model: onnx.ModelProto) -> Iterator[TensorProto]:
    for tensor in model.graph.initializer:
        if tensor.data_type != TensorProto.STRING and len(tensor.raw_data) > _BIG:
            yield tensor


def _weights_name(path: Path, model: onnx.ModelProto) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for tensor in _big(model):
        digest.update(f"{len(tensor.raw_data)}|".encode())
        digest.update(tensor.raw_data)
    end = f".{digest.hexdigest()}.data"
    return path.name.encode()[: _NAME_BYTES - len(end)].decode(errors="ignore") + end


def _external(model: onnx.ModelProto, name: str, file: BinaryIO) -> onnx.ModelProto:
    """Write the big initializers of `model` to `file`, and return the model with references to them under `name`."""
    slim = onnx.ModelProto()
    slim.CopyFrom(model)
    offset = 0
    for tensor in _big(slim):
        padding = -offset % _ALIGNMENT
        file.write(b"\0" * padding)
        file.write(tensor.raw_data)
        external_data_helper.set_external_data(tensor, name, offset + padding, len(tensor.raw_data))
        offset += padding + len(tensor.raw_data)
        tensor.ClearField("raw_data")
    return slim


def _own_weights(path: Path) -> set[str]:
    """Return the names of the weight files of the model at `path` that `save_model` has written."""
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # noqa: BLE001 - whatever is there, it has no weights that are known to be ours
        return set()
    names = {external_data_helper.ExternalDataInfo(t).location for t in model.graph.initializer if t.external_data}
    return {name for name in names if _WEIGHTS.fullmatch(name[-len(".0123456789abcdef.data") :]) and "/" not in name}


def _remove_unused(weights: Path) -> None:
    """Remove a file of weights unless another file in its folder contains its name."""
    with contextlib.suppress(OSError):  # an unused file does no harm
        others = (entry for entry in weights.parent.iterdir() if entry.name != weights.name and entry.is_file())
        if not _mentioned(weights.name.encode(), others):
            weights.unlink()


def _mentioned(name: bytes, files: Iterable[Path]) -> bool:
    for path in files:
        if 0 < path.stat().st_size < 2 * _LIMIT:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if content.find(name) >= 0:
                    return True
    return False
