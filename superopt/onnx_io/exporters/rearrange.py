"""Operators that give the same elements another shape or place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter
from superopt.onnx_io.model import ModelError

__all__ = ["EMITTERS"]


def _reshape(e: Emission) -> list[onnx.NodeProto]:
    zero: dict[str, Any] = {"allowzero": 1} if e.attrs["allowzero"] and 0 in e.attrs["shape"] else {}
    if zero:
        e.needs(14)
    e.parameter("shape", e.attrs["shape"], 5)
    return e.node(**zero)


def _expand(e: Emission) -> list[onnx.NodeProto]:
    e.needs(8)
    e.parameter("shape", e.attrs["shape"], 8)
    return e.node()


def _tile(e: Emission) -> list[onnx.NodeProto]:
    e.parameter("repeats", e.attrs["repeats"], 6)
    return e.node()


def _depth_to_space(e: Emission) -> list[onnx.NodeProto]:
    if e.opset >= 11:
        return e.node(**e.attrs)
    if e.attrs["mode"] != "DCR":
        raise ModelError(f"opset {e.opset} has no DepthToSpace with a mode")
    return e.node(blocksize=e.attrs["blocksize"])


EMITTERS: Mapping[str, Emitter] = {
    "Reshape": _reshape,
    "Expand": _expand,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
}
