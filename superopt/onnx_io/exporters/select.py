"""Operators that pick elements by position."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter, front_axes
from superopt.onnx_io.model import ModelError

__all__ = ["EMITTERS"]


def _gather(e: Emission) -> list[onnx.NodeProto]:
    e.inputs.append(e.constants(np.array(e.attrs["indices"], np.int64), "int64"))
    return e.node(axis=front_axes(e.term, [e.attrs["axis"]], e.opset)[0])


def _trilu(e: Emission) -> list[onnx.NodeProto]:
    e.needs(14)
    if e.attrs["k"] != 0:
        e.scalar(e.attrs["k"], "int64")
    return e.node(upper=e.attrs["upper"])


def _resize(e: Emission) -> list[onnx.NodeProto]:
    """Upsample is Resize's name before opset 10."""
    rank = e.term.type.rank if e.term.type is not None else None
    if rank is None:
        raise ModelError("Resize: rank not known")
    scales = [1.0] * (rank - len(e.attrs["scales"])) + [float(scale) for scale in e.attrs["scales"]]
    if e.opset < 9:
        return e.node("Upsample", mode="nearest", scales=scales)
    if 11 <= e.opset < 13:
        e.inputs.append(e.constants(np.zeros(0, np.float32), "float"))  # the region, which may not be left out
    elif e.opset >= 13:
        e.inputs.append("")
    e.inputs.append(e.constants(np.array(scales, np.float32), "float"))
    if e.opset < 11:
        return e.node("Upsample" if e.opset < 10 else "Resize", mode="nearest")
    return e.node(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


def _cumsum(e: Emission) -> list[onnx.NodeProto]:
    e.needs(11)
    e.scalar(front_axes(e.term, [e.attrs["axis"]], e.opset)[0], "int64")
    return e.node(exclusive=e.attrs["exclusive"], reverse=e.attrs["reverse"])


EMITTERS: Mapping[str, Emitter] = {
    "Gather": _gather,
    "Trilu": _trilu,
    "Resize": _resize,
    "CumSum": _cumsum,
}
