"""Atomic writing of model files. Above the limit of protobuf, weights go to a second file."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import BinaryIO

import onnx
from onnx import TensorProto

from superopt.files import ROOT, OutputError, replacing, write_whole
from superopt.onnx_io.external_data import (
    Extent,
    all_tensors,
    embed,
    extent_of,
    is_external,
    set_location,
    tensor_bytes,
)
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.serialize import serialized
from superopt.onnx_io.skeleton import copy_fields
from superopt.temporary import is_stale

__all__ = ["INLINE_LIMIT", "NOTHING_INLINE", "check_second_file", "embedded", "inline_bytes", "save_model", "spilled"]

INLINE_LIMIT = 2_000_000_000  # of weights in one file; protobuf messages end at 2 GiB
NOTHING_INLINE = 0  # a limit with which all weights but small ones go to a file of their own
_BIG = 1024  # bytes; smaller tensors stay inside the file, shape inference reads them there
_CHUNK_BYTES = 1 << 24  # copied at once
_ALIGNMENT = 64  # bytes, for readers that map the file
_NAME_BYTES = 255  # of a file's name, on all usual file systems
_HASH_BYTES = 8
_WEIGHTS = re.compile(rf"[^/]*\.[0-9a-f]{{{2 * _HASH_BYTES}}}\.data")


def save_model(model: onnx.ModelProto, path: str | Path, limit: int = INLINE_LIMIT) -> Path | None:
    """Write `model` to `path`, all or nothing; more than `limit` bytes of weights go to a file beside it.

    Return the file of weights, None if they are all inside.

    The name of that file contains a hash of the weights, so that the weights of an earlier model at `path` stay until
    `path` is replaced. Then they are removed, and those that a killed process has left, unless another file of the
    folder mentions them. Raises OutputError, ModelError if a file with weights of `model` cannot be read.
    """
    path = Path(path)
    has_big = any(is_external(tensor) or _is_big(tensor) for tensor in all_tensors(model))
    whole = embedded(model, limit) if has_big else model
    old = _own_weights(path)
    if whole is not None:
        with replacing(path) as file:
            file.writelines(serialized(whole))
        _remove_unused(path, old)
        return None
    check_second_file(path)
    weights = path.with_name(_weights_name(path, model))
    existed = weights.exists()
    with replacing(weights) as file:
        slim = _split(model, weights.name, file, carried=True)
        lock = os.dup(file.fileno())  # until `path` mentions the file it is in use, as temporary files are
    try:
        write_whole(path, slim.SerializeToString())
    except BaseException:
        if not existed:
            weights.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)
    _remove_unused(path, old - {weights.name}, weights.name)
    return weights


def check_second_file(path: Path) -> None:
    """Raise OutputError if `path` is a link into another folder: its weights would be found from one folder only."""
    target = Path(os.path.realpath(path))
    if target.parent != Path(os.path.realpath(path.parent)):
        raise OutputError(f"{path}: is a link to {target}, and weights go to a file beside the model; name that file")


def embedded(model: onnx.ModelProto, limit: int = INLINE_LIMIT) -> onnx.ModelProto | None:
    """Return `model` with all weights inside, or None if these are more than `limit` bytes. Raises ModelError."""
    external = [tensor for tensor in all_tensors(model) if is_external(tensor)]
    if inline_bytes(model) + sum(map(tensor_bytes, external)) > limit:
        return None
    if not external:
        return model
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    embed(whole)
    return whole


def inline_bytes(model: onnx.ModelProto) -> int:
    """Return the bytes of the weights in `model` itself."""
    return sum(tensor_bytes(tensor) for tensor in model.graph.initializer if not is_external(tensor))


def spilled(model: onnx.ModelProto, weights: Path, *, beside: bool = False) -> onnx.ModelProto:
    """Return `model` with its big weights moved to the new file `weights`. Raises OSError.

    The file is named relative to the root; with `beside`, relative to the model, which is to be in the same folder.
    """
    location = weights.name if beside else weights.resolve().relative_to(ROOT).as_posix()
    with weights.open("wb") as file:
        return _split(model, location, file, carried=False)


def _split(model: onnx.ModelProto, location: str, file: BinaryIO, carried: bool) -> onnx.ModelProto:
    """Write the big weights of `model` to `file`, and return the model with references to them at `location`.

    `carried`: also write the weights that are in other files.
    """
    slim = onnx.ModelProto()
    copy_fields(model, slim, {"graph"})
    copy_fields(model.graph, slim.graph, {"initializer"})
    for tensor in model.graph.initializer:
        copy = slim.graph.initializer.add()
        if _is_big(tensor):
            copy_fields(tensor, copy, {"raw_data"})
            content = tensor.raw_data  # a copy
            set_location(copy, location, _aligned(file), len(content))
            file.write(content)
        else:
            copy.CopyFrom(tensor)
    written: dict[Extent, int] = {}  # offsets of what other files hold, which several tensors may share
    for tensor in all_tensors(slim) if carried else ():
        if is_external(tensor) and (extent := extent_of(tensor)).path != ROOT / location:
            if extent not in written:
                written[extent] = _aligned(file)
                file.writelines(_chunks(extent))
            set_location(tensor, location, written[extent], extent.length)
    return slim


def _is_big(tensor: TensorProto) -> bool:
    return tensor.HasField("raw_data") and not is_external(tensor) and tensor_bytes(tensor) > _BIG


def _aligned(file: BinaryIO) -> int:
    """Pad the file, and return its position."""
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    return file.tell()


def _chunks(extent: Extent) -> Iterator[bytes]:
    """Yield the bytes of `extent`. Raises ModelError."""
    try:
        with extent.path.open("rb") as file:
            file.seek(extent.offset)
            left = extent.length
            while left:
                chunk = file.read(min(_CHUNK_BYTES, left))
                if not chunk:
                    raise ModelError(f"{extent.path}: has become shorter during the run")
                left -= len(chunk)
                yield chunk
    except OSError as error:
        raise ModelError(f"{extent.path}: {error.strerror or error}") from None


def _weights_name(path: Path, model: onnx.ModelProto) -> str:
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    for tensor in all_tensors(model):
        if is_external(tensor) or _is_big(tensor):
            digest.update(f"{tensor_bytes(tensor)}|".encode())
            for chunk in _chunks(extent_of(tensor)) if is_external(tensor) else (tensor.raw_data,):
                digest.update(chunk)
    return f"{_stem(path)}.{digest.hexdigest()}.data"


def _stem(path: Path) -> str:
    """Return how the names of weights of the model at `path` begin."""
    rest = len(".") + 2 * _HASH_BYTES + len(".data")
    return path.name.encode()[: _NAME_BYTES - rest].decode(errors="ignore")


def _own_weights(path: Path) -> set[str]:
    """Return the names of the weight files of the model at `path`, as far as `save_model` has named them."""
    try:
        if not any(map(_WEIGHTS.fullmatch, os.listdir(path.parent))):
            return set()  # most models have none, and a large one takes seconds to read
        model = onnx.load(path, load_external_data=False)
    except Exception:  # noqa: BLE001 - whatever is there, it names no file that is known to be ours
        return set()
    names = {entry.value for tensor in all_tensors(model) for entry in tensor.external_data if entry.key == "location"}
    return set(filter(_WEIGHTS.fullmatch, names))


def _remove_unused(path: Path, old: Set[str], used: str = "") -> None:
    """Remove files of weights that no other file in the folder mentions: `old`, and those of killed runs for `path`."""
    with contextlib.suppress(OSError):  # an unused file does no harm
        entries = {entry for entry in path.parent.iterdir() if entry.is_file()}
        for weights in sorted(entries):
            is_ours = _WEIGHTS.fullmatch(weights.name) and weights.name.rsplit(".", 2)[0] == _stem(path)
            is_unused = weights.name in old or (is_ours and weights.name != used and _is_left(weights))
            if is_unused and not _mentioned(weights.name.encode(), entries - {weights}):
                weights.unlink()
                entries.remove(weights)


def _is_left(weights: Path) -> bool:
    """Return True if no process that lives has written the file for a model that it has not put in place yet."""
    with weights.open("rb+") as file:
        return is_stale(file.fileno())


def _mentioned(name: bytes, files: Iterable[Path]) -> bool:
    for path in files:
        if 0 < path.stat().st_size < 2 * INLINE_LIMIT:  # no model is larger
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if content.find(name) >= 0:
                    return True
    return False
