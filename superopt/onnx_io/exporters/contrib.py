"""Fused operators of ONNX Runtime's own domain, com.microsoft."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter, reals
from superopt.onnx_io.importers.contrib import ACTIVATION_PARAMETERS

__all__ = ["EMITTERS"]

_DOMAIN = "com.microsoft"


def _fused(e: Emission) -> list[onnx.NodeProto]:
    return e.node(domain=_DOMAIN, **reals(e.attrs, "alpha", "beta", "epsilon"))


def _activated(e: Emission) -> list[onnx.NodeProto]:
    pair = float(e.attrs.pop("activation_alpha")), float(e.attrs.pop("activation_beta"))
    parameters = pair[: ACTIVATION_PARAMETERS[e.attrs["activation"]]]
    if e.term.op == "FusedGemm":
        e.attrs.update(zip(("activation_alpha", "activation_beta"), parameters, strict=False))
    elif parameters:
        e.attrs["activation_params"] = parameters
    return e.node(domain=_DOMAIN, **reals(e.attrs, "alpha", "beta"))


def _attention(e: Emission) -> list[onnx.NodeProto]:
    if not e.attrs["scale"]:
        del e.attrs["scale"]
    return e.node(domain=_DOMAIN, **reals(e.attrs, "scale"))


def _simplified(e: Emission) -> list[onnx.NodeProto]:
    """ONNX Runtime has it in the standard domain, of which it is no part."""
    return e.node(**reals(e.attrs, "epsilon"))


def _gelu(e: Emission) -> list[onnx.NodeProto]:
    if e.opset < 20 and e.attrs["approximate"] == "none":
        return e.node(domain=_DOMAIN)
    e.needs(20)
    return e.node(**e.attrs)


EMITTERS: Mapping[str, Emitter] = {
    **dict.fromkeys(("FusedMatMul", "BiasGelu", "FastGelu", "QuickGelu"), _fused),
    **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), _fused),
    **dict.fromkeys(("FusedConv", "FusedGemm"), _activated),
    **dict.fromkeys(("MultiHeadAttention", "Attention"), _attention),
    "SimplifiedLayerNormalization": _simplified,
    "Gelu": _gelu,
}
