"""Output files: written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import onnx

from superopt.onnx_io import save_model
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.optimizer.source import Source

__all__ = ["check_writable", "copy_original", "count_operators", "write_text"]


def count_operators(model: onnx.ModelProto) -> dict[str, int]:
    """Return the number of nodes of each type, the most frequent first. Constants are data and do not count."""
    counts = Counter(
        f"{n.domain}::{n.op_type}" if n.domain not in ("", "ai.onnx") else n.op_type
        for n in model.graph.node
        if not is_constant_node(n)
    )
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def check_writable(path: Path) -> None:
    """Raise IsADirectoryError or NotADirectoryError if `path` cannot be a file."""
    if path.is_dir():
        raise IsADirectoryError(f"{path}: is a directory, not a file to write to")
    if not path.absolute().parent.is_dir():
        raise NotADirectoryError(f"{path.parent}: no such folder to write to")


def copy_original(source: Source, out: Path) -> None:
    """Write the original to `out`, byte for byte unless it is in memory or has external data elsewhere."""
    if source.path is None:
        save_model(source.proto, out)
    elif out.exists() and out.samefile(source.path):
        return
    elif source.has_external_data and out.resolve().parent != source.path.resolve().parent:
        save_model(onnx.load(source.path), out)
    else:
        temporary = _beside(out)
        try:
            shutil.copyfile(source.path, temporary)
            os.replace(temporary, out)
        finally:
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    temporary = _beside(path)
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """Create a temporary file in the folder of `path`, so that renaming it to `path` is atomic.

    It has the permissions of a new file.
    """
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    mask = os.umask(0)
    os.umask(mask)
    os.chmod(name, 0o666 & ~mask)
    return Path(name)
