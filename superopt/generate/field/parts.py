"""Which operators are sums of linear and multilinear parts, so that their values add up from values known already."""

from __future__ import annotations

from typing import TypeAlias

from superopt.generate.field.arithmetic import Attrs

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


def parts(op: str, arity: int, attrs: Attrs) -> Parts | None:
    """The operands of each part, where the operator's value on `arity` operands is a sum of parts: part k is linear in
    each of the operands that it lists and does not depend on the others, so it is the operator's value with zeros for
    those others. None where that is not so.

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
