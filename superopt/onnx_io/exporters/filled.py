"""Export of constants in closed form as nodes, for shapes with free sizes. Other constants are written as weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from superopt.evaluate import numpy_dtype
from superopt.ir.term import Term
from superopt.onnx_io.exporters.node import Constants
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.size_arithmetic import SizeArithmetic

__all__ = ["export_filled"]

_FILLINGS = {"Ones": 1.0, "Zeros": 0.0}
_FIRST_OPSETS = {"ConstantOfShape": 9, "Range": 11}


def export_filled(
    term: Term, opset: int, output: str, constants: Constants, sizes: SizeArithmetic
) -> list[onnx.NodeProto]:
    """Return the node that computes the constant `term`, whose shape has a free size. Raises ModelError."""
    attrs: dict[str, Any] = dict(term.attrs)
    dtype = term.type.dtype if term.type is not None else "float"
    op = "Range" if term.op == "Range" else "ConstantOfShape"
    if term.op not in ("ConstantOfShape", "Ones", "Range", "Zeros"):
        raise ModelError(f"{term.op} of shape {term.type} is a constant, but a size of it is free")
    if opset < _FIRST_OPSETS[op]:
        raise ModelError(f"opset {opset} has no {op} (new in {_FIRST_OPSETS[op]}) for a constant of a free size")
    if op == "ConstantOfShape":
        value = np.array([_FILLINGS.get(term.op, attrs.get("value"))], numpy_dtype(dtype))
        tensor = numpy_helper.from_array(value, "value")
        return [helper.make_node(op, [sizes.vector(list(attrs["shape"]))], [output], value=tensor)]
    start, delta, count = attrs["start"], attrs["delta"], attrs["n"]
    if dtype != "int64" or start != int(start) or delta != int(delta):
        raise ModelError(f"Range of {dtype} with a free number of elements, {count}")
    limit = sizes.scalar(int(start) + count * int(delta))
    ends = [constants(np.array(int(end), np.int64), "int64") for end in (start, delta)]
    return [helper.make_node(op, [ends[0], limit, ends[1]], [output])]
