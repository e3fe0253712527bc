"""The operator table, one module a family: what each ONNX operator needs of its inputs, and its output types.

Terms hold one canonical form of each operator, whatever the opset of the file: parameters that newer
opsets pass as constant inputs (Slice's starts, Split's sizes, Pad's pads, axes) are attributes, defaults
are filled in, `auto_pad` is resolved, and axes count from the end (-1 is the last), so that one rule
serves every rank. An operator that is not in the table is opaque: carried, never rewritten.
"""

from collections.abc import Mapping

from superopt.ir.operators import (
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
from superopt.ir.operators.spec import OpSpec

__all__ = ["TABLE"]

_FAMILIES = (
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
TABLE: Mapping[str, OpSpec] = {spec.name: spec for family in _FAMILIES for spec in family.SPECS}
