"""Export of a term by its operator's schema and registered entry."""

from __future__ import annotations

from typing import Any

import onnx
from onnx import AttributeProto

from superopt.ir.infer import OPERATORS
from superopt.ir.operator import REAL_ATTRS, Operator
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.substitutes import substitute
from superopt.onnx_io.schemas import OpSchema, attribute_kind, first_opset, formal_input, is_extension, schema_of

__all__ = ["export_derived"]


def export_derived(e: NodeExport) -> list[onnx.NodeProto]:
    """Return the node of a term, or of its substitute in an opset that lacks the operator.

    Raises ModelError if there is none, or if the opset lacks one of the term's attributes.
    """
    operator = OPERATORS[e.term.op]
    if operator.domain or is_extension(operator.name, e.opset):
        reals = {name: float(value) for name, value in e.attrs.items() if _is_real(operator, name)}
        return [e.node(domain=operator.domain, **{**e.attrs, **reals})]
    schema = schema_of(operator.name, e.opset)
    if schema is None:
        if found := substitute(e.term):
            return [e.node(found.op, found.domain, **found.attributes)]
        raise ModelError(f"opset {e.opset} has no {operator.name} (new in {first_opset(operator.name)})")
    _check_operands(e, operator)
    attributes: dict[str, Any] = {}
    parameters: dict[int, str] = {}
    for name, value in e.attrs.items():
        stated = _from_front(e, operator, schema, name, value)
        index = formal_input(schema, name)
        if name in schema.attributes:
            attributes[name] = float(stated) if attribute_kind(schema, name) == AttributeProto.FLOAT else stated
        elif index is not None:
            parameters[index] = name
            e.attrs[name] = stated
        elif value != operator.defaults.get(name):
            raise ModelError(f"opset {e.opset} has no {operator.name} with {name} = {value}")
    for index, name in sorted(parameters.items()):
        optional = schema.inputs[index].option == OpSchema.FormalParameterOption.Optional
        if optional and name in operator.defaults and e.attrs[name] == operator.defaults[name]:
            continue
        e.inputs.extend([""] * (index - len(e.inputs)))
        e.append(e.attrs[name])
    return [e.node(**attributes)]


def _is_real(operator: Operator, name: str) -> bool:
    return name in REAL_ATTRS or isinstance(operator.defaults.get(name), float)


def _from_front(e: NodeExport, operator: Operator, schema: OpSchema, name: str, value: Any) -> Any:
    """Return the attribute with axes counted from the front, unless ONNX's own default counts from the end."""
    if name == "axes":
        return e.front_axes(value)
    if name != "axis" or ("axis" in schema.attributes and schema.attributes["axis"].default_value.i < 0):
        return value
    return e.front_axes([value])[0]


def _check_operands(e: NodeExport, operator: Operator) -> None:
    """Raise ModelError if operands have shapes that only a newer opset allows."""
    types = {term.type for term in e.term.inputs if term is not None}
    if e.opset < 8 and operator.inputs[1] is None and operator.elementwise and len(types) > 1:
        raise ModelError(f"opset {e.opset} has no {operator.name} that broadcasts (new in 8)")
