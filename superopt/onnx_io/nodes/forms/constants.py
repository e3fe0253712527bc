"""Constants in closed form: operators whose inputs are constant, so that the term has none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from superopt.evaluate import numpy_dtype
from superopt.ir.term import Attr, Term
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.forms.registry import importer
from superopt.onnx_io.nodes.node_export import Constants
from superopt.onnx_io.nodes.view import NodeView, Unreadable
from superopt.onnx_io.size_arithmetic import SizeArithmetic
from superopt.onnx_io.tensors import from_proto

_MAX_ELEMENTS = 1024  # the constant is written as a weight, and a big one would make the file bigger


@importer("ConstantOfShape")
def import_constant_of_shape(view: NodeView) -> dict[str, Attr]:
    """Read the shape, which is the input, and the value, which is a tensor."""
    shape = view.list_input(0)
    if shape is None or min(shape, default=0) < 0 or math.prod(shape) > _MAX_ELEMENTS:
        raise Unreadable("shape")
    return {"shape": shape, "value": _filling(view)}


def _filling(view: NodeView) -> float:
    for attribute in view.node.attribute:
        if attribute.name == "value":
            array, _ = from_proto(attribute.t, view.node.name)
            if array.size != 1 or array.dtype.kind in "OSUc":
                raise Unreadable("value")
            value = float(array.reshape(-1)[0])
            negative_zero = value == 0 and math.copysign(1, value) < 0
            if not math.isfinite(value) or value != array.reshape(-1)[0].item() or negative_zero:
                raise Unreadable("value")
            return value
    return 0.0


@importer("Range")
def import_range(view: NodeView) -> dict[str, Attr]:
    """Read the number of elements from the limit. In a range of real numbers it would depend on rounding."""
    start, limit, delta = (view.integer_input(k) for k in range(3))
    if start is None or limit is None or delta is None:
        raise Unreadable("inputs")
    if delta == 0 or max(map(abs, (start, limit, delta))) > 2**53:
        raise Unreadable("delta")
    n = max(-((start - limit) // delta), 0)
    if n > _MAX_ELEMENTS:
        raise Unreadable("limit")
    return {"delta": float(delta), "n": n, "start": float(start)}


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
