"""Operators as sums of linear and multilinear parts, whose values add up from values that are known already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

__all__ = ["Parts", "parts"]

Parts: TypeAlias = tuple[tuple[int, ...], ...]

_UNARY = frozenset({
    "AveragePool", "CumSum", "DepthToSpace", "Expand", "Flatten", "Gather", "GlobalAveragePool", "Identity", "Neg",
    "ReduceMean", "ReduceSum", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose",
    "Trilu", "Unsqueeze",
})  # fmt: skip
_SUMS = frozenset({"Add", "Concat", "Sub", "Sum"})
_PRODUCTS = frozenset({"Einsum", "FusedMatMul", "MatMul", "Mul"})
_BIASED = frozenset({"Conv", "ConvTranspose", "Gemm"})


def parts(op: str, arity: int, attrs: Mapping[str, Any]) -> Parts | None:
    """Return the operands of each part if the operator's value on `arity` operands is a sum of parts, else None.

    Part k is linear in each of the operands that it lists and does not depend on the others. So it is the operator's
    value with zeros for those others.

    a + b has the parts a and b; Conv(x, w, b) has Conv(x, w), linear in x and in w, and b.
    """
    if op in _UNARY or (op == "Pad" and attrs["value"] == 0):
        return ((0,),)
    if op in _SUMS:
        return tuple((k,) for k in range(arity))
    if op in _PRODUCTS:
        return (tuple(range(arity)),)
    if op in _BIASED:
        return ((0, 1), (2,))[: arity - 1]
    return None
