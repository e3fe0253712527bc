"""The grammar of values that are taken apart and stacked again, along an axis of their own or another one. Data only.

Frameworks write this with Split, Slice, Gather, Unsqueeze and Concat. Where all parts are used, a Reshape or Transpose
moves the same elements.
"""

from __future__ import annotations

from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    binary,
    concat,
    gather,
    inputs,
    reduce,
    reshape,
    slices,
    splits,
    transpose,
)

__all__ = ["STACKS"]


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2, variation: str = "") -> Family:
    return Family("stacks", variables, uses, runtime, elements=240, variation=variation)


STACKS: tuple[Family, ...] = (
    # A part as a Slice.
    *(
        _family(
            inputs("a", (4, 6)), *splits(axis, slots=("a",)), *slices(axis, slots=("a",)), runtime=1, variation="axes"
        )
        for axis in (-1, -2)
    ),
    # Both halves of a row, stacked or in the other order.
    _family(
        inputs("a", (5, 6)),
        *splits(-1, slots=("a",)),
        *axes("Unsqueeze", (-2,), (-3,), slots=("Split",)),
        *concat(-1, -2, -3, slots=("Split|Unsqueeze", "Split|Unsqueeze")),
        *reshape((0, 2, -1), (5, 2, 3), slots=("a",)),
        *transpose((1, 0, 2), slots=("Reshape",)),
        runtime=5,
    ),
    # Both columns of two, stacked: a Transpose.
    _family(
        inputs("a", (5, 2)),
        *splits(-1, slots=("a",), thin=True),
        *gather(-1, 0, 1, slots=("a",)),
        *axes("Squeeze", (-1,), slots=("Split",)),
        *axes("Unsqueeze", (-2,), slots=("Squeeze|Gather",)),
        *concat(-1, -2, slots=("Unsqueeze|Squeeze|Gather|Split", "Unsqueeze|Squeeze|Gather|Split")),
        *transpose((1, 0), slots=("a",)),
        *reshape((-1,), slots=("a|Transpose",)),
        runtime=5,
    ),
    # Both rows of two, side by side or one below the other.
    _family(
        inputs("a", (5, 2, 3)),
        *gather(-2, 0, 1, slots=("a",)),
        *splits(-2, slots=("a",), thin=True),
        *axes("Squeeze", (-2,), slots=("Split",)),
        *concat(-1, -2, slots=("Gather|Squeeze|Split", "Gather|Squeeze|Split")),
        *reshape((0, -1), (-1, 3), slots=("a|Transpose",)),
        *transpose((1, 0, 2), slots=("a",)),
        runtime=4,
    ),
    # Flattened values, joined.
    _family(
        inputs("a b", (4, 2, 3)),
        *reshape((0, -1), (-1, 3), slots=("a|b|Concat",)),
        *concat(-1, -2, -3, slots=("a|b|Reshape", "a|b|Reshape")),
        runtime=3,
    ),
    # A shape in numbers, and with sizes that stay or follow from the others.
    *(
        _family(inputs("a", shape), *reshape(*targets, slots=("a",)), runtime=1)
        for shape, targets in (
            ((2, 3, 5), ((6, 5), (-1, 5), (2, 15), (0, -1), (2, -1), (30,), (-1,))),
            ((2, 3, 5, 4), ((2, 3, 20), (0, 0, -1), (2, 3, -1), (2, -1, 4), (0, -1, 4), (2, 15, 4), (2, 60), (0, -1))),
            ((2, 15), ((2, 3, 5), (0, 3, 5), (0, 3, -1), (0, -1, 5), (-1, 3, 5))),
            ((2, 3, 20), ((2, 3, 5, 4), (0, 0, 5, 4), (0, 0, 5, -1), (0, 0, -1, 4), (-1, 3, 5, 4), (0, -1, 5, 4))),
        )
    ),
    # Sums and extrema of stacked values.
    _family(
        inputs("a b", (4, 6)),
        *axes("Unsqueeze", (-3,), slots=("a|b",)),
        *concat(-3, slots=("Unsqueeze", "Unsqueeze")),
        *reduce("Sum Max Min", (-3,), 0, "Concat"),
        *binary("Add Max Min", slots=("a", "b")),
        runtime=4,
    ),
    # Every other row and column: the four parts of a SpaceToDepth.
    _family(
        inputs("a", (1, 3, 4, 6)),
        *(
            Use(
                "Slice",
                {"axes": (-2, -1), "starts": (row, column), "ends": (4, 6), "steps": (2, 2)},
                (1,),
                ("a",),
                made=f"Part{row}{column}",
            )
            for row in (0, 1)
            for column in (0, 1)
        ),
        Use("Concat", {"axis": -3}, (4,), tuple(f"Part{row}{column}" for row in (0, 1) for column in (0, 1))),
        Use("Concat", {"axis": -3}, (4,), tuple(f"Part{row}{column}" for column in (0, 1) for row in (0, 1))),
        Use("SpaceToDepth", {"blocksize": 2}, (1,), ("a",)),
        runtime=5,
    ),
)
