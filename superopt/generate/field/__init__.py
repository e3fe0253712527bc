"""The operators on stacks of tensors over the integers modulo P = 2^31 - 1: one call computes thousands of graphs.

A value is a `uint64` array whose last axes are the tensor's; all axes before are stacked graphs and samples, and
broadcast against each other. What the operators are there, and hence which laws hold:

polynomials         exact: sums, products, moves of data. Two polynomials that differ agree on a random sample with
                    probability at most degree / P (Schwartz-Zippel)
quotients           1/x is the inverse in the field, 0 for 0; 1/n of means likewise. Fractions with small denominators
                    are exact, other real attributes pseudo-random numbers (`residue`)
order               residues are numbers between -P/2 and P/2: Relu, Max, Clip, MaxPool, Abs, Less and so on compare
                    them. Sums of small variables (`small_residues`) do not wrap, so that Max(x + z, y + z) is
                    Max(x, y) + z; products wrap, and laws of their signs are lost
Exp, Log, Sqrt      powers of a primitive root, their exponents, and powers with exponent (P + 1) / 4 (`functions`)
Sigmoid, Tanh, Erf  random increasing functions with f(-x) = -f(x), and 1 - f(x) for Sigmoid: they commute with Max
Floor, Ceil, Round  of a number that counts thirds, so that they are no identities
Clip, HardSigmoid   Clip to 0 ... 1 or 0 ... 6 leaves two values of almost any sample; HardSigmoid has another function
                    of alpha * x + beta in the place of Clip, lest all its graphs look alike
all others          by their definitions from these
"""

from __future__ import annotations

from collections.abc import Mapping

from superopt.generate.field import (
    contrib,
    conv,
    elementwise,
    layout,
    linear,
    logic,
    normalization,
    pool,
    rearrange,
    recurrent,
    reduce,
    scalar,
    select,
)
from superopt.generate.field.arithmetic import Array, Kernel, P, Shape, random_residues, residue, small_residues
from superopt.generate.field.constants import closed_form
from superopt.generate.field.parts import Parts, parts

__all__ = [
    "KERNELS", "P", "Array", "Kernel", "Parts", "Shape", "closed_form", "parts", "random_residues", "residue",
    "small_residues",
]  # fmt: skip

_FAMILIES = (
    contrib,
    conv,
    elementwise,
    layout,
    linear,
    logic,
    normalization,
    pool,
    rearrange,
    recurrent,
    reduce,
    scalar,
    select,
)
KERNELS: Mapping[str, Kernel] = {name: kernel for family in _FAMILIES for name, kernel in family.KERNELS.items()}
