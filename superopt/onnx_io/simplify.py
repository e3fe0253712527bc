"""Simplification while reading: no-ops removed, known arithmetic folded, known branches inlined.

Shapes and indices that a model computes from its sizes are read as polynomials of these (`reshape_targets`,
`coordinates`).

A folded shape or an inlined branch lets ONNX's shape inference find more sizes and types, but it runs on files only. So
the model is written and read again until its number of nodes no longer falls.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from superopt.ir.term import Term
from superopt.onnx_io.forced_sizes import forced_sizes
from superopt.onnx_io.model import EqualSizes, Model, ModelError
from superopt.onnx_io.reader import read_model
from superopt.onnx_io.subgraphs import all_nodes
from superopt.onnx_io.writer import write_model

__all__ = ["read_simplified"]

_MAX_READINGS = 4


def read_simplified(
    source: str | Path | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    *,
    reserved: frozenset[str] = frozenset(),
    label: str = "model",
) -> Model:
    """Return `read_model` with `simplify`, repeated until nothing changes.

    `Model.simplified_nodes` counts over all readings. Raises ModelError.
    """
    try:
        return _simplified(source, shapes, reserved, label)
    except (ModelError, onnx.checker.ValidationError):
        return read_model(source, shapes, reserved=reserved, label=label)


def _simplified(
    source: str | Path | onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]] | None,
    reserved: frozenset[str],
    label: str,
) -> Model:
    first = model = _read(source, shapes, reserved=reserved, label=label)
    total, count = model.simplified_nodes, None
    for _ in range(_MAX_READINGS):
        if not model.simplified_nodes:
            break
        stubs: dict[str, Term] = {}
        proto = write_model(model, fold=False, stubs=stubs)
        before, count = count, sum(1 for _ in all_nodes(proto.graph))
        if before is not None and count >= before:
            break
        model = _read(proto, shapes, reserved=reserved, stubs=stubs, weights=model.weights)
        total += model.simplified_nodes
    if model is not first:
        model = replace(model, first=first, assumed_sizes=_both(first.assumed_sizes, model.assumed_sizes))
    return replace(model, simplified_nodes=total)


def _read(source: str | Path | onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]] | None, **kinds: Any) -> Model:
    """Read a model, a second time if sizes turn out to be equal."""
    model = read_model(source, shapes, simplify=True, **kinds)
    equal = forced_sizes(model)
    if not equal:
        return model
    again = read_model(source, shapes, simplify=True, equal=equal, **kinds)
    return replace(again, assumed_sizes=_both(model.assumed_sizes, again.assumed_sizes))


def _both(one: Mapping[str, Set[EqualSizes]], other: Mapping[str, Set[EqualSizes]]) -> dict[str, Set[EqualSizes]]:
    return {name: one.get(name, set()) | other.get(name, set()) for name in (*one, *other)}
