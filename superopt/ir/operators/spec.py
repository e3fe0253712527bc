"""What a row of the operator table says, and the helpers that shape rules share.

A shape rule gives the output shapes from the input shapes, for known and symbolic sizes alike; what it needs of
symbolic sizes it reports to `need`. Sources are the operators' pages of the ONNX specification and, for `broadcast`,
its page "Broadcasting in ONNX" (multidirectional).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from superopt.ir.dim import Size, Sizes
from superopt.ir.term import Attr
from superopt.ir.types import FLOAT_DTYPES

__all__ = [
    "REAL_ATTRS", "DtypeRule", "IllTyped", "Need", "OpSpec", "ShapeRule", "axis_in", "boolean", "broadcast",
    "distinct_axes", "elementwise", "fits", "floats", "ignore", "need_at_most", "need_equal", "numbers",
    "op", "same", "signed",
]  # fmt: skip

# Attributes that are real numbers; they do not bear on shapes.
REAL_ATTRS = frozenset({
    "activation_alpha", "activation_beta", "alpha", "beta", "bound_high", "bound_low", "delta", "epsilon", "gamma",
    "scale", "start", "value",
})  # fmt: skip


class IllTyped(ValueError):
    """The sizes or element types contradict what the operator needs."""


Need: TypeAlias = Callable[[str, Size, Size], None]  # relation ("==" or "<="), left, right
ShapeRule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any], Need], tuple[Sizes, ...]]
# Element type of the outputs, from those of the inputs (None: absent) and the one that a constant would have.
DtypeRule: TypeAlias = Callable[[Sequence["str | None"], Mapping[str, Any], str], str]


def ignore(relation: str, left: Size, right: Size) -> None:
    """A `Need` for graphs that are known to be well-typed."""


def same(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """All inputs have one element type, and the outputs too; without inputs it is the default."""
    known = {dtype for dtype in dtypes if dtype is not None}
    if len(known) > 1:
        raise IllTyped(f"element types {', '.join(sorted(known))} in one operator")
    return known.pop() if known else default


def floats(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """`same`, for operators that take real numbers only."""
    dtype = same(dtypes, attrs, default)
    if dtype not in FLOAT_DTYPES:
        raise IllTyped(f"element type {dtype} where a real one is needed")
    return dtype


def numbers(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """`same`, for operators that take no truth values."""
    dtype = same(dtypes, attrs, default)
    if dtype in ("bool", "string"):
        raise IllTyped(f"element type {dtype} where numbers are needed")
    return dtype


def signed(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """`numbers`, for operators that take numbers of both signs."""
    dtype = numbers(dtypes, attrs, default)
    if dtype.startswith("uint"):
        raise IllTyped(f"element type {dtype} where numbers of both signs are needed")
    return dtype


def boolean(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Inputs of one element type, a truth value as output."""
    same(dtypes, attrs, default)
    return "bool"


def _one(attrs: Mapping[str, Any]) -> int:
    return 1


@dataclass(frozen=True)
class OpSpec:
    """One operator: how many inputs, which attributes in canonical form, its shape and element type rules."""

    name: str
    inputs: tuple[int, int | None]  # least and most; None: any number
    attrs: tuple[str, ...]
    shape_rule: ShapeRule
    dtype_rule: DtypeRule = same
    commutative: bool = False  # the first two operands may change places
    elementwise: bool = False
    outputs: Callable[[Mapping[str, Any]], int] = _one
    defaults: Mapping[str, Attr] = field(default_factory=dict)  # ONNX's, for attributes that the notation leaves out
    domain: str = ""


def op(
    name: str,
    least: int,
    most: int | None,
    attrs: str = "",
    *,
    shape: ShapeRule,
    dtype: DtypeRule = same,
    commutative: bool = False,
    elementwise: bool = False,
    outputs: Callable[[Mapping[str, Any]], int] = _one,
    domain: str = "",
) -> OpSpec:
    """A row; `attrs` lists names, `name=value` where ONNX has a default that does not depend on the rank."""
    names: list[str] = []
    defaults: dict[str, Attr] = {}
    for word in attrs.split():
        key, equals, value = word.partition("=")
        names.append(key)
        if equals:
            defaults[key] = _literal(value)
    return OpSpec(name, (least, most), tuple(names), shape, dtype, commutative, elementwise, outputs, defaults, domain)


def _literal(text: str) -> Attr:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def need_equal(need: Need, left: Size, right: Size) -> None:
    """left == right; raises IllTyped where both are known and differ."""
    if left == right:
        return
    if isinstance(left, int) and isinstance(right, int):
        raise IllTyped(f"size {left} is not {right}")
    need("==", left, right)


def need_at_most(need: Need, left: Size, right: Size) -> None:
    """left <= right; raises IllTyped where both are known and it does not hold."""
    if isinstance(left, int) and isinstance(right, int):
        if left > right:
            raise IllTyped(f"size {left} is over {right}")
    elif left != right:
        need("<=", left, right)


def broadcast(shapes: Sequence[Sizes], need: Need = ignore) -> Sizes:
    """Multidirectional broadcasting: aligned at the last axis; sizes are equal, or one of them is 1.

    A symbolic size is taken not to be broadcast: where two differ, `need` is told that they are equal.
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
    """The axis counted from the front. Raises IllTyped outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise IllTyped(f"axis {axis} outside rank {rank}")
    return axis % rank


def distinct_axes(axes: Sequence[int], rank: int) -> set[int]:
    """The axes counted from the front. Raises IllTyped where one is outside, or named twice."""
    places = {axis_in(axis, rank) for axis in axes}
    if len(places) != len(axes):
        raise IllTyped(f"axes {list(axes)} name one twice")
    return places


def elementwise(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The shape rule of operators that work element by element on broadcast inputs."""
    return (broadcast([shape for shape in shapes if shape is not None], need),)


# The smallest normal and the largest number of each real type (IEEE 754; bfloat16 has float's exponents).
_RANGES = {
    "float16": (6.103515625e-05, 65504.0),
    "bfloat16": (1.1754943508222875e-38, 3.3895313892515355e38),
    "float": (1.1754943508222875e-38, 3.4028234663852886e38),
    "double": (2.2250738585072014e-308, 1.7976931348623157e308),
}


def fits(value: float, dtype: str) -> bool:
    """Whether an element type has the number (a real type may round it, but not to 0 or to infinity)."""
    if not math.isfinite(value):
        return False
    if dtype in FLOAT_DTYPES:
        return value == 0 or _RANGES[dtype][0] <= abs(value) <= _RANGES[dtype][1]
    if not float(value).is_integer():
        return False
    if dtype == "bool":
        return value in (0, 1)
    kind, bits = dtype.rstrip("0123456789"), dtype.lstrip("uint")
    if kind not in ("int", "uint"):
        return False
    least, most = (0, 2 ** int(bits)) if kind == "uint" else (-(2 ** (int(bits) - 1)), 2 ** (int(bits) - 1))
    return bool(least <= value < most)
