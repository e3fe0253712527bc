"""The dimensions of a model's inputs, and the sizes given for them.

A dimension with a name has one size in all inputs. A given size may be a range, `1..64`; a dimension that is neither
fixed in the model nor given is *open*, and the caller assumes a size for it. One whose name is a sum or product of
others', as the `past + sequence` of a decoder's mask, is not open: it has the size that its name says. Names may also
leave that out, as `total` does, and then the caller may try sums (`with_sums`).
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from superopt.onnx_io.tensor_types import names_a_size
from superopt.runtime import GivenShape, InputError, InputSpec, SizeRange, Unfeedable, check_given, shape_problem

__all__ = ["InputSizes", "sizes_between"]

# A middle size is measured where the ends of a range differ by at least this factor.
_MIN_FACTOR_WITH_MIDDLE = 16
_COMPUTED = re.compile(r"\s*[\w.]+(?:\s*[+*]\s*[\w.]+)+\s*")  # the name of a size that is computed from others


class InputSizes:
    """The dimensions of a model's inputs, with the sizes `given` for some of them.

    Dimensions are identified by their name, or by input and axis if they have none. `ranges` holds the given ranges,
    `open` the dimensions without a size, and `sum_of` says which is the sum of which others (see `with_sums`). Raises
    InputError if `given` names an unknown input, contradicts the model or itself; Unfeedable if the shape of an input
    of unknown rank is not given.
    """

    def __init__(self, specs: Sequence[InputSpec], given: Mapping[str, GivenShape]) -> None:
        self.specs = list(specs)
        self.ranges: dict[str, SizeRange] = {}
        self._fixed: dict[str, int] = {}
        by_name = {spec.name: spec for spec in specs}
        for name, shape in given.items():
            if name not in by_name:
                raise InputError(f"there is no input {name!r} (inputs: {', '.join(by_name) or 'none'})")
            check_given(name, shape)
            problem = shape_problem(by_name[name], shape)
            if problem is not None:
                raise InputError(problem)
            for axis, size in enumerate(shape):
                self._give(_dimension(by_name[name], axis), size, name)
        self._axes: dict[str, list[int | str]] = {}  # a size, or the dimension that has it
        self.open: dict[str, bool] = {}  # dimension -> True for a first axis (a batch)
        for spec in specs:
            if spec.shape is None and spec.name not in given:
                raise Unfeedable(f"input {spec.name} has no known rank; give its shape with --shape")
            declared = (None,) * len(given[spec.name]) if spec.shape is None else spec.shape
            self._axes[spec.name] = [
                _dimension(spec, axis) if size is None else size for axis, size in enumerate(declared)
            ]
            for number, dimension in enumerate(self._axes[spec.name]):
                if isinstance(dimension, str) and dimension not in self._fixed and dimension not in self.ranges:
                    self.open.setdefault(dimension, number == 0)
        given_or_open = self._fixed.keys() | self.ranges.keys() | self.open.keys()
        simple = {dimension for dimension in given_or_open if not _COMPUTED.fullmatch(dimension)}
        self.sum_of = ""
        self._computed = {d: found for d in self.open if (found := _as_products(d, simple)) is not None}
        for dimension in self._computed:
            del self.open[dimension]

    def _give(self, dimension: str, size: int | tuple[int, int], name: str) -> None:
        if isinstance(size, tuple) and size[0] == size[1]:
            size = size[0]
        new = SizeRange(*size) if isinstance(size, tuple) else size
        old = self.ranges.get(dimension, self._fixed.get(dimension))
        if old not in (None, new):
            raise InputError(f"the size {dimension} is given as {old}, and as {new} by the shape of input {name}")
        if isinstance(new, SizeRange):
            self.ranges[dimension] = new
        else:
            self._fixed[dimension] = new

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all inputs, with `sizes` for open dimensions and ranges."""
        values = {**self._fixed, **sizes}
        for dimension, products in self._computed.items():
            values[dimension] = sum(math.prod(values[f] if isinstance(f, str) else f for f in one) for one in products)
        return {
            name: tuple(values[axis] if isinstance(axis, str) else axis for axis in axes)
            for name, axes in self._axes.items()
        }

    def with_sums(self) -> Iterator[InputSizes]:
        """Yield the same with one open dimension as a sum: of two others, or of another and 1.

        None is a batch, and the sum is no size of an input that has a summand: sides of an image are not.
        """
        inner = [dimension for dimension, is_first in self.open.items() if not is_first]
        for total in inner:
            beside = {axis for axes in self._axes.values() if total in axes for axis in axes}
            others = [dimension for dimension in inner if dimension not in beside]
            sums: list[tuple[int | str, ...]] = [*combinations(others, 2), *((other, 1) for other in others)]
            for summands in sums:
                found = copy.copy(self)
                found.open = {dimension: is_first for dimension, is_first in self.open.items() if dimension != total}
                found._computed = {**self._computed, total: [[summand] for summand in summands]}
                found.sum_of = f"{total} = {' + '.join(map(str, summands))}"
                yield found

    @property
    def lower_ends(self) -> dict[str, int]:
        """The lower ends of the given ranges."""
        return {dimension: range.low for dimension, range in self.ranges.items()}

    def assumed(self, size: int) -> dict[str, int]:
        """Return sizes of the open dimensions: `size`, and 1 for a first axis (a batch)."""
        return {dimension: 1 if is_first else size for dimension, is_first in self.open.items()}


def sizes_between(low: Mapping[str, int], high: Mapping[str, int]) -> dict[str, int] | None:
    """Return sizes in the middle between `low` and `high`, or None if all of these are near to one another.

    The middle is the geometric one, rounded to a power of 2 times the low size.
    """
    if all(high[d] < _MIN_FACTOR_WITH_MIDDLE * size for d, size in low.items()):
        return None
    return {d: size << round(math.log2(high[d] / size) / 2) for d, size in low.items()}


def _as_products(text: str, known: Collection[str]) -> list[list[int | str]] | None:
    """Return the factors of each summand of a computed size; None if the text is none of `known` dimensions."""
    if not _COMPUTED.fullmatch(text):
        return None
    products = [[factor.strip() for factor in summand.split("*")] for summand in text.split("+")]
    if not all(factor in known or factor.isdecimal() for one in products for factor in one):
        return None
    return [[factor if factor in known else int(factor) for factor in one] for one in products]


def _dimension(spec: InputSpec, axis: int) -> str:
    symbol = spec.symbols[axis] if axis < len(spec.symbols) else None
    return symbol if symbol is not None and names_a_size(symbol) else f"{spec.name}[{axis}]"
