"""The grammar of sums, products and Relu, element by element. Data only."""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, binary, inputs, ones, unary, zeros

__all__ = ["ELEMENTWISE"]

ELEMENTWISE: tuple[Family, ...] = (
    # Sums, products and Relu with 0 and 1: neutral elements.
    Family(
        "elementwise",
        inputs("x y", (2, 2)),
        (*unary("Identity Neg Relu"), *binary("Add Sub Mul")),
        runtime=1,
        constants=(zeros(), ones(), zeros(2, 2)),
        variation="elementwise",
    ),
    # Sums, differences, products, Relu and Sum of several operands: commutativity, associativity, signs.
    Family(
        "elementwise",
        inputs("x y z", (2, 2)),
        (
            *unary("Neg Relu"),
            Use("Add"),
            Use("Sub", slots=("*!Sub",)),
            Use("Mul"),
            Use("Sum", arities=(1, 2, 3), slots=("x|y|z",)),
        ),
        runtime=2,
        variation="elementwise",
    ),
    # Sums and products of three operators: distributivity.
    Family("elementwise", inputs("x y z", (2, 2)), binary("Add Mul"), runtime=3, variation="elementwise"),
)
