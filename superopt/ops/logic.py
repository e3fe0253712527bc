"""Truth values, comparisons, and conversions between element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Definition, broadcast, difference, negative
from superopt.ops.entry import operator
from superopt.ops.typing import IllTyped, boolean, same

__all__ = ["CASTABLE", "keeps_numbers"]


def _truths(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule of operators from truth values to a truth value."""
    if same(dtypes, attrs, "bool") != "bool":
        raise IllTyped("a truth value is needed")
    return "bool"


def _selected(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule of Where: a truth value, and two inputs of the output's type."""
    _truths(dtypes[:1], attrs, default)
    return same(dtypes[1:], attrs, default)


@operator("Where", 3, 3, dtype=_selected, ieee="selection")
def _where(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """X where the condition holds, else Y. Where-16."""
    return g.choose(">", *(broadcast(x, i) for x in xs))


@operator("Not", 1, 1, dtype=_truths)
def _not(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """1 - x. Not-1."""
    return difference(g, g.constant(Fraction(1)), xs[0].at(*i))


@operator("And", 2, 2, dtype=_truths, commutative=True)
def _and(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """a b. And-7."""
    return g.multiply(*(broadcast(x, i) for x in xs))


@operator("Or", 2, 2, dtype=_truths, commutative=True)
def _or(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """a + b - a b. Or-7."""
    a, b = (broadcast(x, i) for x in xs)
    return g.add(a, b, negative(g, g.multiply(a, b)))


@operator("Xor", 2, 2, dtype=_truths, commutative=True)
def _xor(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """a + b - 2 a b. Xor-7."""
    a, b = (broadcast(x, i) for x in xs)
    return g.add(a, b, g.multiply(g.constant(Fraction(-2)), g.multiply(a, b)))


def _compared(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule of comparisons: two numbers or truth values of one type to a truth value; strings are refused."""
    if "string" in dtypes:
        raise IllTyped("comparison of texts")
    return boolean(dtypes, attrs, default)


def _comparison(relation: str, mirrored: bool = False) -> Definition:
    """Return the definition: 1 if a - b (mirrored: b - a) has the relation to 0, else 0.

    Equal-19, Less-13, LessOrEqual-16, Greater-13, GreaterOrEqual-16.
    """

    def define(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
        a, b = (broadcast(x, i) for x in (reversed(xs) if mirrored else xs))
        return g.choose(relation, difference(g, a, b), g.constant(Fraction(1)), g.constant(Fraction(0)))

    return define


operator("Equal", 2, 2, dtype=_compared, commutative=True)(_comparison("=="))
operator("Less", 2, 2, dtype=_compared)(_comparison(">", mirrored=True))
operator("LessOrEqual", 2, 2, dtype=_compared)(_comparison(">=", mirrored=True))
operator("Greater", 2, 2, dtype=_compared)(_comparison(">"))
operator("GreaterOrEqual", 2, 2, dtype=_compared)(_comparison(">="))
# Element types between which Cast is defined here.
CASTABLE = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float double".split()  # noqa: SIM905
)


def _cast_type(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    for dtype in (*dtypes, attrs["to"]):
        if dtype is not None and dtype not in CASTABLE:
            raise IllTyped(f"Cast between other element types than numbers: {dtype}")
    if attrs["to"] == "uint32" and not FLOAT_DTYPES.isdisjoint(dtypes):
        # ONNX Runtime's vector loop and its loop for the rest make different integers of NaN and of x < -2^31.
        raise IllTyped("Cast from a real type to uint32 depends on the element's place")
    return str(attrs["to"])


# Bits of the magnitudes that a type holds exactly: of an integer, or of a float's significand.
_BITS = {
    "int8": 7, "int16": 15, "int32": 31, "int64": 63,
    "uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64,
    "float16": 11, "float": 24, "double": 53,
}  # fmt: skip


def keeps_numbers(source: str, to: str) -> bool:
    """Return True if every number of the type `source` is a number of the type `to`. Other types keep no numbers."""
    if source in ("bool", to):
        return True
    if source not in _BITS or to not in _BITS or (source in FLOAT_DTYPES and to not in FLOAT_DTYPES):
        return False
    return _BITS[source] <= _BITS[to] and (source.startswith("u") or not to.startswith("u"))


@operator("Cast", 1, 1, "to", dtype=_cast_type)
def _cast(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x in another element type. To bool: 1 if x is not 0. From real to integer: rounded towards zero. A value that
    the new type lacks is rounded (floats) or reduced modulo the type's range (integers). Cast-28.

    A real outside the range of an integer type has no defined result.
    """
    x, to = xs[0], attrs["to"]
    value = x.at(*i)
    if keeps_numbers(x.dtype, to):
        return value
    if to == "bool":
        return g.choose("==", value, g.constant(Fraction(0)), g.constant(Fraction(1)))
    return g.apply(f"from_real_to_{to}" if x.real and to not in FLOAT_DTYPES else f"to_{to}", value)
