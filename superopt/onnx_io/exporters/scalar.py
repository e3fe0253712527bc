"""Scalar functions, element by element."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import onnx

from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io.exporters.emission import Emission, Emitter, reals
from superopt.onnx_io.model import ModelError

__all__ = ["EMITTERS"]

# The opset that brought the operator. (Gelu is older in another domain: see `contrib`.)
_SINCE = {
    "Erf": 9, "HardSwish": 14, "Mish": 18, "Celu": 12, "ThresholdedRelu": 10, "Sign": 9, "Round": 11,
    "LeakyRelu": 6, "HardSigmoid": 6, "Elu": 6, "Selu": 6
}  # fmt: skip


def _function(e: Emission) -> list[onnx.NodeProto]:
    e.needs(_SINCE[e.term.op])
    return e.node(**reals(e.attrs, "alpha", "beta", "gamma"))


def _pow(e: Emission) -> list[onnx.NodeProto]:
    types = {i.type.dtype for i in e.term.inputs if i is not None and i.type is not None}
    if e.opset < 12 and len(types) > 1:
        raise ModelError(f"opset {e.opset} has no Pow of two element types")
    return e.node()


def _extremum(e: Emission) -> list[onnx.NodeProto]:
    if e.opset < 8 and len({i.type for i in e.term.inputs if i is not None}) > 1:
        raise ModelError(f"{e.term.op} broadcasts from opset 8 on")
    return e.node()


def _clip(e: Emission) -> list[onnx.NodeProto]:
    low, high = float(e.attrs["bound_low"]), float(e.attrs["bound_high"])
    bounded = {name: end for name, end in (("min", low), ("max", high)) if math.isfinite(end)}
    if e.dtype not in FLOAT_DTYPES and any(end != int(end) for end in bounded.values()):
        raise ModelError(f"Clip of integers between {low} and {high}")
    if e.opset < 11:
        if e.dtype != "float":
            raise ModelError(f"opset {e.opset} has no Clip of {e.dtype}")
        if low > high:
            raise ModelError(f"Clip between {low} and {high}, which runtimes take from opset 11 on")
        attributes: dict[str, Any] = {**bounded}
        return e.node(**attributes)
    if "min" in bounded:
        e.scalar(low)
    elif "max" in bounded:
        e.inputs.append("")
    if "max" in bounded:
        e.scalar(high)
    return e.node()


EMITTERS: Mapping[str, Emitter] = {
    **dict.fromkeys(_SINCE, _function),
    **dict.fromkeys(("Min", "Max"), _extremum),
    "Pow": _pow,
    "Clip": _clip,
}
