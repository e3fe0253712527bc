"""The grammar: which operators, attributes, inputs and constants are enumerated. Data only; the rules are found.

Inputs of a family are small tensors of fixed sizes. Sizes that must agree for many operators to compose agree here
(square matrices); which of these equalities a rule really needs is found out later, by generalisation and proof.
"""

from superopt.generate.families.conv import CONV_FAMILIES
from superopt.generate.families.elementwise import ELEMENTWISE
from superopt.generate.families.layout import LAYOUT
from superopt.generate.families.linear import LINEAR
from superopt.generate.families.matrix import MATRIX
from superopt.generate.families.reduce import REDUCE
from superopt.generate.grammar import Family

__all__ = ["FAMILIES"]

FAMILIES: tuple[Family, ...] = (*ELEMENTWISE, *LAYOUT, *MATRIX, *REDUCE, *LINEAR, *CONV_FAMILIES)
