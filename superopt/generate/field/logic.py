"""Truth values, which are 0 and 1 here, and comparisons of signed numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from superopt.generate.field.arithmetic import Array, Attrs, Kernel, Shape, aligned, rank

__all__ = ["KERNELS"]


def _where(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
    condition, yes, no = aligned(xs, shapes, out)
    return np.where(condition != 0, yes, no)


def _truth(function: Callable[..., Any], before: Callable[[Array], Array]) -> Kernel:
    """function(before(x), ...) as 0 or 1."""

    def kernel(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Attrs, out: Shape) -> Array:
        found: Array = np.asarray(function(*(before(x) for x in aligned(xs, shapes, out)))).astype(np.uint64)
        return found

    return kernel


KERNELS: Mapping[str, Kernel] = {
    "Where": _where,
    **{
        name: _truth(function, lambda x: x)
        for name, function in (
            ("Not", np.logical_not),
            ("And", np.logical_and),
            ("Or", np.logical_or),
            ("Xor", np.logical_xor),
            ("Equal", np.equal),
        )
    },
    **{
        name: _truth(function, rank)
        for name, function in (
            ("Less", np.less),
            ("LessOrEqual", np.less_equal),
            ("Greater", np.greater),
            ("GreaterOrEqual", np.greater_equal),
        )
    },
}
