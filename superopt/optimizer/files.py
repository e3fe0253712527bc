"""Reading the original as it is on disk, and keeping it as it is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import onnx

from superopt.onnx_io import save_model

__all__ = ["count_operators", "has_external_data", "keep_original", "write_text"]


def count_operators(model: onnx.ModelProto) -> dict[str, int]:
    """Number of nodes by type, most frequent first; constants are data and do not count."""
    counts = Counter(
        f"{n.domain}::{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type
        for n in model.graph.node
        if n.op_type != "Constant"
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def has_external_data(model: onnx.ModelProto) -> bool:
    """Whether weights lie in files beside the model's."""
    return any(i.data_location == onnx.TensorProto.EXTERNAL for i in model.graph.initializer)


def keep_original(source: Path | onnx.ModelProto, proto: onnx.ModelProto, out: Path) -> None:
    """Writes the original to `out`, byte for byte where it is a file of its own; atomic like every write here."""
    if isinstance(source, onnx.ModelProto):
        save_model(source, out)
    elif out.exists() and out.samefile(source):
        return
    elif has_external_data(proto) and out.resolve().parent != source.resolve().parent:
        save_model(onnx.load(source), out)
    else:
        temporary = _beside(out)
        try:
            shutil.copyfile(source, temporary)
            os.replace(temporary, out)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    temporary = _beside(path)
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A fresh file in the folder of `path`, so that moving it there is one step, with the rights of a new file."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, 0o666 & ~mask)
    return Path(name)
