"""Pooling."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter

__all__ = ["EMITTERS"]

_DILATIONS = {"MaxPool": 10, "AveragePool": 19}  # since which opset


def _pool(e: Emission) -> list[onnx.NodeProto]:
    if all(d == 1 for d in e.attrs["dilations"]):
        del e.attrs["dilations"]
    else:
        e.needs(_DILATIONS[e.term.op])
    return e.node(**e.attrs)


EMITTERS: Mapping[str, Emitter] = {"MaxPool": _pool, "AveragePool": _pool}
