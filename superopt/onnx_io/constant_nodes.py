"""Nodes that hold a tensor."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper

from superopt.onnx_io.schemas import DEFAULT_DOMAINS

__all__ = ["CONSTANT", "constant_node", "is_constant_node"]

CONSTANT = "Constant"  # their type


def is_constant_node(node: onnx.NodeProto) -> bool:
    """Return True for a node that holds a tensor."""
    return node.op_type == CONSTANT and node.domain in DEFAULT_DOMAINS


def constant_node(tensor: TensorProto, output: str, name: str) -> onnx.NodeProto:
    """Return a node called `name` that holds the tensor."""
    return helper.make_node(CONSTANT, [], [output], name=name, value=tensor)
