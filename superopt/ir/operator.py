"""The registry of operators: what terms, patterns and the notation need to know of each.

`superopt.ops` defines the operators and registers them; importing any part of `superopt` loads it. An operator that is
not registered is opaque: it is carried through unchanged, never rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from superopt.ir.dim import Size, Sizes
from superopt.ir.types import FLOAT_DTYPES

__all__ = [
    "OPERATORS", "REAL_ATTRS", "DtypeRule", "IllTyped", "Need", "Operator", "ShapeRule", "fits", "ignore", "register",
]  # fmt: skip

# Attributes that are real numbers; they do not bear on shapes. Those with a real default are added by `register`.
REAL_ATTRS = {"delta", "start"}


class IllTyped(ValueError):
    """Sizes or element types that contradict what an operator needs."""


Need: TypeAlias = Callable[[str, Size, Size], None]  # relation ("==" or "<="), left, right
ShapeRule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any], Need], tuple[Sizes, ...]]
# Element type of the outputs, from those of the inputs (None: absent) and the one that a constant would have.
DtypeRule: TypeAlias = Callable[[Sequence["str | None"], Mapping[str, Any], str], str]


def ignore(relation: str, left: Size, right: Size) -> None:
    """Ignore what sizes must satisfy: a `Need` for graphs that are known to be well-typed."""


def _one(attrs: Mapping[str, Any]) -> int:
    return 1


@dataclass(frozen=True)
class Operator:
    """One operator: arity, attributes in canonical form, type rules, and its meaning.

    A primitive operator has `meaning(algebra, inputs, attributes, output shape, output index)`, the scalar there; every
    reading of the operator (proof, number, array, count of operations) is this function over another algebra
    (`superopt.ops.algebra`). A composite operator has `equations` instead, which unfold it into primitive operators
    (`superopt.ops.equation`); it has no meaning of its own.
    """

    name: str
    inputs: tuple[int, int | None]  # least and most; None: any number
    attrs: tuple[str, ...]
    shape_rule: ShapeRule
    dtype_rule: DtypeRule
    meaning: Callable[..., Any] | None = None
    equations: tuple[str, ...] = ()
    commutative: bool = False  # the first two operands may change places
    elementwise: bool = False
    outputs: Callable[[Mapping[str, Any]], int] = _one
    defaults: Mapping[str, Any] = field(default_factory=dict)  # ONNX's, for attributes that the notation leaves out
    domain: str = ""
    # The operation of IEEE 754 that a runtime does for each element, where that alone is done: its result is then the
    # same everywhere. `meaning` cannot tell, as it is written over the reals and fixes no order of roundings.
    ieee: str = ""
    # All values are in the range of every numeric element type, though the definition computes them.
    in_range: bool = False
    # Recurrent operators: the operands that are states. Outputs 1, 2, ... are their last values, in the same order.
    states: tuple[int, ...] = ()


OPERATORS: dict[str, Operator] = {}


def register(operators: Iterable[Operator]) -> None:
    """Add `operators` to the registry. Raises ValueError for a name that is taken."""
    for operator in operators:
        if operator.name in OPERATORS:
            raise ValueError(f"operator {operator.name} is defined twice")
        OPERATORS[operator.name] = operator
        REAL_ATTRS.update(name for name, default in operator.defaults.items() if isinstance(default, float))


# The smallest normal and the largest number of each real type (IEEE 754; bfloat16 has float's exponents).
_RANGES = {
    "float16": (6.103515625e-05, 65504.0),
    "bfloat16": (1.1754943508222875e-38, 3.3895313892515355e38),
    "float": (1.1754943508222875e-38, 3.4028234663852886e38),
    "double": (2.2250738585072014e-308, 1.7976931348623157e308),
}


def fits(value: float, dtype: str) -> bool:
    """Return True if an element type holds the number; a real type may round it, but not to 0 or infinity."""
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
