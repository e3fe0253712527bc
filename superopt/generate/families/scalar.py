"""The grammar of quotients, roots, powers and extrema, element by element. Data only."""

from __future__ import annotations

import math

from superopt.generate.grammar import Family, Use, binary, inputs, number, ones, unary, zeros

__all__ = ["SCALAR"]


def _clip(low: float, high: float) -> Use:
    return Use("Clip", {"bound_low": low, "bound_high": high}, (1,))


SCALAR: tuple[Family, ...] = (
    # All functions, quotients and extrema, two operators a side: the general rules that others follow from.
    Family(
        "scalar",
        inputs("x y z", (2, 2)),
        (*unary("Neg Reciprocal Exp Log Sqrt Abs Relu"), *binary("Add Sub Mul Div Max Min")),
        runtime=2,
        variation="elementwise",
        wave=0,
    ),
    # Quotients, roots and exponentials, three operators a side.
    Family(
        "scalar",
        inputs("x y z", (2, 2)),
        (*unary("Neg Reciprocal Sqrt Exp"), *binary("Add Sub Mul Div")),
        runtime=3,
        variation="elementwise",
    ),
    # Sums and extrema, three operators a side.
    Family(
        "scalar",
        inputs("x y z", (2, 2)),
        (*unary("Neg Relu"), *binary("Add Max Min")),
        runtime=3,
        variation="elementwise",
    ),
    # Powers with constant exponents: roots, reciprocals and squares.
    Family(
        "scalar",
        inputs("x", (2, 2)),
        (*unary("Neg Reciprocal Sqrt"), *binary("Div Max Min"), Use("Pow", slots=("*", "ConstantOfShape|Ones"))),
        runtime=1,
        constants=(ones(), zeros(), number(2.0), number(0.5), number(-1.0)),
        variation="elementwise",
    ),
    # Interpolation between two values by 1 - t, as recurrent layers write it.
    Family(
        "scalar",
        inputs("x y t", (2, 2)),
        (*binary("Mul Add", slots=("*!Ones",)), Use("Sub", slots=("Ones|x|y|t", "x|y|t"))),
        runtime=4,
        constants=(ones(),),
        variation="elementwise",
    ),
    # Extrema of one, two and three numbers.
    Family(
        "scalar",
        inputs("x y z", (2, 2)),
        tuple(Use(op, arities=(1, 2, 3), slots=(f"*!{other}",)) for op, other in (("Max", "Min"), ("Min", "Max"))),
        runtime=2,
        variation="elementwise",
    ),
    # Clip as Relu, Max and Min, and nested Clips.
    Family(
        "scalar",
        inputs("x y", (2, 2)),
        (*unary("Relu"), *binary("Max Min"), _clip(0.0, 6.0), _clip(-1.0, 1.0), _clip(0.0, math.inf)),
        runtime=2,
        constants=(zeros(),),
        variation="elementwise",
    ),
    # Sums and products of five operators: distributivity on larger graphs.
    Family(
        "scalar",
        inputs("x y z", (2, 2)),
        (*unary("Neg"), *binary("Add Mul")),
        runtime=5,
        folded=(0,) * 6,
        variation="elementwise",
        wave=2,
    ),
)
