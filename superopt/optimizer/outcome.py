"""The outcome of a run, and a folder that keeps the best one so far in case that the run is stopped."""

from __future__ import annotations

import os
import pickle
import shutil
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from superopt.files import replacing
from superopt.onnx_io import save_model
from superopt.onnx_io.load import parse_proto
from superopt.onnx_io.save import INLINE_LIMIT, NOTHING_INLINE, embedded, inline_bytes, spilled
from superopt.onnx_io.serialize import serialized
from superopt.optimizer.files import copy_original, unread_weights
from superopt.optimizer.result import Result
from superopt.optimizer.source import Source

__all__ = ["Checkpoint", "Outcome"]

_CURRENT, _MODEL, _WEIGHTS, _REST = "current", "model.onnx", "weights", "rest"


@dataclass(frozen=True)
class Outcome:
    """The result of a run, with its model in memory, and the derivation as JSON."""

    result: Result
    trace: str

    def write(self, source: Source, out: Path | None, trace: Path | None, *, external_data: bool = False) -> None:
        """Write the model (the original if nothing has changed) to `out` and the derivation to `trace`.

        With `external_data`, weights go to a file beside `out` whatever their size. Raises OSError.
        """
        limit = NOTHING_INLINE if external_data else INLINE_LIMIT
        with nullcontext() if trace is None else replacing(trace) as file:  # in place after the result
            if file is not None:
                file.write(self.trace.encode())
            if out is not None:
                weights = None
                if self.result.changed and self.result.proto is not None:
                    weights = save_model(self.result.proto, out, limit)
                elif external_data and not source.external_files:
                    weights = save_model(source.proto, out, limit)
                else:
                    copy_original(source, out)
                self.result.out_weights = None if weights is None else str(weights)
                self.result.notices += unread_weights(source, out)


class Checkpoint:
    """At most one outcome, in a folder: the model in ONNX and the rest pickled. Every change is atomic."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0

    def replace(self, outcome: Outcome | None) -> None:
        """Keep `outcome`, or nothing, instead of the one before. Raises OSError."""
        if outcome is None:
            (self._folder / _CURRENT).unlink(missing_ok=True)
            return
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        if outcome.result.changed and outcome.result.proto is not None:
            proto = outcome.result.proto
            if inline_bytes(proto) > INLINE_LIMIT:
                proto = spilled(proto, folder / _WEIGHTS)
            with (folder / _MODEL).open("wb") as file:
                file.writelines(serialized(proto))
        (folder / _REST).write_bytes(pickle.dumps(replace(outcome, result=replace(outcome.result, proto=None))))
        new = folder / _CURRENT
        new.write_text(folder.name, encoding="utf-8")
        os.replace(new, self._folder / _CURRENT)
        shutil.rmtree(self._folder / str(self._count - 1), ignore_errors=True)

    def load(self) -> Outcome | None:
        """Return the outcome that is kept, or None. Raises OSError."""
        try:
            folder = self._folder / (self._folder / _CURRENT).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        outcome: Outcome = pickle.loads((folder / _REST).read_bytes())
        if outcome.result.changed:
            path = folder / _MODEL
            proto = parse_proto(path.read_bytes(), str(path))
            outcome = replace(outcome, result=replace(outcome.result, proto=embedded(proto) or proto))
        return outcome
