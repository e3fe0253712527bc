"""Damaged files given to the reader, and to the whole command: each is read or ends in one clear line."""

from __future__ import annotations

import contextlib
import io
import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

import onnx

from superopt.cli import main
from superopt.onnx_io import ModelError, read_simplified, write_model

from .damage import damaged
from .growth import random_model
from .workers import GIB

__all__ = ["base_models", "command", "read_damaged"]

_MOST_MEMORY = 2 * GIB


def base_models(folders: Sequence[Path] = (), count: int = 60, largest: int = 1 << 17) -> list[bytes]:
    """Return small models to damage: those below `folders`, and random ones."""
    files = [path for folder in folders for path in sorted(folder.rglob("*.onnx"))]
    found = [path.read_bytes() for path in files if path.stat().st_size <= largest]
    return found + [random_model(seed).model.SerializeToString() for seed in range(count)]


def read_damaged(data: bytes) -> str | None:
    """Read and write a damaged file. Return what is wrong, or None. Errors other than the project's are raised."""
    before = _peak()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.onnx")
        path.write_bytes(data)
        try:
            write_model(read_simplified(path))
        except ModelError as error:
            if "\n" in str(error):
                return f"a message of several lines: {error!r}"
        except onnx.checker.ValidationError:
            pass  # the optimizer refuses such a candidate
    return f"{_peak() / GIB:.1f} GiB of memory" if _peak() - before > _MOST_MEMORY else None


def command(data: bytes) -> str | None:
    """Run `superopt optimize` on a damaged file. Return what is wrong, or None."""
    before, said = _peak(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "m.onnx"), Path(folder, "o.onnx")
        path.write_bytes(data)
        arguments = ["optimize", str(path), "-o", str(out), "--ep", "cpu", "--budget", "0.1"]
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main([*arguments, "--cost", "analytic", "--device", "cpu", "--target-absent"])
                code = 0
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        text = said.getvalue().strip()
        if code not in (0, 2) or "Traceback" in text:
            return f"exit {code}: {text[-200:]}"
        if out.exists() is not (code == 0):
            return f"exit {code}, and the output {'exists' if out.exists() else 'is missing'}: {text[-200:]}"
        if code and len([line for line in text.splitlines() if line.strip()]) != 1:
            return f"several lines: {text[:300]!r}"
    return f"{_peak() / GIB:.1f} GiB of memory" if _peak() - before > _MOST_MEMORY else None


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def damage_and_read(models: Sequence[bytes], seed: int, whole_every: int) -> str | None:
    """Damage one of `models` and give it to the reader; every `whole_every`-th to the whole command."""
    data = damaged(models, seed)
    return command(data) if whole_every and seed % whole_every == 0 else read_damaged(data)
