"""Types of the outputs of single nodes, by ONNX's shape inference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import TensorProto, helper, shape_inference

from superopt.ir.types import TensorType
from superopt.onnx_io.disputed_sizes import has_disputed_rank, has_disputed_sizes
from superopt.onnx_io.schemas import schema_of
from superopt.onnx_io.tensor_types import (
    has_shape,
    named_sizes,
    sizes_by_text,
    stated_shape,
    tensor_type,
    type_proto,
    without_sizes,
)

__all__ = ["infer_node", "node_types"]


def infer_node(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, onnx.TypeProto],
    values: Mapping[str, TensorProto],
) -> dict[str, onnx.TypeProto]:
    """Return the types of the outputs of a node of ONNX's own domain, as far as inference for it alone finds them.

    `types` are those of its inputs, `values` the values of some. Nothing is found for Einsum, for which inference has
    no end if its equation is damaged.
    """
    schema = schema_of(node.op_type, opset)
    if schema is None or node.op_type == "Einsum" or len(node.input) < schema.min_input:
        return {}
    try:
        found = shape_inference.infer_node_outputs(
            schema, node, dict(types), dict(values), opset_imports=[helper.make_opsetid("", opset)]
        )
    except (shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError, KeyError):
        return {}
    shapes = {name: named_sizes(type) for name, type in types.items() if has_shape(type)}
    if has_disputed_sizes(node, opset, shapes, values):
        rank = has_disputed_rank(node, opset, shapes)
        return {name: without_sizes(type, without_rank=rank) for name, type in found.items()}
    return dict(found)


def node_types(node: onnx.NodeProto, opset: int, inputs: Iterable[TensorType | None]) -> tuple[TensorType | None, ...]:
    """Return the types of the outputs of a node of ONNX's own domain, as far as the types of its inputs tell them."""
    given = {name: type for name, type in zip(node.input, inputs, strict=False) if type is not None}
    sizes = sizes_by_text(type.shape for type in given.values())
    protos = infer_node(node, opset, {name: type_proto(type.dtype, type.shape) for name, type in given.items()}, {})
    found = {name: (tensor_type(proto), stated_shape(proto, sizes)) for name, proto in protos.items()}
    types = (found.get(name, (None, None)) for name in node.output)
    return tuple(None if known is None else TensorType(known.dtype, shape) for known, shape in types)
