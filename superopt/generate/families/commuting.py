"""The grammar of operators that move, repeat, cut and reduce elements, and of what may come before or after them.

Graphs are compared at real numbers, so that increasing functions, products of signs and truth values are found as well.
Each family has two or three operators, of all kinds that fit together. Data only.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    binary,
    concat,
    gather,
    inputs,
    ones,
    reduce,
    reshape,
    slices,
    splits,
    transpose,
    unary,
    with_values,
    zeros,
)

__all__ = ["COMMUTING"]

_REDUCED = "Sum Max Min Prod Mean L1 L2 SumSquare LogSum LogSumExp"
_REDUCTIONS = "|".join(f"Reduce{name}" for name in _REDUCED.split())
_FUNCTIONS = "Neg Abs Exp Log Sqrt Relu Tanh Sigmoid Reciprocal"
_RARER = (
    "Celu Cos Elu HardSigmoid HardSwish LeakyRelu Mish QuickGelu Round Selu Sign Sin Softplus Softsign ThresholdedRelu"
)
_BINARY = "Add Sub Mul Div Max Min"
_SHAPE, _CUBE = (4, 6), (2, 3, 4)


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("commuting", variables, uses, runtime, **{"variation": "axes", "reals": True, **kinds})


def _movers(*slots: str) -> dict[str, tuple[Use, ...]]:
    """Return the operators that move elements of a matrix, by kind."""
    return {
        "Transpose": transpose((1, 0), slots=slots),
        "Slice": slices(-1, slots=slots)[:1] + slices(-2, slots=slots)[1:],
        "Split": splits(-1, slots=slots)[:1],
        "Gather": (*gather(-1, (2, 0), slots=slots), *gather(-2, 1, slots=slots)),
        "Pad": with_values("Pad", "pads", (0, 1, 0, 2), (1, 0, 0, 0), slots=slots, value=0.0),
        "Tile": with_values("Tile", "repeats", (1, 2), (3, 1), slots=slots),
        "Unsqueeze": axes("Unsqueeze", (-1,), (-3,), slots=slots),
        "Reshape": reshape((24,), (3, 8), slots=slots),
        "Flatten": with_values("Flatten", "axis", 0, slots=slots),
        "Trilu": with_values("Trilu", "k", 0, slots=slots, upper=1),
    }


_ALL = tuple(use for uses in _movers("*").values() for use in uses)

COMMUTING: tuple[Family, ...] = (
    # Reductions and functions of one number.
    *(
        _family(inputs("x", _SHAPE), (*reduce(kinds, (-1,), 0, "*"), *unary(functions)))
        for kinds, functions in (
            ("Sum Mean Prod", "Neg Abs Exp"),
            ("Max Min", _FUNCTIONS),
            ("L1 L2 SumSquare LogSum LogSumExp Sum", "Neg Abs Log Exp Sqrt"),
        )
    ),
    *(
        # Extrema over several axes and functions that keep the order of numbers, or turn it round.
        _family(
            inputs("x", (2, 3, 4, 5)),
            (*reduce("Max Min", (-2, -1), 0, "*"), *reduce("Max Min", (-2, -1), 1, "*"), *uses),
        )
        for uses in (unary("Relu Sigmoid Tanh Neg"), unary("Exp Sqrt Log"))
    ),
    *(
        # Reductions over several axes, one after the other, and axes of size 1.
        _family(
            inputs("x", _CUBE),
            (
                *(use for over in ((-1,), (-2,), (-2, -1)) for use in reduce(kind, over, 0, "*")),
                *reduce(kind, (-1,), 1, "*"),
                *reduce(kind, (-2, -1), 1, "x"),
                *axes("Unsqueeze", (-1,), slots=(f"Reduce{kind}",)),
                *axes("Squeeze", (-1,), slots=(f"Reduce{kind}",)),
            ),
        )
        for kind in _REDUCED.split()
    ),
    # Reductions of one element.
    _family(
        inputs("x", (4, 1)),
        (*reduce(_REDUCED, (-1,), 0, "x"), *reduce(_REDUCED, (-1,), 1, "x"), *axes("Squeeze", (-1,)), *unary("Abs")),
        runtime=1,
    ),
    # Reductions of transposed, reshaped and concatenated values.
    _family(
        inputs("x", _CUBE),
        (
            *reduce("Sum Max Min Prod Mean", (-1,), 0, "*"),
            *reduce("Sum Max Min Mean", (-2,), 0, "*"),
            *reduce("Sum Max Min Mean", (-2, -1), 0, "*"),
            *reduce("Sum Max Mean", (-1,), 1, "*"),
            *reduce("Sum Max Mean", (-2,), 1, "*"),
            *transpose((0, 2, 1), (1, 0, 2), (1, 0)),
            *reshape((2, 12), (6, 4), slots=("x",)),
        ),
    ),
    *(
        # Reductions of two values and of their parts.
        _family(
            inputs("x y", _SHAPE),
            (
                *concat(-1, -2, slots=("x|y", "x|y")),
                *concat(-1, slots=(_REDUCTIONS, _REDUCTIONS)),
                *reduce(kinds, (-1,), 0, "*"),
                *reduce(kinds, (-1,), 1, "*"),
                *binary(_BINARY, slots=(f"x|y|{_REDUCTIONS}", f"x|y|{_REDUCTIONS}")),
            ),
            runtime=3,
        )
        for kinds in ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp")
    ),
    # Reductions of values that are scaled or shifted by a number or a row.
    *(
        _family(
            (*inputs("x", _SHAPE), *inputs("s", ()), *inputs("c", (4, 1))),
            (
                *binary("Add Sub Mul Div", slots=("x|Reduce" + "|Reduce".join(kinds.split()), "s|c")),
                *reduce(kinds, (-1,), 1, "*"),
            ),
        )
        for kinds in ("Sum Mean Max Min", "L1 L2 LogSumExp Prod")
    ),
    # Moved elements and functions of one number, and conversions.
    _family(
        inputs("x", _SHAPE),
        (
            *(use for kind, uses in _movers("*").items() if kind not in ("Pad", "Trilu") for use in uses),
            *unary("Exp Tanh Relu Abs Neg Sqrt Floor Sigmoid Erf Log", slots=("*!Cast",)),
            *with_values("Clip", "bound_low", 0.0, bound_high=6.0, slots=("*!Cast",)),
            *with_values("Cast", "to", "double", "int64", "bool", slots=("x|" + "|".join(_movers("*")),)),
        ),
    ),
    # Moved or joined elements and rarer functions, one at a time.
    *(
        _family(inputs("x", _SHAPE), (*uses, *unary(name, slots=(f"x|{kind}",))))
        for name in _RARER.split()
        for kind, uses in _movers(f"x|{name}").items()
        if kind in ("Transpose", "Reshape", "Unsqueeze", "Split")
    ),
    *(
        _family(
            inputs("x y", _SHAPE),
            (*concat(-1, slots=(f"x|{name}", f"y|{name}")), *unary(name, slots=("x|y|Concat",))),
            runtime=3,
        )
        for name in _RARER.split()
    ),
    # Added zeros and functions of one number.
    _family(
        inputs("x", _SHAPE),
        (*_movers("*")["Pad"], *_movers("*")["Trilu"], *unary("Tanh Relu Abs Neg Sqrt Floor Erf")),
    ),
    *(
        # Moved elements and functions of two numbers.
        _family(
            inputs("x y", _SHAPE),
            (*uses, *binary(_BINARY, slots=(f"x|y|{kind}", f"x|y|{kind}"))),
            runtime=3,
        )
        for kind, uses in _movers("x|y|Add|Sub|Mul|Div|Max|Min").items()
    ),
    *(
        # Moved elements and choices.
        _family(
            (*inputs("c", _SHAPE, dtype="bool"), *inputs("x y", _SHAPE)),
            (*uses, Use("Where", arities=(3,), slots=(f"c|{kind}", f"x|y|{kind}", f"x|y|{kind}"))),
            runtime=4,
        )
        for kind, uses in _movers("c|x|y|Where").items()
        if kind in ("Transpose", "Slice", "Reshape", "Gather", "Unsqueeze")
    ),
    # Moved elements, moved again.
    _family(inputs("x", _SHAPE), (*_ALL, *slices(-1), *concat(-1, -2, slots=("x", "x"))), variation="layout"),
    # Moves that are one another, or nothing at all.
    _family(
        inputs("x", _SHAPE),
        (
            *with_values("Slice", "axes", (-1,), starts=(0,), ends=(6,), steps=(1,)),
            *with_values("Slice", "axes", (-1,), starts=(0,), ends=(6,), steps=(2,)),
            *with_values("Slice", "axes", (-1,), starts=(1,), ends=(3,), steps=(1,)),
            *with_values("Slice", "axes", (-2, -1), starts=(1, 2), ends=(3, 6), steps=(1, 1)),
            *gather(-1, (0, 2, 4), (1, 2), 1, (0,)),
            *with_values("Expand", "shape", _SHAPE),
            *with_values("Tile", "repeats", (1, 1), (1, 2), (2, 1)),
            *with_values("Pad", "pads", (0, 0, 0, 0), (0, 0, 0, 2), value=0.0),
            *with_values("Pad", "pads", (0, 0, 0, 0), value=1.0),
            *with_values("Cast", "to", "float"),
            *with_values("Flatten", "axis", 1),
            Use("Split", {"axis": -1, "split": (6,)}, (1,), index=0),
            Use("Concat", {"axis": -1}, (1, 2)),
            *axes("Squeeze", (-1,)),
        ),
        runtime=2,
        variation="layout",
    ),
    # Repeated elements.
    _family(
        (*inputs("x", (4, 1)), *inputs("r", (1, 6))),
        (
            *with_values("Expand", "shape", (4, 6), (4, 3), (2, 4, 6)),
            *with_values("Tile", "repeats", (1, 6), (4, 1), (1, 3)),
            *unary("Exp Relu"),
            *binary("Add Mul"),
            *reduce("Sum Max Mean", (-1,), 1, "*"),
            *slices(-1),
            *transpose((1, 0)),
        ),
        variation="layout",
    ),
    # Triangles are linear.
    _family(
        (*inputs("x y", (4, 4)), *inputs("s", ())),
        (
            *with_values("Trilu", "upper", 0, 1, k=0),
            *with_values("Trilu", "upper", 1, k=1),
            *transpose((1, 0)),
            *binary("Add Sub", slots=("x|y|Trilu", "x|y|Trilu")),
            *binary("Mul", slots=("x|y|Trilu", "s")),
            *unary("Neg Relu"),
        ),
        runtime=2,
    ),
    _family(
        inputs("x y", (4, 4)),
        (
            *with_values("Trilu", "upper", 0, 1, k=0, slots=("x|y|Add|Sub|Mul",)),
            *binary("Add Sub Mul", slots=("x|y|Trilu", "x|y|Trilu")),
        ),
        runtime=3,
    ),
    # Softmax as exponentials, and rows that are shifted.
    _family(
        (*inputs("x", _SHAPE), *inputs("c", (4, 1)), *inputs("s", ())),
        (
            *with_values("Softmax", "axis", -1, slots=("x|Add|Sub|Neg",)),
            *with_values("LogSoftmax", "axis", -1, slots=("x|Add|Sub|Neg",)),
            *unary("Exp Log", slots=("x|Softmax|LogSoftmax|ReduceSum",)),
            *reduce("Sum LogSumExp Max", (-1,), 1, "x|Exp|Softmax"),
            *binary("Add", slots=("x", "c|s")),
            *binary("Sub Div", slots=("x|Exp", "c|s|ReduceSum|ReduceLogSumExp|ReduceMax")),
        ),
        runtime=3,
        constants=(zeros(), ones()),
    ),
)
