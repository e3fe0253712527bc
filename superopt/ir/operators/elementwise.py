"""Operators that work element by element."""

from __future__ import annotations

from superopt.ir.operators.spec import elementwise, floats, numbers, op, signed

__all__ = ["SPECS"]


SPECS = (
    op("Add", 2, 2, shape=elementwise, dtype=numbers, commutative=True, elementwise=True),
    op("Sub", 2, 2, shape=elementwise, dtype=numbers, elementwise=True),
    op("Mul", 2, 2, shape=elementwise, dtype=numbers, commutative=True, elementwise=True),
    op("Sum", 1, None, shape=elementwise, dtype=floats, commutative=True, elementwise=True),
    op("Neg", 1, 1, shape=elementwise, dtype=signed, elementwise=True),
    op("Identity", 1, 1, shape=elementwise, elementwise=True),
    op("Relu", 1, 1, shape=elementwise, dtype=signed, elementwise=True),
    op("Sigmoid", 1, 1, shape=elementwise, dtype=floats, elementwise=True),
    op("Tanh", 1, 1, shape=elementwise, dtype=floats, elementwise=True),
)
