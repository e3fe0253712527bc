"""Type rules that operators share.

A shape rule computes the output shapes from the input shapes, for known and symbolic sizes alike. It reports the
conditions on symbolic sizes to `need`. Sources are the operators' pages of the ONNX specification and, for
`broadcast_shapes`, its page "Broadcasting in ONNX" (multidirectional).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.dim import Size, Sizes
from superopt.ir.operator import DtypeRule, IllTyped, Need, Operator, ShapeRule, fits, ignore
from superopt.ir.types import FLOAT_DTYPES

__all__ = [
    "DtypeRule", "IllTyped", "Need", "Operator", "ShapeRule", "axis_in", "boolean", "broadcast_shapes",
    "broadcast_all", "distinct_axes", "fits", "floats", "ignore", "need_at_most", "need_equal", "numbers", "same",
    "signed",
]  # fmt: skip


def same(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Return the element type that all inputs share as that of the outputs; without inputs, the default."""
    known = {dtype for dtype in dtypes if dtype is not None}
    if len(known) > 1:
        raise IllTyped(f"element types {', '.join(sorted(known))} in one operator")
    return known.pop() if known else default


def floats(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Apply `same`, and require real numbers."""
    dtype = same(dtypes, attrs, default)
    if dtype not in FLOAT_DTYPES:
        raise IllTyped(f"element type {dtype} where a real one is needed")
    return dtype


def numbers(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Apply `same`, and require numbers (no truth values or strings)."""
    dtype = same(dtypes, attrs, default)
    if dtype in ("bool", "string"):
        raise IllTyped(f"element type {dtype} where numbers are needed")
    return dtype


def signed(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Apply `numbers`, and require a type with negative numbers."""
    dtype = numbers(dtypes, attrs, default)
    if dtype.startswith("uint"):
        raise IllTyped(f"element type {dtype} where numbers of both signs are needed")
    return dtype


def boolean(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Require inputs of one element type; the output is a truth value."""
    same(dtypes, attrs, default)
    return "bool"


def need_equal(need: Need, left: Size, right: Size) -> None:
    """Require left == right. Raises IllTyped if both are known and differ."""
    if left == right:
        return
    if isinstance(left, int) and isinstance(right, int):
        raise IllTyped(f"size {left} is not {right}")
    need("==", left, right)


def need_at_most(need: Need, left: Size, right: Size) -> None:
    """Require left <= right. Raises IllTyped if both are known and left > right."""
    if isinstance(left, int) and isinstance(right, int):
        if left > right:
            raise IllTyped(f"size {left} is over {right}")
    elif left != right:
        need("<=", left, right)


def broadcast_shapes(shapes: Sequence[Sizes], need: Need = ignore) -> Sizes:
    """Return the broadcast of the shapes, aligned at the last axis; sizes are equal, or one of them is 1.

    A symbolic size is assumed not to be broadcast: if it differs from another size, `need` is told that they are equal.
    """
    result: list[Size] = []
    for back in range(1, max(map(len, shapes), default=0) + 1):
        size: Size = 1
        for shape in shapes:
            if back <= len(shape) and shape[-back] != 1:
                if size == 1:
                    size = shape[-back]
                else:
                    need_equal(need, size, shape[-back])
        result.append(size)
    return tuple(reversed(result))


def axis_in(axis: int, rank: int) -> int:
    """Return the axis counted from the front. Raises IllTyped outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise IllTyped(f"axis {axis} outside rank {rank}")
    return axis % rank


def distinct_axes(axes: Sequence[int], rank: int) -> set[int]:
    """Return the axes counted from the front. Raises IllTyped if one is out of range or named twice."""
    places = {axis_in(axis, rank) for axis in axes}
    if len(places) != len(axes):
        raise IllTyped(f"axes {list(axes)} name one twice")
    return places


def broadcast_all(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The shape rule of elementwise operators on broadcast inputs."""
    return (broadcast_shapes([shape for shape in shapes if shape is not None], need),)
