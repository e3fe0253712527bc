"""Reductions over named axes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter, front_axes

__all__ = ["EMITTERS"]


def _reduce(e: Emission) -> list[onnx.NodeProto]:
    since = 13 if e.term.op == "ReduceSum" else 18  # when the axes became an input
    axes = e.parameter("axes", front_axes(e.term, e.attrs["axes"], e.opset), since)
    return e.node(keepdims=e.attrs["keepdims"], **axes)


_NAMES = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
    "ReduceLogSum", "ReduceLogSumExp",
)  # fmt: skip
EMITTERS: Mapping[str, Emitter] = dict.fromkeys(_NAMES, _reduce)
