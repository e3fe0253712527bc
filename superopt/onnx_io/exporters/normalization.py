"""Normalisation."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter, front_axes, reals
from superopt.onnx_io.model import ModelError

__all__ = ["EMITTERS"]

_SINCE = {"GroupNormalization": 21, "LayerNormalization": 17, "RMSNormalization": 23}


def _normalization(e: Emission) -> list[onnx.NodeProto]:
    e.needs(_SINCE.get(e.term.op, 7))
    return e.node(**reals(e.attrs, "epsilon"))


def _softmax(e: Emission) -> list[onnx.NodeProto]:
    """Before opset 13 all axes from `axis` on are one, which is the same where those after it have size 1."""
    axis = e.attrs["axis"]
    if e.opset >= 13:
        return e.node(axis=axis)
    shape = e.term.type.shape if e.term.type is not None else None
    if axis != -1 and (shape is None or any(size != 1 for size in shape[len(shape) + axis + 1 :])):
        raise ModelError(f"opset {e.opset} has no {e.term.op} over an axis in the middle")
    return e.node(axis=front_axes(e.term, [axis], e.opset)[0])


EMITTERS: Mapping[str, Emitter] = {
    **dict.fromkeys(("InstanceNormalization", *_SINCE), _normalization),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
}
