"""The registry of operators: arity, attributes, type rules and definition of each.

`superopt.ops` defines the operators and registers them; importing any part of `superopt` loads them. An operator that
is not registered is opaque: it is copied to the output unchanged, never rewritten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from superopt.ir.dim import Size, Sizes
from superopt.ir.types import FLOAT_DTYPES

__all__ = [
    "OPERATORS", "REAL_ATTRS", "DtypeRule", "IllTyped", "Integers", "Need", "Operator", "ShapeRule", "fits", "ignore",
    "register",
]  # fmt: skip

# Attributes that are real numbers, which never affect shapes. `register` adds those with a real default.
REAL_ATTRS = {"delta", "start"}


class IllTyped(ValueError):
    """Sizes or element types contradict the type rules of an operator."""


Need: TypeAlias = Callable[[str, Size, Size], None]  # relation ("==" or "<="), left, right
ShapeRule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any], Need], tuple[Sizes, ...]]
# (element types of the inputs, attributes, element type of a constant) -> element type of the outputs. None: no input.
DtypeRule: TypeAlias = Callable[[Sequence["str | None"], Mapping[str, Any], str], str]


def ignore(relation: str, left: Size, right: Size) -> None:
    """Ignore a condition on sizes: the `Need` for graphs that are known to be well-typed."""


def _one(attrs: Mapping[str, Any]) -> int:
    return 1


# How ONNX Runtime computes with integers (measured by `scripts/probe_integers.py`):
#   modular   the definition, modulo the range of the element type
#   partial   the same, but some values stop the run with an error, even in elements that nothing reads; so a rule may
#             have such a term on its right side only if its left side has it, too
#   floating  a sum or product in double precision, in an unknown order, then saturated; the kernel proves nothing
#             about it, because it is the definition only while all numbers on the way have at most 53 bits
Integers: TypeAlias = Literal["modular", "partial", "floating"]


@dataclass(frozen=True)
class Operator:
    """One operator: arity, attributes in canonical form, type rules, and its meaning.

    A primitive operator has `meaning(algebra, inputs, attributes, output shape, output index)`, which returns the
    scalar at that index. Proofs, numbers, arrays and counts of operations all come from this one function, over
    different algebras (`superopt.ops.algebra`). A composite operator has no meaning of its own. It has `equations`,
    which unfold it into primitive operators (`superopt.ops.equation`).
    """

    name: str
    inputs: tuple[int, int | None]  # smallest and largest number; None: no limit
    attrs: tuple[str, ...]
    shape_rule: ShapeRule
    dtype_rule: DtypeRule
    meaning: Callable[..., Any] | None = None
    equations: tuple[str, ...] = ()
    commutative: bool = False  # the first two operands may be exchanged
    elementwise: bool = False
    outputs: Callable[[Mapping[str, Any]], int] = _one
    defaults: Mapping[str, Any] = field(default_factory=dict)  # ONNX's, for attributes that the notation leaves out
    domain: str = ""
    # The IEEE 754 operation that a runtime performs for each element, if it performs nothing else: then the result is
    # the same everywhere. `meaning` does not show that: it is written over the reals and fixes no order of roundings.
    # Also the name of another function that a runtime computes the same everywhere, such as a quantization.
    ieee: str = ""
    # True if all values are in the range of every numeric element type although the definition computes them.
    in_range: bool = False
    integers: Integers = "modular"
    # Positions of the operands whose elements are nothing but indices of elements of other operands. One out of range
    # stops the run with an error.
    index_operands: tuple[int, ...] = ()
    # For recurrent operators: positions of the operands that are states. Outputs 1, 2, ... are their last values.
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
    """Return True if an element type can hold the number. A real type may round it, but not to 0 or infinity."""
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
