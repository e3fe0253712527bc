"""`superopt.simplify`: the form in which users call a simplifier of ONNX models."""

from __future__ import annotations

from typing import Any

import onnx

from superopt.optimizer.api import Model, optimize
from superopt.optimizer.arguments import with_settings
from superopt.optimizer.options import Options

__all__ = ["simplify"]


def simplify(model: Model, options: Options | None = None, **settings: Any) -> tuple[onnx.ModelProto, bool]:
    """Return a simpler or faster model and True, or the original and False if it could not be compared here.

    `model` is a path or a model in memory, which is not changed. By default nothing is timed: constants are folded,
    no-ops dropped, and proven rules applied that gain on all known devices (the option `quick`). Keyword arguments are
    names of `Options`; `quick=False` searches and measures, as `optimize` does.

    The second value is True if the outputs of the returned model were compared with those of the original in ONNX
    Runtime and agree, or if there was nothing to gain and the model is unchanged. It is False if outputs could not be
    compared, or if every candidate was refused; then the original is returned.

    Raises the errors of `superopt.optimize`.
    """
    result = optimize(model, None, with_settings(options or Options(quick=True), settings))
    if result.changed and result.difference is not None and result.proto is not None:
        return result.proto, True
    original = model if isinstance(model, onnx.ModelProto) else onnx.load(model)
    return original, not (result.changed or result.refused)
