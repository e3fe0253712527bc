"""Fused operators of ONNX Runtime's own domain, com.microsoft."""

from __future__ import annotations

import math
from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.importers.standard import READERS as STANDARD
from superopt.onnx_io.importers.view import NodeView, Reader, Row, Unreadable, negative, plain, rank

__all__ = ["ACTIVATION_PARAMETERS", "READERS"]

# The activations that may be fused, and how many parameters each has.
ACTIVATION_PARAMETERS = {"Relu": 0, "Sigmoid": 0, "Tanh": 0, "LeakyRelu": 1, "HardSigmoid": 2, "Clip": 2}


def _names(view: NodeView) -> set[str]:
    return {attribute.name for attribute in view.node.attribute}


def _activation(name: str, parameters: list[float]) -> dict[str, Attr]:
    if ACTIVATION_PARAMETERS.get(name) != len(parameters) or any(map(math.isnan, parameters)):
        raise Unreadable("activation")
    alpha, beta = (*parameters, 0.0, 0.0)[:2]
    return {"activation": name, "activation_alpha": float(alpha), "activation_beta": float(beta)}


def _fused_matmul(view: NodeView) -> dict[str, Attr] | None:
    if view.integer("transBatchA", 0) or view.integer("transBatchB", 0):
        return None
    turned = {name: int(view.integer(name, 0) != 0) for name in ("transA", "transB")}
    return {"alpha": view.real("alpha", 1.0), **turned}


def _fused_conv(view: NodeView) -> dict[str, Attr] | None:
    attrs = STANDARD["Conv"].read(view)
    given = [list(attribute.floats) for attribute in view.node.attribute if attribute.name == "activation_params"]
    return attrs and {**attrs, **_activation(view.text("activation", ""), given[0] if given else [])}


def _fused_gemm(view: NodeView) -> dict[str, Attr] | None:
    attrs, name = STANDARD["Gemm"].read(view), view.text("activation", "")
    wanted = ("activation_alpha", "activation_beta")[: ACTIVATION_PARAMETERS.get(name, 0)]
    if attrs is None or name == "Clip" or not {*wanted} <= _names(view):
        return None
    return {**attrs, **_activation(name, [view.real(parameter, 0.0) for parameter in wanted])}


def _quick_gelu(view: NodeView) -> dict[str, Attr] | None:
    return {"alpha": view.real("alpha", 1.702)}


def _gelu(view: NodeView) -> dict[str, Attr] | None:
    return {"approximate": "none"}


def _skip(view: NodeView) -> dict[str, Attr] | None:
    return {"epsilon": view.real("epsilon", 1e-12)}


def _simplified(view: NodeView) -> dict[str, Attr] | None:
    if view.integer("stash_type", 1) != 1:
        return None
    (axis,) = negative([view.integer("axis", -1)], rank(view))
    return {"axis": axis, "epsilon": view.real("epsilon", 1e-5)}


def _plain_attention(*integers: str) -> Reader:
    """Without masks and a past; a `scale` of 0 is the default to ONNX Runtime too."""

    def read(view: NodeView) -> dict[str, Attr] | None:
        known = {"num_heads", "scale", "mask_filter_value", *integers}
        if view.integer("num_heads", 0) < 1 or any(view.integer(name, 0) for name in integers):
            return None
        if not _names(view) <= known:
            return None
        return {"num_heads": view.integer("num_heads", 0), "scale": view.real("scale", 0.0)}

    return read


READERS: Mapping[str, Row] = {
    "com.microsoft::FusedMatMul": Row(2, 2, _fused_matmul),
    "com.microsoft::FusedConv": Row(2, 4, _fused_conv, gaps=True),
    "com.microsoft::FusedGemm": Row(2, 3, _fused_gemm),
    "com.microsoft::Gelu": Row(1, 1, _gelu, op="Gelu"),
    "com.microsoft::BiasGelu": Row(2, 2, plain),
    "com.microsoft::FastGelu": Row(1, 2, plain),
    "com.microsoft::QuickGelu": Row(1, 1, _quick_gelu),
    "com.microsoft::SkipLayerNormalization": Row(3, 5, _skip, gaps=True),
    "com.microsoft::SkipSimplifiedLayerNormalization": Row(3, 4, _skip),
    "SimplifiedLayerNormalization": Row(2, 2, _simplified),
    "com.microsoft::MultiHeadAttention": Row(3, 3, _plain_attention("unidirectional")),
    "com.microsoft::Attention": Row(3, 3, _plain_attention("unidirectional", "do_rotary", "past_present_share_buffer")),
}
