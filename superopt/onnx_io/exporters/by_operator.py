"""Exporters of operators whose schema and entry are not enough, each with the reason."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper

from superopt.ir.dim import Dim, Size, floor_div
from superopt.ir.operator import OPERATORS
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io.exporters.derived import export_derived
from superopt.onnx_io.exporters.node import Exporter, NodeExport, is_free, operand_shape
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.static_values import is_never_negative
from superopt.ops.recurrent import RECURRENT
from superopt.ops.resize import REPEATING
from superopt.properties import fused_activations

__all__ = ["EXPORTERS"]

_RUNTIME = "com.microsoft"


def _cast(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the element type as a number."""
    return [e.node(to=onnx.TensorProto.DataType.Value(e.attrs["to"].upper()))]


def _clip(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the bounds: constant inputs of the operand's type, or float32 attributes before opset 11."""
    low, high = float(e.attrs["bound_low"]), float(e.attrs["bound_high"])
    bounded: dict[str, Any] = {name: end for name, end in (("min", low), ("max", high)) if math.isfinite(end)}
    if e.dtype not in FLOAT_DTYPES and any(end != int(end) for end in bounded.values()):
        raise ModelError(f"Clip of integers needs whole bounds, not {low} and {high}")
    if e.opset < 11:
        if e.dtype != "float":
            raise ModelError(f"opset {e.opset} has no Clip of {e.dtype} (new in 11)")
        if low > high:
            raise ModelError(f"opset {e.opset} has no Clip with its bounds reversed, {low} and {high} (new in 11)")
        return [e.node(**bounded)]
    if "min" in bounded:
        e.append(low, e.dtype)
    elif "max" in bounded:
        e.inputs.append("")
    if "max" in bounded:
        e.append(high, e.dtype)
    return [e.node()]


def _conv(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the kernel's shape as well, as exporters of models do; some runtimes need it."""
    weight = e.term.inputs[1]
    kernel = weight.type.concrete() if weight is not None and weight.type else None
    (node,) = export_derived(e)
    if kernel is not None:
        node.attribute.append(helper.make_attribute("kernel_shape", kernel[2:]))
    return [_sorted(node)]


def _sorted(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the node with its attributes in alphabetical order."""
    attributes = sorted(node.attribute, key=lambda attribute: str(attribute.name))
    del node.attribute[:]
    node.attribute.extend(attributes)
    return node


def _pool(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out dilations of 1: pooling has dilations only since opset 10 (MaxPool) and 19 (AveragePool)."""
    if all(d == 1 for d in e.attrs["dilations"]):
        del e.attrs["dilations"]
    return export_derived(e)


def _flatten(e: NodeExport) -> list[onnx.NodeProto]:
    """Write `axis` unchanged: it is the number of axes that are merged into the first, and may be the rank."""
    return [e.node(axis=e.attrs["axis"])]


def _gelu(e: NodeExport) -> list[onnx.NodeProto]:
    """Use ONNX Runtime's own Gelu before opset 20, which introduced Gelu in ONNX."""
    if e.opset < 20 and e.attrs["approximate"] == "none":
        return [e.node(domain=_RUNTIME)]
    return export_derived(e)


def _gemm(e: NodeExport) -> list[onnx.NodeProto]:
    """Write a zero for the summand before opset 11, where it is not optional."""
    if len(e.inputs) == 2 and e.opset < 11:
        e.append([0], e.dtype)
    return export_derived(e)


def _pad(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the value: a constant input of the operand's type and another name, or an attribute before opset 11."""
    if e.opset < 11:
        return [e.node(mode="constant", value=float(e.attrs["value"]), pads=e.attrs["pads"])]
    e.append(e.attrs["pads"])
    if e.attrs["value"] != 0:
        e.append(e.attrs["value"], e.dtype)
    return [e.node(mode="constant")]


def _pad_copy(e: NodeExport) -> list[onnx.NodeProto]:
    """Write Pad; the mode "wrap" is new in opset 19."""
    mode = e.attrs["mode"]
    if e.opset < 11:
        return [e.node("Pad", mode=mode, pads=e.attrs["pads"])]
    if mode == "wrap" and e.opset < 19:
        raise ModelError(f"opset {e.opset} has no Pad with mode wrap (new in 19)")
    e.append(e.attrs["pads"])
    return [e.node("Pad", mode=mode)]


def _one_hot(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the depth as a constant input between the operands."""
    values = e.inputs.pop()
    e.append(e.attrs["depth"])
    e.inputs.append(values)
    return [e.node(axis=e.attrs["axis"])]


def _quantization(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out the axis if the scale is one number."""
    scale = e.term.inputs[1]
    if scale is None or scale.type is None or scale.type.shape in ((), (1,)):
        del e.attrs["axis"]
    return export_derived(e)


def _recurrent(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out `sequence_lens`, the input before the states: all sequences are as long as X.

    `hidden_size` is that of the recurrent weights, whose shape is known even if the shape of X is not.
    """
    e.inputs.insert(4, "")
    weights = e.term.inputs[2]
    shape = weights.type.shape if weights is not None and weights.type is not None else None
    if shape is None or not isinstance(shape[2], int):
        return [e.node(**e.attrs)]
    return [e.node(hidden_size=shape[2], **e.attrs)]


def _expand(e: NodeExport) -> list[onnx.NodeProto]:
    """Write 1 for a free size that the operand has already."""
    shape, wanted = operand_shape(e.term) or (), e.attrs["shape"]
    own = (None,) * (len(wanted) - len(shape)) + shape[max(len(shape) - len(wanted), 0) :]
    e.attrs["shape"] = tuple(1 if is_free(n) and n == have else n for n, have in zip(wanted, own, strict=True))
    return export_derived(e)


def _reshape(e: NodeExport) -> list[onnx.NodeProto]:
    """Write 0 for free sizes that keep their place, or -1 for a single one among numbers; compute more of them.

    Beside a size of 0 at run time, -1 is an error, and without `allowzero` a computed 0 copies a size. So raises
    ModelError before opset 14, which has no `allowzero`, unless the copied size is 0 as well.
    """
    shape, wanted, copies = operand_shape(e.term) or (), list(e.attrs["shape"]), not e.attrs["allowzero"]
    own = [shape[k] if k < len(shape) else None for k in range(len(wanted))]
    copied = [k for k, n in enumerate(wanted) if copies and (n == 0 or (is_free(n) and n == own[k]))]
    others = [k for k, n in enumerate(wanted) if is_free(n) and k not in copied]
    if len(others) == 1 and all(isinstance(n, int) and n > 0 for k, n in enumerate(wanted) if k != others[0]):
        wanted[others[0]] = -1
        others = []
    if not others or -1 in wanted or (e.opset < 14 and all(_copies_itself(wanted[k], own[k]) for k in others)):
        for k in copied:
            wanted[k] = 0
    elif e.opset >= 14 and all(own[k] is not None for k in copied):
        e.attrs["allowzero"] = 1
        for k in copied:
            wanted[k] = own[k]
    else:
        raise ModelError(f"opset {e.opset} has no Reshape to computed sizes that may be 0 (new in 14)")
    e.attrs["shape"] = tuple(wanted)
    if not e.attrs["allowzero"] or not (others or 0 in wanted):
        del e.attrs["allowzero"]
    return export_derived(e)


def _copies_itself(size: Size, own: Size | None) -> bool:
    """Return True if a target of `size` gives that size also where it is 0, and the operand's `own` size is copied."""
    return is_never_negative(size - 1) or (own is not None and own == size * floor_div(own, size))


def _resize(e: NodeExport) -> list[onnx.NodeProto]:
    """Write real scales for all axes; Upsample is Resize's name before opset 10."""
    rank = e.term.type.rank if e.term.type is not None else None
    if rank is None:
        raise ModelError("Resize: the rank of the result is unknown; state the shapes of the model's inputs")
    own, linear = e.attrs["scales"], e.term.op == "ResizeLinear"
    scales = [1.0] * (rank - len(own)) + [float(scale) for scale in own]
    modes = {name: value for name, value in e.attrs.items() if name != "scales"}
    if not linear and modes == REPEATING and all(isinstance(scale, int) for scale in own):
        modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}  # repeat as well
    elif e.opset < 11 and not (linear and modes["coordinate_transformation_mode"] == "asymmetric"):
        raise ModelError(f"opset {e.opset} has no Resize with {', '.join(modes.values())} (new in 11)")
    elif e.opset < 10 and min(scales) < 1:
        raise ModelError(f"opset {e.opset} has no Resize that reduces (new in 10)")
    mode = "linear" if linear else "nearest"
    if e.opset < 9:
        return [e.node("Upsample", mode=mode, scales=scales)]
    if 11 <= e.opset < 13:
        e.append([], "float")  # the input `roi` must not be left out
    elif e.opset >= 13:
        e.inputs.append("")
    e.append(scales, "float")
    if e.opset < 11:
        return [e.node("Upsample" if e.opset < 10 else "Resize", mode=mode)]
    return [e.node("Resize", mode=mode, **modes)]


def _slice(e: NodeExport) -> list[onnx.NodeProto]:
    """Write positions in an axis of a free size from its end, if they are numbers then, and the end itself as such."""
    shape = operand_shape(e.term)
    ranges = list(zip(*(e.attrs[name] for name in ("axes", "starts", "ends", "steps")), strict=True))
    sizes = [None if shape is None else shape[axis] for axis, *_ in ranges]
    lists = {
        "starts": [_from_end(start, size) for (_, start, _, _), size in zip(ranges, sizes, strict=True)],
        "ends": [_end(end, step, size) for (_, _, end, step), size in zip(ranges, sizes, strict=True)],
        "axes": e.front_axes(e.attrs["axes"]),
    }
    if any(step != 1 for step in e.attrs["steps"]):
        if e.opset < 10:
            raise ModelError(f"opset {e.opset} has no Slice with steps (new in 10)")
        lists["steps"] = e.attrs["steps"]
    if e.opset < 10:
        attributes: dict[str, Any] = lists
        return [e.node(**attributes)]
    for value in lists.values():
        e.append(value)
    return [e.node()]


def _from_end(place: Size, size: Size | None) -> Size:
    """Return the place in an axis as a negative number if it is a fixed distance before the end, else unchanged."""
    back = None if size is None or isinstance(place, int) else size - place
    return -back if isinstance(back, int) and back > 0 else place


def _end(end: Size, step: Size, size: Size | None) -> Size:
    """Return the end of a slice. In a file, -1 means the last element, not the place before the first one."""
    limits = np.iinfo(np.int64)
    if isinstance(end, Dim) and end == size:
        return int(limits.max)
    if isinstance(step, int) and step < 0 and size is not None and isinstance(end, Dim):
        return end - size  # also right if `end` is -1 at run time
    end = _from_end(end, size)
    return int(limits.min) if end == -1 and isinstance(step, int) and step < 0 else end


def _softmax(e: NodeExport) -> list[onnx.NodeProto]:
    """Check the axis: before opset 13 all axes from it on are normalized together, so later ones must have size 1."""
    shape, axis = e.term.type.shape if e.term.type is not None else None, e.attrs["axis"]
    if e.opset < 13 and axis != -1 and (shape is None or any(n != 1 for n in shape[len(shape) + axis + 1 :])):
        raise ModelError(f"opset {e.opset} has no {e.term.op} over an axis in the middle (new in 13)")
    return export_derived(e)


def _sum(e: NodeExport) -> list[onnx.NodeProto]:
    """Write additions before opset 8, where Sum does not broadcast."""
    if e.opset >= 8 or len({i.type for i in e.term.inputs if i is not None}) == 1:
        return export_derived(e)
    nodes: list[onnx.NodeProto] = []
    total = e.inputs[0]
    for k, name in enumerate(e.inputs[1:], 1):
        result = e.outputs[0] if k == len(e.inputs) - 1 else f"{e.outputs[0]}_partial_{k}"
        nodes.append(helper.make_node("Add", [total, name], [result]))
        total = result
    return nodes


def _fused_conv(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the activation's parameters as one list, or none if the activation has none."""
    if parameters := _activation_parameters(e):
        e.attrs["activation_params"] = parameters
    return export_derived(e)


def _fused_gemm(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the activation's parameters as attributes, as many as it has."""
    e.attrs.update(zip(("activation_alpha", "activation_beta"), _activation_parameters(e), strict=False))
    return export_derived(e)


def _activation_parameters(e: NodeExport) -> tuple[float, ...]:
    pair = float(e.attrs.pop("activation_alpha")), float(e.attrs.pop("activation_beta"))
    return pair[: fused_activations(e.term.op)[e.attrs["activation"]]]


def _attention(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out what has no definition: a mask of keys, and earlier keys and values, before what is added to scores."""
    if not np.float32(e.attrs["scale"]):
        raise ModelError(f"{e.term.op} takes a scale of 0 for its default")
    if len(e.inputs) == OPERATORS[e.term.op].inputs[1]:
        e.inputs[-1:] = ["", e.inputs[-1]] if e.term.op == "MultiHeadAttention" else ["", "", e.inputs[-1]]
    return export_derived(e)


EXPORTERS: Mapping[str, Exporter] = {
    "Attention": _attention,
    "AveragePool": _pool,
    "Cast": _cast,
    "Clip": _clip,
    "Conv": _conv,
    "DequantizeLinear": _quantization,
    "Expand": _expand,
    "Flatten": _flatten,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "LogSoftmax": _softmax,
    "MaxPool": _pool,
    "MultiHeadAttention": _attention,
    "OneHot": _one_hot,
    "Pad": _pad,
    "PadCopy": _pad_copy,
    "QuantizeLinear": _quantization,
    "Reshape": _reshape,
    "Resize": _resize,
    "ResizeLinear": _resize,
    "Slice": _slice,
    "Softmax": _softmax,
    "Sum": _sum,
    **dict.fromkeys(RECURRENT, _recurrent),
}
