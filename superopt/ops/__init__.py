"""What operators are: one family a file, one entry an operator.

An entry (`superopt.ir.operator.Operator`) has the operator's arity, attributes, type rules and its meaning: the
scalar at an index of the output, from the scalars of the inputs, in the notation of the ONNX specification (the
operator's page is the source of each formula). Everything else is a reading of these entries.

Terms hold one canonical form of each operator, whatever the opset of the file: parameters that newer opsets pass as
constant inputs (Slice's starts, Split's sizes, Pad's pads, axes) are attributes, defaults are filled in, `auto_pad` is
resolved, and axes count from the end (-1 is the last), so that one rule serves every rank.
"""

from superopt.ir.operator import OPERATORS, register
from superopt.ops import (
    constants,
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

__all__ = ["OPERATORS"]

_FAMILIES = (
    constants, contrib, conv, elementwise, layout, linear, logic, normalization, pool, rearrange, recurrent, reduce,
    scalar, select,
)  # fmt: skip
for _family in _FAMILIES:
    register(_family.OPERATORS)
