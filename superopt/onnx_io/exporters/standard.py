"""The operators that models are mostly made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from superopt.evaluate import numpy_dtype
from superopt.onnx_io.exporters.emission import Emission, Emitter, front_axes, reals
from superopt.onnx_io.model import ModelError

__all__ = ["EMITTERS"]


def _standard(e: Emission) -> list[onnx.NodeProto]:
    match e.term.op:
        case "Concat" | "Split":
            axis = front_axes(e.term, [e.attrs["axis"]], e.opset)[0]
            if e.term.op == "Concat":
                return e.node(axis=axis)
            split = e.parameter("split", e.attrs["split"], 13)
            return e.node(axis=axis, **split)
        case "Slice":
            axes = front_axes(e.term, e.attrs["axes"], e.opset)
            # An end of -1 is before the first element; in a file that would be the last one.
            ends = [end if end >= 0 else np.iinfo(np.int64).min for end in e.attrs["ends"]]
            lists = {"starts": e.attrs["starts"], "ends": ends, "axes": axes}
            if e.opset < 10:
                if any(step != 1 for step in e.attrs["steps"]):
                    raise ModelError(f"opset {e.opset} has no Slice with steps")
                plain: dict[str, Any] = {name: list(value) for name, value in lists.items()}
                return e.node(**plain)
            if any(step != 1 for step in e.attrs["steps"]):
                lists["steps"] = e.attrs["steps"]
            for name, value in lists.items():
                e.parameter(name, value, 10)
            return e.node()
        case "Pad":
            pads = e.parameter("pads", e.attrs["pads"], 11)
            if e.opset < 11:
                return e.node(mode="constant", value=float(e.attrs["value"]), **pads)
            if e.attrs["value"] != 0:
                e.scalar(e.attrs["value"])
            return e.node(mode="constant")
        case "Unsqueeze" | "Squeeze":
            return e.node(**e.parameter("axes", front_axes(e.term, e.attrs["axes"], e.opset), 13))
        case "Gemm":
            if len(e.inputs) == 2 and e.opset < 11:
                e.inputs.append(e.constants(np.zeros((1,), numpy_dtype(e.dtype)), e.dtype))
            return e.node(**reals(e.attrs, "alpha", "beta"))
        case "BatchNormalization":
            return e.node(**reals(e.attrs, "epsilon"))
        case "Conv":
            weight = e.term.inputs[1]
            kernel = weight.type.concrete() if weight is not None and weight.type else None
            if kernel is not None:
                e.attrs["kernel_shape"] = kernel[2:]
        case "Sum" if e.opset < 8 and len({i.type for i in e.term.inputs if i is not None}) > 1:
            return _adds(e.inputs, e.outputs[0])  # Sum broadcasts from opset 8 on
    return e.node(**e.attrs)


def _adds(inputs: Sequence[str], output: str) -> list[onnx.NodeProto]:
    nodes: list[onnx.NodeProto] = []
    total = inputs[0]
    for k, name in enumerate(inputs[1:], 1):
        result = output if k == len(inputs) - 1 else f"{output}_partial_{k}"
        nodes.append(helper.make_node("Add", [total, name], [result]))
        total = result
    return nodes


_NAMES = (
    "Concat", "Split", "Slice", "Pad", "Unsqueeze", "Squeeze", "Gemm", "BatchNormalization", "Conv", "Sum"
)  # fmt: skip
EMITTERS: Mapping[str, Emitter] = dict.fromkeys(_NAMES, _standard)
