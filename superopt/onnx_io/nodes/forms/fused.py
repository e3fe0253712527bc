"""Activations that ONNX Runtime's own operators apply to their results."""

from __future__ import annotations

import onnx

from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.forms.registry import exporter
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.properties import fused_activations


@exporter("FusedConv")
def export_conv(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the activation's parameters as one list, or none if the activation has none."""
    if parameters := _activation_parameters(e):
        e.attrs["activation_params"] = parameters
    return export_derived(e)


@exporter("FusedGemm")
def export_gemm(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the activation's parameters as attributes, as many as it has."""
    e.attrs.update(zip(("activation_alpha", "activation_beta"), _activation_parameters(e), strict=False))
    return export_derived(e)


def _activation_parameters(e: NodeExport) -> tuple[float, ...]:
    pair = float(e.attrs.pop("activation_alpha")), float(e.attrs.pop("activation_beta"))
    return pair[: fused_activations(e.term.op)[e.attrs["activation"]]]
