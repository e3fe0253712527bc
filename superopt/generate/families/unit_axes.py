"""The grammar of axes of size 1, which move no element wherever they are. Data only.

Squeeze, Unsqueeze, Reshape and Transpose write such an axis at different places. A rule that needs it at one place, as
that of a scale for each channel, meets it at another.
"""

from __future__ import annotations

from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    binary,
    inputs,
    reduce,
    reshape,
    transpose,
    with_values,
)

__all__ = ["UNIT_AXES"]

_IMAGE = (2, 3, 4, 5)
_REDUCED = "ReduceSum|ReduceMean|ReduceMax|ReduceMin"


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2, variation: str = "") -> Family:
    return Family("unit_axes", variables, uses, runtime, elements=240, variation=variation)


UNIT_AXES: tuple[Family, ...] = (
    # One more axis, at any place beside others; one of several axes less.
    *(
        _family(
            inputs("c", shape),
            *axes("Unsqueeze", *((-k,) for k in range(1, len(shape) + 2)), slots=("c",)),
            *axes("Squeeze", *((k - len(shape),) for k, size in enumerate(shape) if size == 1), slots=("c",)),
            runtime=1,
        )
        for shape in ((6, 1), (1, 6), (6, 1, 1), (1, 6, 1), (1, 1, 6), (6, 4, 1, 1), (1, 6, 1, 1))
    ),
    # An axis that changes places: Transpose or Reshape, or without one axis and with another.
    *(
        _family(
            inputs("c", shape),
            *transpose(*perms, slots=("c",)),
            *reshape(*(tuple(shape[k] for k in perm) for perm in perms), slots=("c",)),
            *axes("Squeeze", *((k - len(shape),) for k, size in enumerate(shape) if size == 1), slots=("c",)),
            *axes("Unsqueeze", *((-k,) for k in range(1, len(shape) + 1)), slots=("Squeeze",)),
        )
        for shape, perms in (
            ((6, 1), ((1, 0),)),
            ((1, 6), ((1, 0),)),
            ((6, 4, 1), ((2, 0, 1), (0, 2, 1))),
            ((6, 1, 4), ((0, 2, 1), (1, 0, 2))),
            ((1, 6, 4), ((1, 0, 2), (1, 2, 0))),
        )
    ),
    # Leading axes of a smaller operand, which broadcasting adds anyway.
    _family(
        (*inputs("a", _IMAGE), *inputs("c", (3, 1, 1)), *inputs("r", (5,)), *inputs("s", ())),
        *axes("Unsqueeze", (-4,), slots=("c",)),
        *axes("Unsqueeze", (-2,), (-3, -2), (-4, -3, -2), slots=("r",)),
        *axes("Unsqueeze", (-1,), (-2, -1), slots=("s",)),
        *binary("Add Sub Mul Div", slots=("a", "c|r|s|Unsqueeze")),
        *binary("Sub Div", slots=("c|r|s|Unsqueeze", "a")),
        variation="elementwise",
    ),
    # A stack of one matrix.
    _family(
        (*inputs("x", (4, 6)), *inputs("y", (6, 5))),
        *axes("Unsqueeze", (-3,), slots=("x|y|MatMul",)),
        *binary("MatMul", slots=("x|Unsqueeze", "y|Unsqueeze")),
        runtime=3,
        variation="matrix",
    ),
    # Repeated along an axis of size 1: before or after a Transpose, and a reduction over the other axis.
    *(
        _family(
            inputs("a", shape),
            *with_values("Expand", "shape", *wholes, slots=("a|Transpose",)),
            *transpose((1, 0), slots=("a|Expand",)),
        )
        for shape, wholes in (((1, 6), ((4, 6), (6, 4))), ((4, 1), ((4, 6), (6, 4))))
    ),
    *(
        _family(
            inputs("a", shape),
            *with_values("Expand", "shape", (4, 6), slots=("a",)),
            *with_values("Expand", "shape", reduced, slots=(_REDUCED,)),
            *reduce("Sum Mean Max Min", (axis,), keepdims, "a|Expand"),
        )
        for shape, axis, keepdims, reduced in (
            ((1, 6), -1, 0, (4,)),
            ((1, 6), -1, 1, (4, 1)),
            ((4, 1), -2, 0, (6,)),
            ((4, 1), -2, 1, (1, 6)),
        )
    ),
)
