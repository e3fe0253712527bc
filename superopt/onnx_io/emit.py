"""Operators of the table as nodes of a given opset: the canonical form undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from superopt.evaluate import numpy_dtype
from superopt.ir.term import Term
from superopt.onnx_io.model import Array, ModelError

__all__ = ["Constants", "emit"]

# Name of a constant input that holds an array of an element type.
Constants: TypeAlias = Callable[[Array, str], str]


def emit(
    term: Term, opset: int, inputs: Sequence[str], outputs: Sequence[str], constants: Constants
) -> list[onnx.NodeProto]:
    """The nodes (one, as a rule) that compute `term` at `opset`. Raises ModelError where the opset cannot say it."""
    attrs: dict[str, Any] = dict(term.attrs)
    for name, value in attrs.items():
        if not _literal(value):
            raise ModelError(f"{term.op}: attribute {name} = {value} is not a number")
    inputs = list(inputs)

    def node(op: str = term.op, **attributes: Any) -> list[onnx.NodeProto]:
        return [helper.make_node(op, inputs, outputs, **attributes)]

    def parameter(name: str, value: Sequence[int], since: int) -> dict[str, Any]:
        """An attribute before opset `since`, one more constant input from then on."""
        if opset < since:
            return {name: list(value)}
        inputs.append(constants(np.array(value, np.int64), "int64"))
        return {}

    # What works on no axis at all is the identity; written out, an empty list would mean all axes, or nothing.
    if any(attrs.get(name) == () for name in ("axes", "perm", "pads")):
        return node("Identity")
    match term.op:
        case "Concat" | "Split":
            axis = _axes(term, [attrs["axis"]], opset)[0]
            if term.op == "Concat":
                return node(axis=axis)
            split = parameter("split", attrs["split"], 13)
            return node(axis=axis, **split)
        case "Slice":
            axes = _axes(term, attrs["axes"], opset)
            lists = {"starts": attrs["starts"], "ends": attrs["ends"], "axes": axes}
            if opset < 10:
                if any(step != 1 for step in attrs["steps"]):
                    raise ModelError(f"opset {opset} has no Slice with steps")
                plain: dict[str, Any] = {name: list(value) for name, value in lists.items()}
                return node(**plain)
            if any(step != 1 for step in attrs["steps"]):
                lists["steps"] = attrs["steps"]
            for name, value in lists.items():
                parameter(name, value, 10)
            return node()
        case "Pad":
            pads = parameter("pads", attrs["pads"], 11)
            if opset < 11:
                return node(mode="constant", value=float(attrs["value"]), **pads)
            if attrs["value"] != 0:
                dtype = term.type.dtype if term.type is not None else "float"
                inputs.append(constants(np.array(attrs["value"], numpy_dtype(dtype)), dtype))
            return node(mode="constant")
        case "Unsqueeze" | "Squeeze":
            return node(**parameter("axes", _axes(term, attrs["axes"], opset), 13))
        case "ReduceSum":
            return node(keepdims=attrs["keepdims"], **parameter("axes", _axes(term, attrs["axes"], opset), 13))
        case "Gemm":
            if len(inputs) == 2 and opset < 11:
                dtype = term.type.dtype if term.type is not None else "float"
                inputs.append(constants(np.zeros((1,), numpy_dtype(dtype)), dtype))
            return node(**_reals(attrs, "alpha", "beta"))
        case "BatchNormalization":
            return node(**_reals(attrs, "epsilon"))
        case "Conv":
            kernel = term.inputs[1].type.concrete() if term.inputs[1] is not None and term.inputs[1].type else None
            if kernel is not None:
                attrs["kernel_shape"] = kernel[2:]
        case "Sum" if opset < 8 and len({i.type for i in term.inputs if i is not None}) > 1:
            return _adds(inputs, outputs[0])  # Sum broadcasts from opset 8 on
    return node(**attrs)


def _literal(value: object) -> bool:
    return all(map(_literal, value)) if isinstance(value, tuple) else isinstance(value, (int, float, str))


def _reals(attrs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: float(value) if name in names else value for name, value in attrs.items()}


def _axes(term: Term, axes: Sequence[int], opset: int) -> list[int]:
    """`axes` counted from the front where the rank is known. ONNX Runtime's optimizations look for axis 1, not for
    -3 (its blocked layout would be left at every Concat), and opsets before 11 have no negative axes."""
    same = term.inputs if term.op == "Concat" else term.inputs[:1]
    ranks = [i.type.rank for i in same if i is not None and i.type is not None and i.type.rank is not None]
    if term.op == "Concat" and term.type is not None and term.type.rank is not None:
        ranks.append(term.type.rank)
    if not ranks and opset >= 11:
        return list(axes)
    if not ranks:
        raise ModelError(f"{term.op}: rank not known, and opset {opset} has no negative axes")
    rank = ranks[0] + (len(axes) if term.op == "Unsqueeze" else 0)
    return [axis % rank for axis in axes]


def _adds(inputs: Sequence[str], output: str) -> list[onnx.NodeProto]:
    nodes: list[onnx.NodeProto] = []
    total = inputs[0]
    for k, name in enumerate(inputs[1:], 1):
        result = output if k == len(inputs) - 1 else f"{output}_partial_{k}"
        nodes.append(helper.make_node("Add", [total, name], [result]))
        total = result
    return nodes
