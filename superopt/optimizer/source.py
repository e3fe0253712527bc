"""The original model, read once and handed to every phase that needs it."""

from __future__ import annotations

import contextlib
import hashlib
from functools import cached_property
from pathlib import Path

import onnx

from superopt.onnx_io import Model, ModelError, read_simplified
from superopt.onnx_io.external_data import all_tensors, external_files, is_external, load_external_data, release_all
from superopt.onnx_io.load import parse_proto, read_bytes
from superopt.runtime import LARGE_BYTES

__all__ = ["Source", "model_digest"]

_CHUNK_BYTES = 1 << 24  # read at once while hashing


class Source:
    """A model in a file or in memory, read once.

    `path` is its file (None: in memory). `proto` is the model as it is in the file, without external data. `runnable`
    is the form that ONNX Runtime loads: the path, because weights may be beside it, or the bytes of a model in memory.

    Raises ModelError if the file is not a model, or if a model in memory has weights in other files.
    """

    def __init__(self, model: str | Path | onnx.ModelProto) -> None:
        self.runnable: bytes | Path
        if isinstance(model, onnx.ModelProto):
            self.path, self.proto = None, model
            if any(map(is_external, all_tensors(model))):
                raise ModelError("the model has weights in other files, which were not loaded; give the path")
            self.runnable = data = model.SerializeToString()
        else:
            self.path = self.runnable = Path(model)
            data = read_bytes(self.path)
            self.proto = parse_proto(data, str(self.path))
        self._content = hashlib.sha256(data)
        self._bytes = len(data)

    @property
    def name(self) -> str:
        """The path as text; empty for a model in memory."""
        return "" if self.path is None else str(self.path)

    @cached_property
    def external_files(self) -> tuple[Path, ...]:
        """The files that hold weights of the model. Raises ModelError."""
        return () if self.path is None else external_files(self.proto, self.path)

    @property
    def size(self) -> int:
        """Bytes of all files of the model. Raises OSError."""
        return self._bytes + sum(path.stat().st_size for path in self.external_files)

    @property
    def is_large(self) -> bool:
        """True if the memory for two sessions of the model may not be there. Raises OSError."""
        return self.size > LARGE_BYTES

    def content(self) -> bytes:
        """Return the bytes of the model as it was read, even if its file has changed or vanished since."""
        with contextlib.suppress(OSError):
            if self.path is not None:
                data = self.path.read_bytes()
                if hashlib.sha256(data).digest() == self._content.digest():
                    return data
        content: bytes = self.proto.SerializeToString()
        return content

    @cached_property
    def terms(self) -> Model:
        """The model as terms, simplified while reading. Raises ModelError."""
        proto = self.proto
        if self.path is not None:
            if self.external_files:
                proto = onnx.ModelProto()
                proto.CopyFrom(self.proto)
            load_external_data(proto, self.path)
        model = read_simplified(proto, label="model" if self.path is None else str(self.path))
        release_all(model.weights.values())
        return model

    def release_weights(self) -> None:
        """Give back the memory that reading weights in other files has filled."""
        release_all(self.terms.weights.values())

    @cached_property
    def digest(self) -> str:
        """Hash of the model's bytes and of the files that hold its external data. Raises OSError."""
        state = self._content.copy()
        if self.path is not None:
            for path in self.external_files:
                _hash_file(state, path)
        return state.hexdigest()


def model_digest(model: bytes | Path) -> str:
    """Return the hash of a model, in bytes or in a file, and of its external data. Raises OSError."""
    state = hashlib.sha256()
    if isinstance(model, bytes):
        state.update(model)
        return state.hexdigest()
    for path in (model, *external_files(onnx.load(model, load_external_data=False), model)):
        _hash_file(state, path)
    return state.hexdigest()


def _hash_file(state: hashlib._Hash, path: Path) -> None:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            state.update(chunk)
