"""Truth values, comparisons, and conversions between element types."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter

__all__ = ["EMITTERS"]

# The opset that brought the operator.
_SINCE = {"Where": 9, "LessOrEqual": 12, "GreaterOrEqual": 12}


def _function(e: Emission) -> list[onnx.NodeProto]:
    e.needs(_SINCE[e.term.op])
    return e.node()


def _cast(e: Emission) -> list[onnx.NodeProto]:
    return e.node(to=onnx.TensorProto.DataType.Value(e.attrs["to"].upper()))


EMITTERS: Mapping[str, Emitter] = {**dict.fromkeys(_SINCE, _function), "Cast": _cast}
