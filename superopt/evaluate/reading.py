"""Array readings: evaluate an operator's definition at all indices of its output at once.

A definition says how the scalar at one index is computed, in terms of an algebra (`superopt.ops.algebra`). `Reading` is
an algebra whose scalars are arrays over the grid of all indices (see `grid`). Its two number systems are `floats` and
`modular`.

Four forms of scalars are evaluated lazily, so that a definition is as accurate and fast as the operation that it spells
out: -x (so that max(-a, -b) is a minimum), a - b (so that its sign is a comparison, even if it overflows), 1 / x (so
that a * (1 / b) is rounded once), and exp(x) (so that log(exp(a) + exp(b)) does not overflow).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from superopt.evaluate.grid import Grid
from superopt.evaluate.indices import Array, DataNumbers, Index
from superopt.ir.operator import OPERATORS
from superopt.ops.algebra import Guard, Piece, Table
from superopt.ops.definition import Operand

__all__ = ["Exponential", "Inverse", "Negative", "Reading", "Subtraction"]


@dataclass(frozen=True, eq=False)
class Negative:
    """-x, unevaluated."""

    x: Any


@dataclass(frozen=True, eq=False)
class Subtraction:
    """left - right, unevaluated."""

    left: Any
    right: Any


@dataclass(frozen=True, eq=False)
class Inverse:
    """1 / x, unevaluated."""

    x: Any


@dataclass(frozen=True, eq=False)
class Exponential:
    """exp(x), unevaluated."""

    x: Any


class Reading(Grid, ABC):
    """The scalars of one output as arrays, in one number system."""

    minus_one: int  # the constant -1, as `constant` returns it

    def scalar(self, op: str, operands: Sequence[Operand | None], attrs: Mapping[str, Any]) -> Any:
        """Return the output of a primitive operator as a scalar."""
        meaning, index = OPERATORS[op].meaning, self.index
        assert meaning is not None
        return meaning(self, list(operands), {"index": 0, **attrs}, self.shape, index)

    def meaning(self, op: str, operands: Sequence[Operand | None], attrs: Mapping[str, Any]) -> Array:
        """Return the output of a primitive operator; its axes are of size 1 where all elements are equal."""
        return self.array(self.scalar(op, operands, attrs))

    def array(self, scalar: Any) -> Array:
        """Return a scalar as an array over the axes of the grid, without those of bound variables."""
        found, axes = self.value(scalar), self.rank + self.stacked
        return np.asarray(found) if np.ndim(found) <= axes else found.reshape(found.shape[np.ndim(found) - axes :])

    # The operations of a number system. Operands are arrays, or Python numbers for constants.

    @abstractmethod
    def constant(self, value: Fraction) -> Any: ...
    @abstractmethod
    def whole(self, value: Array) -> Array:
        """Return whole numbers as scalars."""

    @abstractmethod
    def places(self, value: Array, size: int) -> Array:
        """Return integers as places from 0 to below a size. A negative integer counts from the end."""

    @abstractmethod
    def plus(self, left: Any, right: Any) -> Any: ...
    @abstractmethod
    def minus(self, left: Any, right: Any) -> Any: ...
    @abstractmethod
    def times(self, left: Any, right: Any) -> Any: ...
    @abstractmethod
    def over(self, left: Any, right: Any) -> Any: ...
    @abstractmethod
    def opposite(self, x: Any) -> Any:
        """Return -x."""

    @abstractmethod
    def total(self, x: Array) -> Any:
        """Return the sum along the first axis; the caller passes sums of such sums through `settled`."""

    @abstractmethod
    def settled(self, x: Any) -> Any:
        """Return a sum of `total`s in its final form (modulo P: reduced)."""

    @abstractmethod
    def widened(self, x: Any) -> Any:
        """Return `x` in an element type in which sums do not overflow."""

    @abstractmethod
    def larger(self, left: Any, right: Any) -> Any: ...
    @abstractmethod
    def smaller(self, left: Any, right: Any) -> Any: ...
    @abstractmethod
    def greatest(self, x: Array, least: bool) -> Array:
        """Return the largest (`least`: the smallest) along the first axis."""

    @abstractmethod
    def size_of(self, x: Any) -> Any:
        """Return |x|."""

    @abstractmethod
    def related(self, relation: str, left: Any, right: Any) -> Any:
        """Return left > right, left >= right or left == right."""

    @abstractmethod
    def extreme(self, dtype: np.dtype[Any], largest: bool) -> Any:
        """Return the largest or the smallest number of an element type."""

    @abstractmethod
    def function(self, name: str, *arguments: Any) -> Any: ...

    # The algebra.

    def value(self, scalar: Any) -> Any:
        """Return a scalar, evaluated, as an array or a Python number."""
        if isinstance(scalar, Negative):
            return self.opposite(scalar.x)
        if isinstance(scalar, Subtraction):
            return self.minus(scalar.left, scalar.right)
        if isinstance(scalar, Inverse):
            return self.over(1, self.value(scalar.x))
        if isinstance(scalar, Exponential):
            return self.function("exp", scalar.x)
        return scalar

    def real(self, name: str) -> Any:
        raise TypeError(f"attribute {name} has no value")

    def size(self, value: Any) -> Any:
        if isinstance(value, Index):
            numbers = value.numbers()
            return self.whole(numbers.reshape((1,) * (self.rank + self.stacked - numbers.ndim) + numbers.shape))
        return self.constant(Fraction(value))

    def access(self, tensor: str, index: Any) -> Any:
        raise TypeError(f"{tensor} has no value")

    def data_index(self, value: Any, size: Any) -> Any:
        numbers = self.places(np.asarray(self.value(value)), size)
        return Index(0, {DataNumbers(numbers, size): 1}) if numbers.size else 0

    def entry(self, table: Table, index: Any) -> Any:
        values = [self.constant(value) for value in table.values]
        kind = np.uint64 if any(isinstance(value, int) and value >= 1 << 63 for value in values) else None
        return self.operand(np.array(values, kind).reshape(table.shape), table.shape, "float").at(*index)

    def add(self, *parts: Any) -> Any:
        if len(parts) == 2 and isinstance(parts[1], Negative) and not isinstance(parts[0], Exponential):
            return Subtraction(self.value(parts[0]), parts[1].x)
        total = self.value(parts[0])
        for part in parts[1:]:
            total = self.plus(total, self.value(part))
        return total

    def multiply(self, left: Any, right: Any) -> Any:
        if isinstance(left, int):
            if left == 1:
                return right
            if left == self.minus_one and not isinstance(right, (int, float)):
                return right.x if isinstance(right, Negative) else Negative(self.value(right))
        if isinstance(right, Inverse):
            return self.over(self.value(left), self.value(right.x))
        if isinstance(left, Inverse):
            return self.over(self.value(right), self.value(left.x))
        return self.times(self.value(left), self.value(right))

    def apply(self, function: str, *arguments: Any) -> Any:
        if function == "reciprocal":
            return Inverse(self.value(arguments[0]))
        return self.function(function, *map(self.value, arguments))

    def choose(self, relation: str, value: Any, yes: Any, no: Any) -> Any:
        if isinstance(value, Subtraction):
            holds = self.related(relation, value.left, value.right)
        elif isinstance(value, Negative):
            holds = self.related(relation, 0, value.x)
        else:
            holds = self.related(relation, self.value(value), 0)
        yes, no = self.value(yes), self.value(no)
        if not isinstance(yes, np.ndarray) and not isinstance(no, np.ndarray):
            yes, no = self._number(yes), self._number(no)
        return np.where(holds, yes, no)

    def _number(self, value: Any) -> Any:
        """Return a constant as a NumPy number."""
        return self.whole(np.asarray(value)) if isinstance(value, int) else value

    def maximum(self, parts: Sequence[Any]) -> Any:
        first, *rest = parts
        if len(rest) == 1 and isinstance(rest[0], Negative) and rest[0].x is first:
            return self.size_of(first)
        if all(isinstance(part, Negative) for part in parts):
            least = first.x
            for part in rest:
                least = self.smaller(least, part.x)
            return Negative(least)
        largest = self.value(first)
        for part in rest:
            largest = self.larger(largest, self.value(part))
        return largest

    def summation(self, size: Any, body: Callable[[Any], Any]) -> Any:
        if isinstance(size, Index):  # the number of summands depends on the output's index
            most = size.bounds()[1]
            return self.summation(most, lambda k: self.where([Guard("<=", size - k - 1)], lambda: body(k)))
        total: Any = None
        for number, part in enumerate(self._terms(size, body)):
            total = self._joined(total, part, number > 1) if number else part
        if total is None:
            return 0
        return total if isinstance(total, Exponential) else self.settled(total)

    def _joined(self, total: Any, part: Any, owned: bool) -> Any:
        """Return the sum of two partial sums. With `owned`, the first one may be overwritten."""
        if isinstance(total, Exponential) and isinstance(part, Exponential):
            return self.add(total, part)
        total, part = self.value(total), self.value(part)
        if owned and np.shape(total) == np.shape(part) and np.ndim(part) and total.dtype == part.dtype:
            return np.add(total, part, out=total)
        return total + part

    def _terms(self, size: int, body: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield partial sums, one for each block of the bound variable."""
        for block, length in self.blocks(size):
            part = body(block)
            axes = self.rank + self.stacked + self.bound
            # Without the axis of the bound variable, or with size 1 there, all summands are equal: a product, below.
            if isinstance(part, Exponential):
                along = isinstance(block, Index) and np.ndim(part.x) == axes and len(part.x) == length
                if along or length == 1:  # the last of several blocks may have one value
                    yield Exponential(self.function("log_sum", part.x)) if along else part
                    continue
            part = self.widened(self.value(part))
            if isinstance(block, Index) and np.ndim(part) == axes:
                length = 1 if len(part) == length else length
                part = self.total(part)
            yield part if length == 1 else part * length

    def product(self, size: int, body: Callable[[Any], Any]) -> Any:
        result: Any = 1
        for k in range(size):
            result = self.multiply(result, self.value(body(k)))
        return result

    def supremum(self, sizes: Any, conditions: Callable[..., Sequence[Guard]], body: Callable[..., Any]) -> Any:
        single, axes = bool(conditions(*(0 for _ in sizes))), self.rank + self.stacked + self.bound
        best: Any = None
        negative = owned = False

        def over(rest: Sequence[int], place: tuple[Any, ...]) -> None:
            nonlocal best, negative, owned
            if rest:
                for block, _ in self.blocks(rest[0], single):
                    over(rest[1:], (*place, block))
                return
            region = self.region(conditions(*place))
            if region is None:
                return
            found, mask = self.within(region, lambda: body(*place))
            negative = isinstance(found, Negative)
            found = np.asarray(found.x if negative else self.value(found))
            lowest = self.extreme(found.dtype, negative)
            if mask is not None:
                found = np.where(mask, found, lowest)
            while found.ndim > axes:
                found = self.greatest(found, negative)
            choose = self.smaller if negative else self.larger
            if region.whole:
                best, owned = (found, False) if best is None else (choose(best, found), True)
                return
            shape = self.extended(found.shape, region)
            if best is None:
                best = np.full(shape, lowest, found.dtype)
            elif not owned or best.shape != np.broadcast_shapes(best.shape, shape):
                best = np.broadcast_to(best, np.broadcast_shapes(best.shape, shape)).copy()
            owned = True
            part = best[self.slices(best.ndim, region)]
            np.copyto(part, choose(part, found))

        over(tuple(sizes), ())
        return Negative(best) if negative else best

    def where(self, conditions: Sequence[Guard], body: Callable[[], Any]) -> Any:
        return self.piecewise([(conditions, body)], 0)

    def piecewise(self, pieces: Sequence[Piece], otherwise: Any | None) -> Any:
        parts = []
        for conditions, body in pieces:
            region = self.region(conditions)
            if region is None:
                continue
            if region.whole:
                return body()
            found, mask = self.within(region, body)
            parts.append((region, self._number(self.value(found)), mask))
        rest = self._number(0 if otherwise is None else self.value(otherwise))
        shapes = [
            self.extended(np.broadcast_shapes(np.shape(x), () if mask is None else mask.shape), region)
            for region, x, mask in parts
        ]
        shape = np.broadcast_shapes(np.shape(rest), *shapes)
        kinds = {np.asarray(x).dtype for _, x, _ in parts}
        result = np.empty(shape, np.result_type(*kinds) if kinds else np.asarray(rest).dtype)
        if otherwise is not None:
            result[...] = rest
        for region, x, mask in parts:
            np.copyto(result[self.slices(len(shape), region)], x, where=True if mask is None else mask)
        return result
