"""Importers of operators whose schema and entry are not enough, each with the reason."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from superopt.evaluate import dtype_name, numpy_dtype
from superopt.ir.dim import Size, floor_div
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr, Term
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io.importers.constants import constant_of_shape, integer_range
from superopt.onnx_io.importers.derived import check_rest, import_derived
from superopt.onnx_io.importers.layout import (
    flatten,
    gather,
    gather_nd,
    pad,
    reshape,
    slice_of,
    split,
    squeeze,
    unsqueeze,
)
from superopt.onnx_io.importers.resize import resize, upsample
from superopt.onnx_io.importers.view import Canonical, NodeView, Unreadable, negative
from superopt.ops.logic import CASTABLE
from superopt.ops.recurrent import RECURRENT

__all__ = ["IMPORTERS", "Importer"]

# Returns the attributes of the term, or the whole canonical form. Raises Unreadable if there is none.
Importer: TypeAlias = Callable[[NodeView], "Mapping[str, Attr] | Canonical"]

_NUMBERS = FLOAT_DTYPES | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}


def _cast(view: NodeView) -> dict[str, Attr]:
    """Read the element type, a number in a file. Other attributes concern 8-bit floats, which stay opaque."""
    try:
        to = dtype_name(view.integer("to", 0))
    except ValueError:
        raise Unreadable("to") from None
    if view.dtype(0) not in CASTABLE or to not in CASTABLE:
        raise Unreadable("to")
    return {"to": to}


def _clip(view: NodeView) -> dict[str, Attr]:
    """Read the bounds: constant inputs under other names, or float32 attributes before opset 11.

    Bounds at the ends of the type's range are ONNX's defaults and are read as no bounds. A node with an infinite bound
    stays opaque, because infinite elements distinguish it from the default.
    """
    dtype = view.dtype(0)
    if dtype is None or dtype not in (_NUMBERS if view.opset >= 11 else {"float"}):
        raise Unreadable("element type")
    array_dtype = numpy_dtype(dtype)
    ends: Any = np.iinfo(array_dtype) if array_dtype.kind in "iu" else ml_dtypes.finfo(array_dtype)  # type: ignore[no-untyped-call]
    low = view.real("min", float(ends.min)) if view.opset < 11 else _bound(view, 1)
    high = view.real("max", float(ends.max)) if view.opset < 11 else _bound(view, 2)
    if view.opset < 11 and low is not None and high is not None and low > high:
        raise Unreadable("bounds")  # the specification says from opset 11 on which bound decides
    return {
        "bound_low": -math.inf if low is None or low == ends.min else _exact(low),
        "bound_high": math.inf if high is None or high == ends.max else _exact(high),
    }


def _bound(view: NodeView, index: int) -> int | float | None:
    """Return the value of a constant input, or None if it is absent."""
    array = view.array_input(index)
    if array is None:
        return None
    if array.size != 1 or array.ndim > 1:
        raise Unreadable("bound")
    (value,) = array.reshape(-1)
    return int(value) if array.dtype.kind in "iu" else float(value)


def _exact(bound: int | float) -> float:
    """Return the float64 that is equal to `bound` and to nothing else: no NaN, no -0.0."""
    value = float(bound)
    if not math.isfinite(value) or value != bound or (value == 0 and math.copysign(1, value) < 0):
        raise Unreadable("bound")
    return value


def _softmax(view: NodeView) -> Mapping[str, Attr] | Canonical:
    """Read the axis. Before opset 13 all axes from it on are normalized together: only one may differ from size 1."""
    if view.opset >= 13:
        return _derived(view)
    (axis,), shape = negative([view.integer("axis", 1)], view.rank), view.shape(0) or ()
    longer = [d for d in range(axis, 0) if shape[d] != 1]
    if len(longer) > 1:
        raise Unreadable("axis")
    return {"axis": longer[0] if longer else -1}


def _derived(view: NodeView) -> Canonical:
    return import_derived(view, OPERATORS[view.node.op_type])


def _batch_normalization(view: NodeView) -> Canonical:
    """Refuse parameters with another element type than the operand: ONNX allows them, but terms have one type."""
    if len({view.dtype(index) for index in range(len(view.inputs))}) > 1:
        raise Unreadable("element types")
    return _derived(view)


def _celu(view: NodeView) -> Canonical:
    """Refuse an `alpha` that is not above 0: the formula and the function body of the specification differ there."""
    form = _derived(view)
    if not float(str(form.attrs["alpha"])) > 0:
        raise Unreadable("alpha")
    return form


def _trilu(view: NodeView) -> Canonical:
    """Refuse strings: ONNX allows them, but there is no zero string."""
    if view.dtype(0) == "string":
        raise Unreadable("element type")
    return _derived(view)


def _recurrent(view: NodeView) -> Canonical:
    """Read a layer of one direction, forward, with default activations.

    The input `sequence_lens` before the states must be absent. Absent initial states are zeros.
    """
    operator, states = OPERATORS[view.node.op_type], len(RECURRENT[view.node.op_type].states)
    known = {"direction", "hidden_size", "input_forget", "layout", *operator.attrs}
    if not {attribute.name for attribute in view.node.attribute} <= known:
        raise Unreadable("attributes")
    if view.text("direction", "forward") != "forward" or view.integer("input_forget", 0) or view.integer("layout", 0):
        raise Unreadable("direction")
    shape = view.shape(2)
    if shape is None or len(shape) != 3 or view.integer("hidden_size", -1) not in (-1, shape[2]):
        raise Unreadable("hidden size")
    padded = view.inputs + (None,) * (5 + states - len(view.inputs))
    if len(padded) > 5 + states or padded[4] is not None or None in padded[:3]:  # the last input would be peepholes
        raise Unreadable("inputs")
    begun = tuple(state or _zero_state(view, shape[2]) for state in padded[5:])
    return Canonical(operator.name, (*padded[:4], *begun), {name: view.integer(name, 0) for name in operator.attrs})


def _zero_state(view: NodeView, hidden: Size) -> Term:
    """Return the initial state that an absent input stands for."""
    shape, dtype = view.shape(0), view.dtype(0)
    if shape is None or len(shape) != 3 or not isinstance(shape[1], int) or dtype is None:
        raise Unreadable("batch size")
    return make("Zeros", (), {"shape": (1, shape[1], hidden)}, dtype)


def _one_hot(view: NodeView) -> Canonical:
    """Read the depth, a constant input between the operands. The axis is one of the result."""
    depth = view.integer_input(1)
    if depth is None or depth < 1 or len(view.inputs) != 3:
        raise Unreadable("depth")
    (axis,) = negative([view.integer("axis", -1)], view.rank + 1)
    return Canonical("OneHot", (view.inputs[0], view.inputs[2]), {"axis": axis, "depth": depth})


def _quantization(view: NodeView) -> dict[str, Attr]:
    """Read the axis, which is without effect if the scale is one number. Blocks of an axis have no definition here."""
    scale, axis = view.shape(1), view.integer("axis", 1)
    if scale is None:
        raise Unreadable("scale")
    check_rest(view, OPERATORS[view.node.op_type])
    return {"axis": -1 if scale in ((), (1,)) else negative([axis], view.rank)[0]}


def _multi_head_attention(view: NodeView) -> Canonical:
    shape = view.shape(0)
    return _attention(view, 4, None if shape is None else shape[-1])


def _packed_attention(view: NodeView) -> Canonical:
    shape = view.shape(1)
    return _attention(view, 3, None if shape is None else floor_div(shape[-1], 3))


def _attention(view: NodeView, operands: int, width: Size | None) -> Canonical:
    """Read the first operands, and what is added to the scores, the sixth input; those between and after are refused.

    An absent scale is 1 / sqrt(width of a head) in float32, as ONNX Runtime computes it; `width` is that of all heads.
    """
    inputs, heads = view.inputs, view.integer("num_heads", 1)
    if len(inputs) > 6 or any(one is not None for one in inputs[operands:5]):
        raise Unreadable("inputs")
    form = import_derived(dataclasses.replace(view, inputs=inputs[:operands]), OPERATORS[view.node.op_type])
    scale = view.real("scale", 0.0)
    if not scale:
        if not isinstance(width, int) or width < heads or heads < 1:
            raise Unreadable("scale")
        scale = float(np.float32(1) / np.sqrt(np.float32(width // heads)))
    return Canonical(form.op, (*inputs[:operands], *inputs[5:]), {**form.attrs, "scale": scale})


def _rotary(view: NodeView) -> dict[str, Attr]:
    """Read the number of heads, 0 if it is absent. Positions, and a part that is not rotated, have no definition."""
    attrs: dict[str, Attr] = {"interleaved": view.flag("interleaved"), "num_heads": view.integer("num_heads", 0)}
    if view.integer("rotary_embedding_dim", 0) or len(view.inputs) != 3:
        raise Unreadable("positions")
    check_rest(view, OPERATORS["RotaryEmbedding"])
    return attrs


# By operator type; operators of other domains are called domain::type.
IMPORTERS: Mapping[str, Importer] = {
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Celu": _celu,
    "Clip": _clip,
    "ConstantOfShape": constant_of_shape,
    "DequantizeLinear": _quantization,
    "Flatten": flatten,
    "Gather": gather,
    "GatherND": gather_nd,
    "LogSoftmax": _softmax,
    "com.microsoft::Attention": _packed_attention,
    "com.microsoft::MultiHeadAttention": _multi_head_attention,
    "OneHot": _one_hot,
    "Pad": pad,
    "QuantizeLinear": _quantization,
    "Range": integer_range,
    "Reshape": reshape,
    "Resize": resize,
    "RotaryEmbedding": _rotary,
    "Slice": slice_of,
    "Softmax": _softmax,
    "Split": split,
    "Squeeze": squeeze,
    "Trilu": _trilu,
    "Unsqueeze": unsqueeze,
    "Upsample": upsample,
    **dict.fromkeys(RECURRENT, _recurrent),
}
