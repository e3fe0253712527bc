"""Constants in closed form."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, P, Shape, residue

__all__ = ["CONSTANTS", "closed_form"]


def _filled(value: float, out: Shape) -> Array:
    return np.full(out, residue(value), dtype=np.uint64)


def _range(attrs: Attrs, out: Shape) -> Array:
    """start + delta * k."""
    steps = np.arange(out[0], dtype=np.uint64) * np.uint64(residue(attrs["delta"]))
    result: Array = (steps + np.uint64(residue(attrs["start"]))) % np.uint64(P)
    return result


def _dirac(attrs: Attrs, out: Shape) -> Array:
    """The kernel of a convolution that changes nothing."""
    value = np.zeros(out, dtype=np.uint64)
    for o in range(out[0]):
        value[(o, o % out[1], *((k - 1) // 2 for k in out[2:]))] = 1
    return value


CONSTANTS: Mapping[str, Callable[[Attrs, Shape], Array]] = {
    "Zeros": lambda attrs, out: _filled(0, out),
    "Ones": lambda attrs, out: _filled(1, out),
    "Eye": lambda attrs, out: np.eye(out[0], dtype=np.uint64),
    "ConstantOfShape": lambda attrs, out: _filled(attrs["value"], out),
    "Range": _range,
    "Dirac": _dirac,
    "Constant": lambda attrs, out: np.array([residue(v) for v in attrs["value_floats"]], dtype=np.uint64).reshape(out),
}


def closed_form(op: str, attrs: Attrs, out: Shape) -> Array:
    """The value of a closed-form constant."""
    return CONSTANTS[op](attrs, out)
