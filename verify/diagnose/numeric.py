"""The algebra of numbers, at known sizes: for tests of the definitions and for counterexamples."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from superopt.ir.dim import Size, Sizes
from superopt.ops.algebra import Guard, Table, holds
from verify.diagnose.functions import FUNCTIONS

__all__ = ["Numeric"]


def _spoilt(parts: Sequence[float]) -> float | None:
    """Return NaN or infinity if one of the parts is NaN or infinite, else None."""
    if all(isinstance(part, int) or math.isfinite(part) for part in parts):
        return None
    return math.nan if any(map(math.isnan, parts)) else math.inf


class Numeric:
    """Scalars as numbers: NaN for an undefined value, infinity for a value too large for a float.

    Integers stay integers, so that integer arithmetic is exact. `tensors` maps a name to a function from index to
    value, `reals` an attribute to its value.
    """

    def __init__(self, tensors: Mapping[str, Callable[[tuple[int, ...]], float]], reals: Mapping[str, float]) -> None:
        self._tensors, self._reals = tensors, reals

    def constant(self, value: Fraction) -> float:
        return value.numerator if value.denominator == 1 else float(value)

    def real(self, name: str) -> float:
        return self._reals[name]

    def size(self, value: Size) -> float:
        assert isinstance(value, int)
        return value

    def access(self, tensor: str, index: Sizes) -> float:
        return self._tensors[tensor](tuple(i for i in index if isinstance(i, int)))

    def data_index(self, value: float, size: Size) -> Size:
        """Return the index. One out of range, at which nothing is claimed, is some other index, the same one for equal
        sizes."""
        assert isinstance(size, int)
        return int(value) % size if math.isfinite(value) else 0

    def entry(self, table: Table, index: Sizes) -> float:
        return self.constant(table[tuple(i for i in index if isinstance(i, int))])

    def add(self, *parts: float) -> float:
        if all(isinstance(part, int) for part in parts):
            return sum(parts)  # exact, however large
        return _spoilt(parts) or math.fsum(parts)

    def multiply(self, left: float, right: float) -> float:
        return _spoilt((left, right)) or left * right

    def apply(self, function: str, *arguments: float) -> float:
        return _spoilt(arguments) or FUNCTIONS[function](*arguments)

    def choose(self, relation: str, value: float, yes: float, no: float) -> float:
        return _spoilt((value,)) or (yes if holds(relation, value) else no)

    def maximum(self, parts: Sequence[float]) -> float:
        return _spoilt(parts) or max(parts)

    def summation(self, size: Size, body: Callable[[Size], float]) -> float:
        assert isinstance(size, int)
        return self.add(*(body(k) for k in range(size)))

    def product(self, size: Size, body: Callable[[Size], float]) -> float:
        assert isinstance(size, int)
        parts = [body(k) for k in range(size)]
        return _spoilt(parts) or math.prod(parts)

    def supremum(self, sizes: Sizes, conditions: Callable[..., Sequence[Guard]], body: Callable[..., float]) -> float:
        ranges = [range(size) for size in sizes if isinstance(size, int)]
        assert len(ranges) == len(sizes)
        places = [k for k in itertools.product(*ranges) if all(c.decided() for c in conditions(*k))]
        return self.maximum([body(*k) for k in places]) if places else math.inf

    def where(self, conditions: Sequence[Guard], body: Callable[[], float]) -> float:
        return body() if all(c.decided() for c in conditions) else 0.0

    def piecewise(
        self, pieces: Sequence[tuple[Sequence[Guard], Callable[[], float]]], otherwise: float | None
    ) -> float:
        chosen = next((body for conditions, body in pieces if all(c.decided() for c in conditions)), None)
        if chosen is not None:
            return chosen()
        assert otherwise is not None
        return otherwise
