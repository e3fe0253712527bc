"""The operators that models are mostly made of."""

from __future__ import annotations

import math
from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import ANY, NodeView, Row, Unreadable, distinct, negative, plain, rank
from superopt.onnx_io.importers.windows import windows

__all__ = ["READERS"]


def _gemm(view: NodeView) -> dict[str, Attr] | None:
    return {
        "alpha": view.real("alpha", 1.0),
        "beta": view.real("beta", 1.0),
        "transA": int(view.integer("transA", 0) != 0),
        "transB": int(view.integer("transB", 0) != 0),
    }


def _concat(view: NodeView) -> dict[str, Attr] | None:
    ranks = [len(shape) for shape in map(view.shape, range(len(view.inputs))) if shape is not None]
    if not ranks and view.out_shape is None:
        return None
    rank = ranks[0] if ranks else len(view.out_shape or ())
    return {"axis": negative([view.integer("axis", rank)], rank)[0]}


def _split(view: NodeView) -> dict[str, Attr] | None:
    shape = view.shape(0)
    if shape is None:
        return None
    (axis,) = negative([view.integer("axis", 0)], len(shape))
    size, parts = shape[axis], view.outputs
    if not isinstance(size, int):
        return None
    split = view.parameters("split", 1, 13)
    if split is None:
        if view.opset >= 18:
            if view.integer("num_outputs", 0) != parts:
                return None
            each = -(-size // parts)
            split = tuple(min(each, max(size - k * each, 0)) for k in range(parts))
        elif size % parts == 0:
            split = (size // parts,) * parts
        else:
            return None
    if sum(split) != size or min(split) < 0 or len(split) != view.outputs:
        return None
    return {"axis": axis, "split": split}


def _slice(view: NodeView) -> dict[str, Attr] | None:
    shape = view.shape(0)
    starts, ends = view.parameters("starts", 1, 10), view.parameters("ends", 2, 10)
    if shape is None or starts is None or ends is None:
        return None
    axes = view.parameters("axes", 3, 10)
    axes = distinct(negative(range(len(starts)) if axes is None else axes, len(shape)))
    steps = None if view.opset < 10 else view.list_input(4)
    steps = (1,) * len(axes) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        return None
    ranges: list[tuple[int, int, int, int]] = []
    for axis, start, end, step in sorted(zip(axes, starts, ends, steps, strict=True)):
        size = shape[axis]
        if not isinstance(size, int):
            return None
        # Backwards to the greatest integer is nothing at all by the specification, and everything to ONNX Runtime.
        if step < 0 and (size < 1 or end in (2**31 - 1, 2**63 - 1)):
            return None
        start, end = (at + size if at < 0 else at for at in (start, end))
        if step > 0:
            start = min(max(start, 0), size)
            ranges.append((axis, start, max(start, min(end, size)), step))
        else:
            start = min(max(start, 0), size - 1)
            ranges.append((axis, start, min(start, max(end, -1)), step))
    return {name: tuple(r[k] for r in ranges) for k, name in enumerate(("axes", "starts", "ends", "steps"))}


def _transpose(view: NodeView) -> dict[str, Attr] | None:
    perm = view.integers("perm")
    return {"perm": tuple(reversed(range(rank(view)))) if perm is None else perm}


def _pad(view: NodeView) -> dict[str, Attr] | None:
    operand = view.inputs[0]
    text = operand is not None and operand.type is not None and operand.type.dtype == "string"
    if text or view.text("mode", "constant") != "constant":
        return None
    dims, pads = rank(view), view.parameters("pads", 1, 11)
    value = view.real("value", 0.0) if view.opset < 11 else _pad_value(view)
    if pads is None or math.isnan(value) or (value == 0 and math.copysign(1, value) < 0):
        return None  # such a value is not equal to itself, or equal to another
    axes = view.list_input(3) if view.opset >= 18 else None
    axes = distinct(negative(range(dims) if axes is None else axes, dims))
    if len(pads) != 2 * len(axes):
        return None
    full = [0] * (2 * dims)
    for k, axis in enumerate(axes):
        full[axis + dims], full[axis + 2 * dims] = pads[k], pads[len(axes) + k]
    return {"pads": tuple(full), "value": value}


def _pad_value(view: NodeView) -> float:
    term = view.inputs[2] if len(view.inputs) > 2 else None
    if term is None:
        return 0.0
    array = view.value(term)
    if array is None or array.size != 1 or array.dtype.kind in "OSUb":
        raise Unreadable("value")
    value = float(array.reshape(-1)[0])
    if not math.isnan(value) and value != array.reshape(-1)[0]:
        raise Unreadable("value")  # an integer that no float64 is equal to
    return value


def _unsqueeze(view: NodeView) -> dict[str, Attr] | None:
    axes = view.parameters("axes", 1, 13)
    if axes is None:
        return None
    return {"axes": tuple(sorted(distinct(negative(axes, rank(view) + len(axes)))))}


def _squeeze(view: NodeView) -> dict[str, Attr] | None:
    axes, shape = view.parameters("axes", 1, 13), view.shape(0)
    if shape is None:
        return None
    if axes is None:
        if not all(isinstance(size, int) for size in shape):
            return None
        axes = tuple(k for k, size in enumerate(shape) if size == 1)
    return {"axes": tuple(sorted(distinct(negative(axes, len(shape)))))}


def _conv(view: NodeView) -> dict[str, Attr] | None:
    x, w = view.shape(0), view.shape(1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    stated = view.integers("kernel_shape")
    if stated is not None and stated != w[2:]:
        return None
    found, group = windows(view, x[2:], w[2:]), view.integer("group", 1)
    return None if found is None or group < 1 else {**found, "group": group}


def _batch_normalization(view: NodeView) -> dict[str, Attr] | None:
    training = view.opset >= 14 and view.integer("training_mode", 0) != 0
    if training or (view.opset < 9 and view.integer("spatial", 1) != 1):
        return None
    dtypes = {term.type.dtype if term is not None and term.type is not None else None for term in view.inputs}
    return {"epsilon": view.real("epsilon", 1e-5)} if len(dtypes) == 1 else None


READERS: Mapping[str, Row] = {
    **dict.fromkeys(("MatMul", "Add", "Sub", "Mul"), Row(2, 2, plain)),
    **dict.fromkeys(("Neg", "Identity", "Relu", "Sigmoid", "Tanh"), Row(1, 1, plain)),
    "Sum": Row(1, ANY, plain),
    "Gemm": Row(2, 3, _gemm),
    "Concat": Row(1, ANY, _concat),
    "Split": Row(1, 1, _split, parameters=True, outputs=True),
    "Slice": Row(1, 1, _slice, parameters=True),
    "Transpose": Row(1, 1, _transpose),
    "Pad": Row(1, 1, _pad, parameters=True),
    "Unsqueeze": Row(1, 1, _unsqueeze, parameters=True),
    "Squeeze": Row(1, 1, _squeeze, parameters=True),
    "Conv": Row(2, 3, _conv),
    "BatchNormalization": Row(5, 5, _batch_normalization),
}
