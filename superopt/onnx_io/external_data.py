"""External data: weights in files beside the model's, wherever a model names them.

Small tensors are loaded. Large ones stay in their files: their locations become relative to the root of the file
system, so that every model made of them can name them, and their arrays are memory maps. Their bytes are read when
they are used, and written nowhere but to a result.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import SparseTensorProto, TensorProto

from superopt.evaluate import dtype_name, numpy_dtype
from superopt.files import ROOT
from superopt.onnx_io.model import Array, ModelError

__all__ = [
    "Extent",
    "MappedArray",
    "all_tensors",
    "embed",
    "extent_of",
    "external_files",
    "is_external",
    "load_external_data",
    "map_tensor",
    "refer",
    "release_all",
    "set_location",
    "tensor_bytes",
    "weight_bytes",
]

_MAPPED_BYTES = 1 << 20  # larger tensors stay in their files
_BITS = {"INT2": 2, "UINT2": 2, "INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4}  # of packed types; others have whole bytes


@dataclass(frozen=True)
class Extent:
    """Bytes of a file: `length` bytes from `offset`."""

    path: Path
    offset: int
    length: int

    def read(self) -> bytes:
        """Return the bytes. Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.length)


class MappedArray(np.ndarray[Any, np.dtype[Any]]):
    """The array of a tensor in a file. Arrays computed from it are not mapped: their `extent` is None."""

    extent: Extent | None = None


# Locations that `load_external_data` has checked and made relative to the root: others are relative to a folder that
# is not known here.
_checked: set[str] = set()
_maps: WeakValueDictionary[str, mmap.mmap] = WeakValueDictionary()  # by location, while an array uses them


def is_external(tensor: TensorProto) -> bool:
    """Return True if the values of `tensor` are in another file."""
    return bool(tensor.data_location == TensorProto.EXTERNAL)


def all_tensors(message: Message) -> Iterator[TensorProto]:
    """Yield all tensors in `message`: initializers, attributes, bodies, functions, parts of sparse tensors."""
    return (part for part in _parts(message) if isinstance(part, TensorProto))


def external_files(model: onnx.ModelProto, path: Path) -> tuple[Path, ...]:
    """Return the files that hold weights of `model`, whose file is `path`. Raises ModelError."""
    found = {_file_of(tensor, path) for tensor in all_tensors(model) if is_external(tensor)}
    return tuple(sorted(found))


def load_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Load the small external tensors of `model`, whose file is `path`, and let the others refer to existing bytes.

    Raises ModelError for a file that is missing, too short, or outside the folder of the model.
    """
    for part in _parts(model):
        if isinstance(part, SparseTensorProto):
            for tensor in (part.values, part.indices):
                if is_external(tensor):
                    _embed(tensor, _checked_extent(tensor, path), path)
        elif isinstance(part, TensorProto) and is_external(part):
            extent = _checked_extent(part, path)
            if extent.length < _MAPPED_BYTES or not _is_mappable(part):
                _embed(part, extent, path)
            else:
                refer(part, extent)
                _maps.pop(location_of(part), None)  # the file may be another one than before


def embed(model: onnx.ModelProto) -> None:
    """Load all tensors of `model` that `load_external_data` has left in their files. Raises ModelError."""
    for tensor in all_tensors(model):
        if is_external(tensor):
            extent = extent_of(tensor)
            _embed(tensor, extent, extent.path)


def tensor_bytes(tensor: TensorProto) -> int:
    """Return the bytes that the values of a tensor need in a file, 0 for text. Raises ValueError for unknown types."""
    name = TensorProto.DataType.Name(tensor.data_type)
    if tensor.data_type == TensorProto.STRING:
        return 0
    bits = _BITS.get(name) or 8 * numpy_dtype(name.lower()).itemsize
    count: int = math.prod(tensor.dims)
    return (count * bits + 7) // 8


def weight_bytes(model: onnx.ModelProto) -> int:
    """Return the bytes of all tensors of `model` whose type is known, also of those in other files."""
    total = 0
    for tensor in all_tensors(model):
        with contextlib.suppress(ValueError, TypeError):
            total += tensor_bytes(tensor)
    return total


def refer(tensor: TensorProto, extent: Extent) -> None:
    """Let `tensor` refer to the bytes of a file instead of holding its values."""
    tensor.ClearField("raw_data")
    location = extent.path.relative_to(ROOT).as_posix()
    set_location(tensor, location, extent.offset, extent.length)
    _checked.add(location)


def set_location(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Let `tensor`, which holds no values, refer to `location`."""
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))


def location_of(tensor: TensorProto) -> str:
    """Return the name of the file that holds an external tensor."""
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def extent_of(tensor: TensorProto) -> Extent:
    """Return the bytes that a tensor refers to, after `refer`."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return Extent(ROOT / entries["location"], int(entries["offset"]), int(entries["length"]))


def map_tensor(tensor: TensorProto) -> MappedArray | None:
    """Return the array of a tensor that `load_external_data` has left in its file, or None for any other tensor.

    Raises ValueError if the file cannot be read any more.
    """
    location = location_of(tensor)
    if location not in _checked:
        return None
    extent, dtype = extent_of(tensor), numpy_dtype(dtype_name(tensor.data_type))
    if (content := _maps.get(location)) is None:
        content = _maps[location] = _map(extent.path)
    flat = np.frombuffer(content, dtype, extent.length // dtype.itemsize, extent.offset)
    array = flat.reshape(tuple(tensor.dims)).view(MappedArray)
    array.extent = extent
    return array


def release_all(arrays: Iterable[Array]) -> None:
    """Give back the memory that reading mapped arrays has filled; they are read again when they are used."""
    extents = {array.extent.path for array in arrays if isinstance(array, MappedArray) and array.extent is not None}
    for path in extents if hasattr(mmap, "MADV_DONTNEED") else ():
        if (content := _maps.get(path.relative_to(ROOT).as_posix())) is not None:
            content.madvise(mmap.MADV_DONTNEED)


def _parts(message: Message) -> Iterator[Message]:
    """Yield `message` and all messages in it, each before its own parts. Tensors are not opened."""
    stack: list[Message] = [message]
    while stack:
        part = stack.pop()
        yield part
        if not isinstance(part, TensorProto):
            for field, value in part.ListFields():
                if field.type == FieldDescriptor.TYPE_MESSAGE:
                    stack.extend((value,) if isinstance(value, Message) else value)


def _number(entries: Mapping[str, str], key: str, default: int) -> int:
    """Return the number of bytes that an entry states, in decimal digits. Raises ValueError."""
    text = entries.get(key) or str(default)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"its {key} is {text!r}")
    return int(text)


def _checked_extent(tensor: TensorProto, path: Path) -> Extent:
    """Return the bytes of an external tensor of the model in the file `path`. Raises ModelError."""
    file, entries = _file_of(tensor, path), {entry.key: entry.value for entry in tensor.external_data}
    try:
        needed = tensor_bytes(tensor)
        offset, length = _number(entries, "offset", 0), _number(entries, "length", needed)
    except (ValueError, TypeError, KeyError) as error:
        raise _malformed(tensor, path, str(error)) from None
    if (
        tensor.data_type == TensorProto.STRING
        or any(size < 0 for size in tensor.dims)
        or offset < 0
        or length != needed
    ):
        raise _malformed(tensor, path, f"its shape needs {needed} bytes, not {length} from {offset}")
    size = file.stat().st_size
    if offset + length > size:
        raise _malformed(
            tensor, path, f"it ends at byte {offset + length} of {file.name}, which has {size} bytes; copy it again"
        )
    return Extent(file, offset, length)


def _file_of(tensor: TensorProto, path: Path) -> Path:
    """Return the file that holds `tensor`, without links. It must be in the folder of the model `path`.

    If `path` is a link, the file may also be in the folder that the link leads to (caches consist of such links).
    """
    location = location_of(tensor)
    if not location or "\0" in location:
        raise _malformed(tensor, path, "its file has no name")
    if Path(location).is_absolute():
        raise _malformed(tensor, path, f"{location} is an absolute path; move the file into the folder of the model")
    file = Path(os.path.realpath(path.parent / location))
    if not any(file.is_relative_to(folder) for folder in (path.parent.resolve(), path.resolve().parent)):
        raise _malformed(tensor, path, f"{location} is outside of the folder of the model; move the file into it")
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        raise _malformed(tensor, path, f"{location}: no such file; copy it to the folder of the model") from None
    except OSError as error:
        raise _malformed(tensor, path, f"{location}: {error.strerror or error}") from None
    if not stat.S_ISREG(mode):
        raise _malformed(tensor, path, f"{location} is no regular file")
    return file


def _malformed(tensor: TensorProto, path: Path, reason: str) -> ModelError:
    return ModelError(f"{path}: external data: tensor {tensor.name!r}: {reason}")


def _is_mappable(tensor: TensorProto) -> bool:
    """Return True if the bytes of the file are those of an array."""
    return sys.byteorder == "little" and TensorProto.DataType.Name(tensor.data_type) not in _BITS


def _map(path: Path) -> mmap.mmap:
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None


def _embed(tensor: TensorProto, extent: Extent, path: Path) -> None:
    """Load `tensor` from `extent`."""
    try:
        data = extent.read()
    except OSError as error:
        raise _malformed(tensor, path, f"{extent.path}: {error.strerror or error}") from None
    if len(data) < extent.length:
        raise _malformed(tensor, path, f"{extent.path} has become shorter")
    tensor.raw_data = data
    tensor.ClearField("data_location")
    del tensor.external_data[:]
