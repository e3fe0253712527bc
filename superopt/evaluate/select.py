"""Operators that pick elements by position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _gather(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [np.asarray(np.take(inputs[0], np.array(attrs["indices"], np.int64), axis=attrs["axis"]))]


def _trilu(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [np.triu(inputs[0], attrs["k"]) if attrs["upper"] else np.tril(inputs[0], attrs["k"])]


def _resize(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    result = inputs[0]
    for back, scale in enumerate(reversed(attrs["scales"]), 1):
        result = np.repeat(result, scale, axis=-back)
    return [result]


def _cumsum(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    order = slice(None, None, -1 if attrs["reverse"] else 1)
    x = np.moveaxis(inputs[0], attrs["axis"], 0)[order]
    total = np.cumsum(x, 0, dtype=x.dtype)
    if attrs["exclusive"]:
        total = np.concatenate([np.zeros_like(x[:1]), total[:-1]])
    return [np.moveaxis(total[order], 0, attrs["axis"])]


COMPUTE: Mapping[str, Compute] = {
    "Gather": _gather,
    "Trilu": _trilu,
    "Resize": _resize,
    "CumSum": _cumsum,
}
