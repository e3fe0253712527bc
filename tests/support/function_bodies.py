"""The function bodies by which `onnx.defs` defines operators."""

from __future__ import annotations

import onnx
from onnx import helper, shape_inference

__all__ = ["has_body", "with_bodies"]

_DOMAIN = "bodies"


def has_body(op: str, opset: int) -> bool:
    """Return True if `onnx.defs` defines the operator of this opset by a function, for some attributes at least."""
    try:
        schema = onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def with_bodies(model: onnx.ModelProto, op: str) -> onnx.ModelProto | None:
    """The model with its nodes of this operator as calls of their function bodies, or None where they have none."""
    model = shape_inference.infer_shapes(model)
    types = {value.name: value.type for value in (*model.graph.input, *model.graph.value_info)}
    types |= {x.name: helper.make_tensor_type_proto(x.data_type, list(x.dims)) for x in model.graph.initializer}
    opset = next(opset.version for opset in model.opset_import if not opset.domain)
    if not has_body(op, opset):
        return None
    for node in model.graph.node:
        if node.op_type == op and not node.domain:
            body = _body(node, onnx.defs.get_schema(op, opset), types)
            body.domain, body.name = _DOMAIN, f"{op}_{len(model.functions)}"
            model.functions.append(body)
            node.domain, node.op_type = body.domain, body.name
    if not model.functions:  # it was written by other operators
        return None
    model.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    return model


def _body(node: onnx.NodeProto, schema: onnx.defs.OpSchema, types: dict[str, onnx.TypeProto]) -> onnx.FunctionProto:
    body = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        inputs = [types.get(name, onnx.TypeProto()).SerializeToString() for name in node.input]
        body.ParseFromString(schema.get_context_dependent_function(node.SerializeToString(), inputs))
    else:
        body.CopyFrom(schema.function_body)
    del body.input[len(node.input) :], body.output[len(node.output) :]
    given = {attribute.name for attribute in node.attribute}
    node.attribute.extend(
        attribute.default_value
        for name, attribute in schema.attributes.items()
        if name in body.attribute and name not in given and attribute.default_value.type
    )
    return body
