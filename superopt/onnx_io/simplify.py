"""Models read as less than their files say: no-ops gone, known arithmetic done, known branches taken.

What a reading finds (the sizes that a folded shape gives, the types inside a branch) ONNX's shape inference sees only
in a file. So the model is written and read again, until that makes it no smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import onnx

from superopt.ir.term import Term
from superopt.onnx_io.model import Model, ModelError
from superopt.onnx_io.reader import read_model
from superopt.onnx_io.subgraphs import all_nodes
from superopt.onnx_io.writer import write_model

__all__ = ["read_reduced"]

_ROUNDS = 4


def read_reduced(
    source: str | Path | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    reserved: frozenset[str] = frozenset(),
    label: str = "model",
) -> Model:
    """As `read_model` with `reduce`, to the end; `Model.reduced` counts over all readings. Raises ModelError."""
    try:
        return _reduced(source, shapes, reserved, label)
    except (ModelError, onnx.checker.ValidationError):
        return read_model(source, shapes, reserved=reserved, label=label)


def _reduced(
    source: str | Path | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None,
    reserved: frozenset[str],
    label: str,
) -> Model:
    model = read_model(source, shapes, reduce=True, reserved=reserved, label=label)
    total, count = model.reduced, None
    for _ in range(_ROUNDS):
        if not model.reduced:
            break
        stubs: dict[str, Term] = {}
        proto = write_model(model, fold=False, stubs=stubs)
        before, count = count, sum(1 for _ in all_nodes(proto.graph))
        if before is not None and count >= before:
            break
        model = read_model(proto, shapes, reduce=True, reserved=reserved, stubs=stubs, weights=model.weights)
        total += model.reduced
    return replace(model, reduced=total)
