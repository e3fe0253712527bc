"""The grammar of cuts before or after operators that compute, so that only what is wanted of a result is computed.

A cut along an axis passes functions of each element, functions of two elements, of whole rows, and operators that
regroup other axes. Data only.
"""

from __future__ import annotations

from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    concat,
    cut,
    gather,
    inputs,
    reduce,
    slices,
    transpose,
    unary,
)

__all__ = ["SELECTIONS"]

_SHAPE, _CUBE = (4, 6), (4, 6, 2)
_FUNCTIONS = (
    "Celu Cos Elu Gelu HardSigmoid HardSwish LeakyRelu Mish QuickGelu Reciprocal Round Selu Sign Sin Softplus Softsign "
    "ThresholdedRelu"
)
_BINARY = "Add Sub Mul Div Max Min Pow Equal Greater GreaterOrEqual Less LessOrEqual"
_CUT = "x|Slice|Gather"


def _family(variables: tuple[Variable, ...], over: tuple[int, ...], *uses: Use, runtime: int = 2) -> Family:
    """Return the family of a cut, or one row, of the results of these operators, or of their operands."""
    slots = ("|".join(dict.fromkeys(("c", "x", "y", *(use.op for use in uses)))),)
    cuts = (*slices(*over, slots=slots)[::2], *gather(-2, 1, slots=slots))
    return Family("selections", variables, (*cuts, *uses), runtime, elements=384, variation="axes", reals=True)


SELECTIONS: tuple[Family, ...] = (
    # Functions of one element.
    *(_family(inputs("x", _SHAPE), (-1, -2), *unary(name, slots=(_CUT,))) for name in _FUNCTIONS.split()),
    _family(inputs("x", _SHAPE, dtype="bool"), (-1, -2), *unary("Not", slots=(_CUT,))),
    # Functions of an element and a number, or an element of a row that is not cut.
    *(
        _family((*inputs("x", size), *inputs("r", row)), over, Use(name, slots=slots))
        for name in _BINARY.split()
        for slots in ((_CUT, "r"), ("r", _CUT))
        for size, row, over in ((_SHAPE, (), (-1, -2)), (_CUBE, (2,), (-2, -3)))
    ),
    # Choices by a mask: of numbers, or of a value and a number.
    _family(
        (*inputs("c", _SHAPE, dtype="bool"), *inputs("s t", ())),
        (-1, -2),
        Use("Where", {}, (3,), ("c|Slice|Gather", "s", "t")),
    ),
    *(
        _family(
            (*inputs("c", _SHAPE, dtype="bool"), *inputs("x", _SHAPE), *inputs("s", ())),
            (-1, -2),
            Use("Where", {}, (3,), ("c|Slice|Gather", *slots)),
            runtime=3,
        )
        for slots in ((_CUT, "s"), ("s", _CUT))
    ),
    # Rows that are normalized or reduced.
    *(
        _family(inputs("x", _CUBE), (-2, -3), use)
        for use in (
            *(Use(name, {"axis": -1}, (1,), (_CUT,)) for name in ("Softmax", "LogSoftmax")),
            *(use for keepdims in (0, 1) for use in reduce("Sum Max Min Mean", (-1,), keepdims, _CUT)),
        )
    ),
    # Products of each matrix of a stack, and joined rows.
    _family((*inputs("x", _CUBE), *inputs("u", (2, 3))), (-2, -3), Use("MatMul", {}, (2,), (_CUT, "u"))),
    _family(inputs("x y", _CUBE), (-2, -3), *concat(-1, slots=(_CUT, "y|Slice|Gather")), runtime=3),
    # One row by its number in a list.
    _family(inputs("x", _CUBE), (), *gather(-2, (0,), (1,)), *(cut(-2, k, k + 1) for k in (0, 1)), runtime=1),
    # Axes that change places.
    *(
        _family(inputs("x", shape), tuple(range(-len(perm), 0)), *transpose(perm, slots=(_CUT,)))
        for perm, shape in (
            ((0, 2, 1), _CUBE),
            ((1, 0, 2), _CUBE),
            ((0, 2, 1, 3), (4, 6, 2, 3)),
            ((0, 2, 3, 1), (4, 6, 2, 3)),
            ((0, 3, 1, 2), (4, 6, 2, 3)),
            ((0, 1, 3, 2), (4, 6, 2, 3)),
        )
    ),
)
