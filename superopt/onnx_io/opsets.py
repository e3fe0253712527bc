"""Which operators a model of an operator set may have."""

from __future__ import annotations

import onnx

from superopt.ir.infer import OPERATORS

__all__ = ["has_operator"]


def has_operator(op: str, opset: int) -> bool:
    """Whether a model of this version of ONNX's operator set can be written with `op`. Constants in closed form, and
    functions of the runtime's own, depend on no version."""
    if op not in OPERATORS or OPERATORS[op].domain or not onnx.defs.has(op):
        return True
    try:
        onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError:
        return False
    return True
