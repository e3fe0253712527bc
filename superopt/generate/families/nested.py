"""The grammar of operators of one kind in a row that are one operator, or none: cuts, borders, parts. Data only.

Exporters write a crop or a border axis by axis, and frameworks cut what they have just joined.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from superopt.generate.grammar import Family, Use, Variable, axes, concat, inputs, with_values

__all__ = ["NESTED"]

_MATRIX, _IMAGE = (7, 24), (2, 3, 5, 7)


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2) -> Family:
    return Family("nested", variables, uses, runtime, elements=6000)


def _cut(axis: int, start: int, end: int, step: int, *slots: str) -> Use:
    return Use("Slice", {"axes": (axis,), "starts": (start,), "ends": (end,), "steps": (step,)}, (1,), slots)


def _parts(axis: int, sizes: tuple[int, ...], *slots: str) -> tuple[Use, ...]:
    return tuple(
        Use("Split", {"axis": axis, "split": sizes}, (1,), slots, index=k, parts=len(sizes)) for k in range(len(sizes))
    )


def _over_axes(op: str, rank: int, attrs: Mapping[str, int]) -> tuple[Use, ...]:
    """Return an operator over one axis after another, and over both."""
    single = tuple(Use(op, {"axes": (-k,), **attrs}, (1,), ("a|One",), made="One") for k in range(1, rank + 1))
    pairs = itertools.combinations(range(-rank, 0), 2)
    return single + tuple(Use(op, {"axes": pair, **attrs}, (1,), ("a",)) for pair in pairs)


def _pads(*pads: tuple[int, ...], slots: tuple[str, ...]) -> tuple[Use, ...]:
    return with_values("Pad", "pads", *pads, slots=slots, value=0.0)


NESTED: tuple[Family, ...] = (
    # A cut of a cut: from 2 to 20, and of that from 3 to 14.
    *(
        _family(
            inputs("x", shape),
            _cut(axis, 2, 20, 1, "x"),
            *(_cut(axis, 3, 14, step, "Slice") for step in (1, 2)),
            *(_cut(axis, 5, 16, step, "x") for step in (1, 2)),
        )
        for shape, axis in ((_MATRIX, -1), (_MATRIX[::-1], -2), ((7, 24, 2), -2), ((7, 24, 2, 2), -3))
    ),
    # Cuts of two axes.
    *(
        _family(
            inputs("x", shape),
            _cut(-1, 2, 5, 1, "x|Slice"),
            _cut(-2, 3, 6, 1, "x|Slice"),
            Use("Slice", {"axes": (-2, -1), "starts": (3, 2), "ends": (6, 5), "steps": (1, 1)}, (1,), ("x",)),
        )
        for shape in ((8, 7), (2, 8, 7), (2, 4, 8, 7))
    ),
    # Two cuts that touch are one.
    *(
        _family(
            inputs("x", shape),
            _cut(axis, 2, 9, 1, "x"),
            _cut(axis, 9, 14, 1, "x"),
            _cut(axis, 2, 14, 1, "x"),
            *concat(axis, slots=("Slice", "Slice")),
            runtime=3,
        )
        for shape, axis in ((_MATRIX, -1), (_MATRIX[::-1], -2), ((7, 24, 2, 2), -3))
    ),
    # A cut of what was joined, within one part.
    *(
        _family(
            (*inputs("x", shape), *inputs("y", shape)),
            *concat(axis, slots=("x", "y")),
            _cut(axis, 3, 20, 1, "Concat|x"),
            _cut(axis, 27, 44, 1, "Concat"),
            _cut(axis, 3, 20, 1, "y"),
        )
        for shape, axis in ((_MATRIX, -1), (_MATRIX[::-1], -2), ((7, 24, 2, 2), -3))
    ),
    # Parts of parts, and parts that are joined again.
    *(
        _family(
            inputs("x", shape),
            *_parts(axis, (5, 7, 11), "x"),
            *_parts(axis, (12, 11), "x"),
            *_parts(axis, (5, 18), "x"),
            *_parts(axis, (5, 7), "Split"),
            *_parts(axis, (7, 11), "Split"),
            *concat(axis, slots=("Split", "Split")),
            runtime=3,
        )
        for shape, axis in (((2, 23), -1), ((23, 2), -2), ((2, 23, 3, 4), -3))
    ),
    # One more axis and another, one axis less and another.
    *(_family(inputs("a", shape), *_over_axes("Unsqueeze", len(shape) + 2, {})) for shape in ((5,), (2, 5), (2, 3, 5))),
    *(
        _family(inputs("a", shape), *_over_axes("Squeeze", len(shape), {}))
        for shape in (
            (2, 1, 1),
            (1, 2, 1),
            (1, 1, 2),
            (2, 3, 1, 1),
            (1, 2, 1, 3),
            (1, 1, 2, 3),
            (1, 2, 3, 1),
            (2, 1, 3, 1),
        )
    ),
    # One more axis, or one less, of what is joined.
    *(
        _family(
            inputs("x y", (4, 6)),
            *concat(axis, axis - 1, slots=("x|Unsqueeze", "y|Unsqueeze")),
            *axes("Unsqueeze", (-1,), (-2,), (-3,), slots=("x|y|Concat",)),
            runtime=3,
        )
        for axis in (-1, -2)
    ),
    *(
        _family(
            inputs("x y", shape),
            *concat(-1, -2, -3, slots=("x|Squeeze", "y|Squeeze")),
            *axes("Squeeze", (shape.index(1) - len(shape),), slots=("x|y|Concat",)),
            runtime=3,
        )
        for shape in ((1, 4, 6), (4, 1, 6), (4, 6, 1))
    ),
    # Reductions over one axis and another.
    *(
        _family(inputs("a", shape), *_over_axes(f"Reduce{kind}", len(shape), {"keepdims": keepdims}))
        for kind in ("Sum", "Max", "Min", "Mean")
        for keepdims in (0, 1)
        for shape in ((2, 3, 5), (2, 3, 4, 5))
    ),
    # A border that is cut off again.
    *(
        _family(inputs("x", shape), *_pads(outer, tuple(-n for n in outer), slots=("x|Pad",)))
        for shape, outer in (((5, 7), (1, 2, 3, 4)), (_IMAGE, (0, 0, 1, 2, 0, 0, 3, 4)))
    ),
    # A border around a border.
    *(
        _family(inputs("x", shape), *_pads(inner, outer, slots=("x|Pad",)), *_pads(both, slots=("x",)))
        for shape, inner, outer, both in (
            ((5, 7), (1, 2, 3, 4), (6, 8, 11, 13), (7, 10, 14, 17)),
            (_IMAGE, (0, 0, 1, 2, 0, 0, 3, 4), (0, 0, 6, 8, 0, 0, 11, 13), (0, 0, 7, 10, 0, 0, 14, 17)),
        )
    ),
)
