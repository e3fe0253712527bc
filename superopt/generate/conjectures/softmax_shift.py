"""Conjectures that shift the exponentials of Softmax, so that they are not subnormal numbers.

Softmax divides out any common factor of its exponentials, so for every c

    MatMul(Softmax(a), v) = MatMul(e, v) / sum(e),    e = exp(a - (max(a) - c)).

Softmax itself is computed with c = 0. In float32, an entry that is 87 less than the largest entry then has a subnormal
exponential. Arithmetic with subnormal numbers takes many times as long on most CPUs (Dooley & Kale, "Quantifying the
Interference Caused by Subnormal Floating-Point Values", 2006), and masks of -100 make thousands of them. Let c be half
of the largest exponent (88 in float32). Then e is a normal number if the entry is at most 87 + c less than the largest.
The other half of the range is left for sums of e and for products with v. The division comes last: before the product
it would make the same subnormal numbers again.
"""

from __future__ import annotations

from collections.abc import Iterator

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.grammar import Family
from superopt.ir.notation import parse_rule
from superopt.ir.rule import Signature
from superopt.rulebook.variadic import Schema

__all__ = ["shift_conjectures"]


def shift_conjectures(family: Family) -> Iterator[tuple[Schema, GroundEquation]]:
    """Yield the conjecture for each shift of a family, and its instance at the shapes of its variables a and v."""
    for shift in family.shifts:
        exponentials = (
            f"Exp(Sub(a, Sub(ReduceMax[axes=[-1], keepdims=1](a), Constant[shape=[], value_floats=[{float(shift)}]])))"
        )
        rule = parse_rule(
            "MatMul(Softmax[axis=-1](a), v) = "
            f"Div(MatMul({exponentials}, v), ReduceSum[axes=[-1], keepdims=1]({exponentials}))"
        )
        shapes = tuple(sorted((v.name, v.shape) for v in family.variables))
        signature = Signature(tuple((name, (None,) * len(shape)) for name, shape in shapes), ())
        yield Schema(rule, signature, signature, {}), GroundEquation(*rule.instantiate(Signature(shapes, ())), family)
