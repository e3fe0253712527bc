"""The canonical form of the operators in the table: a node of any opset to attributes and inputs.

Each function gives None where the node has no canonical form (a size is not known, a mode is not modelled);
the node then stays opaque. Sources: the operators' pages of the ONNX specification and their change logs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, helper

from superopt.ir.dim import Sizes
from superopt.ir.term import Attr, Term

__all__ = ["Canonical", "NodeView", "canonical"]


@dataclass(frozen=True)
class Canonical:
    """What a node is in the table's terms."""

    op: str
    inputs: tuple[Term, ...]
    attrs: Mapping[str, Attr]


@dataclass(frozen=True)
class NodeView:
    """A node as the functions below see it: `inputs` without trailing absent ones, `value` for constant inputs."""

    node: onnx.NodeProto
    opset: int
    inputs: tuple[Term | None, ...]
    outputs: int
    out_shape: Sizes | None  # of the first output, as far as ONNX infers it
    value: Callable[[Term], np.ndarray[Any, np.dtype[Any]] | None]

    def shape(self, index: int) -> Sizes | None:
        """Shape of input `index`, None where it is absent or not known."""
        term = self.inputs[index] if index < len(self.inputs) else None
        return term.type.shape if term is not None and term.type is not None else None

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return int(self._attribute(name, AttributeProto.INT, default))

    def real(self, name: str, default: float) -> float:
        """A real attribute: the float32 in the file, or the default as a float32."""
        return float(self._attribute(name, AttributeProto.FLOAT, float(np.float32(default))))

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        value = self._attribute(name, AttributeProto.STRING, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None where the attribute is absent."""
        value = self._attribute(name, AttributeProto.INTS, None)
        return None if value is None else tuple(map(int, value))

    def _attribute(self, name: str, kind: int, default: Any) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                if attribute.type != kind:
                    raise _Unreadable(name)
                return helper.get_attribute_value(attribute)
        return default

    def list_input(self, index: int) -> tuple[int, ...] | None:
        """The integers of a constant input; None where it is absent. Raises _Unreadable where it is not constant."""
        term = self.inputs[index] if index < len(self.inputs) else None
        if term is None:
            return None
        array = self.value(term)
        if array is None or array.dtype.kind not in "iu" or array.ndim > 1:
            raise _Unreadable(f"input {index}")
        return tuple(map(int, array.reshape(-1)))

    def parameters(self, name: str, index: int, since: int) -> tuple[int, ...] | None:
        """A list that is an attribute before opset `since` and input `index` from then on."""
        return self.integers(name) if self.opset < since else self.list_input(index)


class _Unreadable(Exception):
    """The node has no canonical form; it stays opaque."""


_Reader: TypeAlias = Callable[[NodeView], dict[str, Attr] | None]


def canonical(view: NodeView) -> Canonical | None:
    """The canonical form of a node of the default domain, or None."""
    row = _READERS.get(view.node.op_type)
    if row is None or len(view.inputs) < row[0] or None in view.inputs[: row[1]]:
        return None
    _, most, reader = row
    try:
        attrs = reader(view)
    except _Unreadable:
        return None
    inputs = tuple(i for i in view.inputs[:most] if i is not None)
    if attrs is None or (len(view.inputs) > most and not _PARAMETERS.get(view.node.op_type)):
        return None
    if view.outputs != 1 and view.node.op_type != "Split":
        return None
    if view.node.op_type == "ReduceSum" and attrs.get("axes") == "none":
        return Canonical("Identity", inputs, {})
    return Canonical(view.node.op_type, inputs, attrs)


def _negative(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    if any(not -rank <= axis < rank for axis in axes):
        raise _Unreadable("axes")
    return tuple(axis - rank if axis >= 0 else axis for axis in axes)


def _rank(view: NodeView) -> int:
    shape = view.shape(0)
    if shape is None:
        raise _Unreadable("rank")
    return len(shape)


def _distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(axes)) != len(axes):
        raise _Unreadable("axes")
    return axes


def _plain(view: NodeView) -> dict[str, Attr] | None:
    return None if view.node.attribute else {}


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
    return {"axis": _negative([view.integer("axis", rank)], rank)[0]}


def _split(view: NodeView) -> dict[str, Attr] | None:
    shape = view.shape(0)
    if shape is None:
        return None
    (axis,) = _negative([view.integer("axis", 0)], len(shape))
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
    axes = _distinct(_negative(range(len(starts)) if axes is None else axes, len(shape)))
    steps = None if view.opset < 10 else view.list_input(4)
    steps = (1,) * len(axes) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps) or any(step < 1 for step in steps):
        return None
    ranges: list[tuple[int, int, int, int]] = []
    for axis, start, end, step in sorted(zip(axes, starts, ends, steps, strict=True)):
        size = shape[axis]
        if not isinstance(size, int):
            return None
        start, end = (min(max(at + size if at < 0 else at, 0), size) for at in (start, end))
        ranges.append((axis, start, max(start, end), step))
    return {name: tuple(r[k] for r in ranges) for k, name in enumerate(("axes", "starts", "ends", "steps"))}


def _transpose(view: NodeView) -> dict[str, Attr] | None:
    perm = view.integers("perm")
    return {"perm": tuple(reversed(range(_rank(view)))) if perm is None else perm}


def _pad(view: NodeView) -> dict[str, Attr] | None:
    operand = view.inputs[0]
    text = operand is not None and operand.type is not None and operand.type.dtype == "string"
    if text or view.text("mode", "constant") != "constant":
        return None
    rank, pads = _rank(view), view.parameters("pads", 1, 11)
    value = view.real("value", 0.0) if view.opset < 11 else _pad_value(view)
    if pads is None or math.isnan(value) or (value == 0 and math.copysign(1, value) < 0):
        return None  # such a value is not equal to itself, or equal to another
    axes = view.list_input(3) if view.opset >= 18 else None
    axes = _distinct(_negative(range(rank) if axes is None else axes, rank))
    if len(pads) != 2 * len(axes):
        return None
    full = [0] * (2 * rank)
    for k, axis in enumerate(axes):
        full[axis + rank], full[axis + 2 * rank] = pads[k], pads[len(axes) + k]
    return {"pads": tuple(full), "value": value}


def _pad_value(view: NodeView) -> float:
    term = view.inputs[2] if len(view.inputs) > 2 else None
    if term is None:
        return 0.0
    array = view.value(term)
    if array is None or array.size != 1 or array.dtype.kind in "OSUb":
        raise _Unreadable("value")
    value = float(array.reshape(-1)[0])
    if not math.isnan(value) and value != array.reshape(-1)[0]:
        raise _Unreadable("value")  # an integer that no float64 is equal to
    return value


def _unsqueeze(view: NodeView) -> dict[str, Attr] | None:
    axes = view.parameters("axes", 1, 13)
    if axes is None:
        return None
    return {"axes": tuple(sorted(_distinct(_negative(axes, _rank(view) + len(axes)))))}


def _squeeze(view: NodeView) -> dict[str, Attr] | None:
    axes, shape = view.parameters("axes", 1, 13), view.shape(0)
    if shape is None:
        return None
    if axes is None:
        if not all(isinstance(size, int) for size in shape):
            return None
        axes = tuple(k for k, size in enumerate(shape) if size == 1)
    return {"axes": tuple(sorted(_distinct(_negative(axes, len(shape)))))}


def _reduce_sum(view: NodeView) -> dict[str, Attr] | None:
    axes, keepdims = view.parameters("axes", 1, 13), int(view.integer("keepdims", 1) != 0)
    if not axes and view.opset >= 13 and view.integer("noop_with_empty_axes", 0):
        return {"axes": "none"}
    rank = _rank(view)
    return {"axes": tuple(sorted(_distinct(_negative(axes or range(rank), rank)))), "keepdims": keepdims}


def _conv(view: NodeView) -> dict[str, Attr] | None:
    x, w = view.shape(0), view.shape(1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    spatial, kernel = len(x) - 2, w[2:]
    stated = view.integers("kernel_shape")
    if stated is not None and stated != kernel:
        return None
    dilations = view.integers("dilations") or (1,) * spatial
    strides = view.integers("strides") or (1,) * spatial
    pads = view.integers("pads") or (0,) * (2 * spatial)
    auto_pad = view.text("auto_pad", "NOTSET")
    if auto_pad == "VALID":
        pads = (0,) * (2 * spatial)
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        # With dilations runtimes differ in what SAME means; such nodes are left as they are.
        if any(d != 1 for d in dilations) or not all(isinstance(size, int) for size in (*x[2:], *kernel)):
            return None
        total = [
            max((-(-n // s) - 1) * s + k - n, 0)
            for n, s, k in zip(x[2:], strides, kernel, strict=True)
            if isinstance(n, int) and isinstance(k, int)
        ]
        less, more = tuple(p // 2 for p in total), tuple(p - p // 2 for p in total)
        pads = less + more if auto_pad == "SAME_UPPER" else more + less
    elif auto_pad not in ("NOTSET", ""):
        return None
    if len(dilations) != spatial or len(strides) != spatial or len(pads) != 2 * spatial:
        return None
    if min(*dilations, *strides, 1) < 1 or min(pads) < 0 or view.integer("group", 1) < 1:
        return None
    return {"dilations": dilations, "group": view.integer("group", 1), "pads": pads, "strides": strides}


def _batch_normalization(view: NodeView) -> dict[str, Attr] | None:
    training = view.opset >= 14 and view.integer("training_mode", 0) != 0
    if training or (view.opset < 9 and view.integer("spatial", 1) != 1):
        return None
    dtypes = {term.type.dtype if term is not None and term.type is not None else None for term in view.inputs}
    return {"epsilon": view.real("epsilon", 1e-5)} if len(dtypes) == 1 else None


_ANY = 1 << 30
# Operator: least and most tensor inputs, and the reader of its attributes.
_READERS: Mapping[str, tuple[int, int, _Reader]] = {
    **dict.fromkeys(("MatMul", "Add", "Sub", "Mul"), (2, 2, _plain)),
    **dict.fromkeys(("Neg", "Identity", "Relu", "Sigmoid", "Tanh"), (1, 1, _plain)),
    "Sum": (1, _ANY, _plain),
    "Gemm": (2, 3, _gemm),
    "Concat": (1, _ANY, _concat),
    "Split": (1, 1, _split),
    "Slice": (1, 1, _slice),
    "Transpose": (1, 1, _transpose),
    "Pad": (1, 1, _pad),
    "Unsqueeze": (1, 1, _unsqueeze),
    "Squeeze": (1, 1, _squeeze),
    "ReduceSum": (1, 1, _reduce_sum),
    "Conv": (2, 3, _conv),
    "BatchNormalization": (5, 5, _batch_normalization),
}
# Operators that newer opsets give further inputs, which become attributes.
_PARAMETERS = dict.fromkeys(("Split", "Slice", "Pad", "Unsqueeze", "Squeeze", "ReduceSum"), True)
