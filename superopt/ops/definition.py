"""Parts that the definitions of operators share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from superopt.ir.dim import Dim, Size, Sizes
from superopt.ir.term import AttrVar
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Algebra, Guard, at_least, below

__all__ = [
    "Definition", "NoSemantics", "Operand", "at_rank", "average", "broadcast", "difference", "divide", "inside",
    "negative", "number", "sum_over",
]  # fmt: skip


class NoSemantics(ValueError):
    """An operator has no definition, or none for these attributes."""

    def __init__(self, op: str) -> None:
        super().__init__(f"no semantics for {op}")


@dataclass(frozen=True)
class Operand:
    """An input of an operator: its shape, its element type, and its scalar at an index."""

    shape: Sizes
    dtype: str
    at: Callable[..., Any]

    @property
    def real(self) -> bool:
        """True if the elements are real numbers, False for integers and truth values (0 and 1)."""
        return self.dtype in FLOAT_DTYPES


# (algebra, inputs, attributes, output shape, output index) -> the scalar at the index; an absent input is None.
Definition: TypeAlias = Callable[[Algebra, list[Any], Mapping[str, Any], Sizes, Sizes], Any]


def number(g: Algebra, value: Any) -> Any:
    """Return an attribute as a scalar. A constant of an equation may also be a size."""
    if isinstance(value, AttrVar):
        return g.real(value.name)
    if isinstance(value, Dim):
        return g.size(value)
    return g.constant(Fraction(value))


def negative(g: Algebra, value: Any) -> Any:
    """Return -value."""
    return g.multiply(g.constant(Fraction(-1)), value)


def difference(g: Algebra, left: Any, right: Any) -> Any:
    """Return left - right."""
    return g.add(left, negative(g, right))


def divide(g: Algebra, left: Any, right: Any) -> Any:
    """Return left / right, over the reals."""
    return g.multiply(left, g.apply("reciprocal", right))


def broadcast(x: Operand, index: Sizes) -> Any:
    """Return x[..., i], aligned at the last axis; an axis of size 1 is read at 0."""
    return x.at(*at_rank(x.shape, index))


def at_rank(shape: Sizes, index: Sizes) -> Sizes:
    """Return the index at which a broadcast operand of this shape is read.

    It has the last entries of `index`, with 0 along axes of size 1.
    """
    own = index[len(index) - len(shape) :]
    return tuple(0 if size == 1 else i for size, i in zip(shape, own, strict=True))


def inside(index: Size, start: Size, end: Size) -> list[Guard]:
    """Return the guards start <= index < end."""
    return [at_least(index, start), below(index, end)]


def sum_over(g: Algebra, sizes: Sizes, body: Callable[..., Any]) -> Any:
    """Return the sum of body(k_1, k_2, ...) over all 0 <= k_d < sizes[d]."""
    if not sizes:
        return body()
    return g.summation(sizes[0], lambda k: sum_over(g, sizes[1:], lambda *rest: body(k, *rest)))


def average(g: Algebra, sizes: Sizes, body: Callable[..., Any]) -> Any:
    """Return `sum_over` divided by the number of its terms."""
    count: Size = 1
    for size in sizes:
        count = count * size
    return g.multiply(sum_over(g, sizes, body), g.apply("reciprocal", g.size(count)))
