"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter

__all__ = ["EMITTERS"]


def _einsum(e: Emission) -> list[onnx.NodeProto]:
    e.needs(12)
    return e.node(**e.attrs)


EMITTERS: Mapping[str, Emitter] = {"Einsum": _einsum}
