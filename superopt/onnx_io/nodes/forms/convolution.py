"""Convolution and pooling: attributes of windows that versions and runtimes treat differently."""

from __future__ import annotations

import onnx
from onnx import helper

from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.forms.registry import exporter
from superopt.onnx_io.nodes.node_export import NodeExport


@exporter("Conv")
def export_conv(e: NodeExport) -> list[onnx.NodeProto]:
    """Write the kernel's shape as well, as exporters of models do; some runtimes need it."""
    weight = e.term.inputs[1]
    kernel = weight.type.concrete() if weight is not None and weight.type else None
    (node,) = export_derived(e)
    if kernel is not None:
        node.attribute.append(helper.make_attribute("kernel_shape", kernel[2:]))
    return [_sorted(node)]


def _sorted(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the node with its attributes in alphabetical order."""
    attributes = sorted(node.attribute, key=lambda attribute: str(attribute.name))
    del node.attribute[:]
    node.attribute.extend(attributes)
    return node


@exporter("AveragePool", "MaxPool")
def export_pool(e: NodeExport) -> list[onnx.NodeProto]:
    """Leave out dilations of 1: pooling has dilations only since opset 10 (MaxPool) and 19 (AveragePool)."""
    if all(d == 1 for d in e.attrs["dilations"]):
        del e.attrs["dilations"]
    return export_derived(e)
