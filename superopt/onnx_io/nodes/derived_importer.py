"""Import of a node by its operator's schema and registered entry.

The value of an attribute of the entry is that of the node's attribute, of the constant input with the same name in the
schema, or the default. If the node has any other attribute or input that has an effect, it stays opaque.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import AttributeProto, helper

from superopt.ir.operator import REAL_ATTRS, IllTyped, Operator, ignore
from superopt.ir.term import Attr, Term
from superopt.onnx_io.nodes.by_attribute import GROUPS, check_attributes
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable, distinct, negative
from superopt.onnx_io.schemas import attribute_kind, formal_input

__all__ = ["check_rest", "import_derived", "operands_of"]

# Attributes without effect here: they concern training, the second output of MaxPool, and masks.
_WITHOUT_EFFECT = frozenset({"mask_filter_value", "momentum", "storage_order"})
# Neutral values of attributes without a schema, which belong to ONNX Runtime's own operators.
_NEUTRAL: Mapping[str, Any] = {
    "do_rotary": 0, "past_present_share_buffer": 0, "stash_type": 1, "transBatchA": 0, "transBatchB": 0,
    "unidirectional": 0,
}  # fmt: skip
# Kinds of ONNX Runtime's attributes with neither a schema nor a default.
_REQUIRED: Mapping[str, Any] = {"activation": AttributeProto.STRING, "num_heads": AttributeProto.INT}


def import_derived(view: NodeView, operator: Operator) -> Canonical:
    """Return the node in canonical form. Raises Unreadable if it has none."""
    operands = operands_of(view, operator)
    if "keepdims" in operator.attrs and _reduces_nothing(view, operator):
        return Canonical("Identity", operands, {})
    attrs: dict[str, Attr] = {}
    for name, read_group in GROUPS.items():
        if name in operator.attrs:
            found = read_group(view, operator.attrs)
            attrs.update((key, value) for key, value in found.items() if key in operator.attrs)
    for name in operator.attrs:
        if name not in attrs:
            attrs[name] = _attribute(view, operator, name)
    check_attributes(view, attrs)
    check_rest(view, operator)
    return Canonical(operator.name, operands, attrs)


def operands_of(view: NodeView, operator: Operator) -> tuple[Term | None, ...]:
    """Return the inputs that are operands: the first ones, as many as the operator takes."""
    least, most = operator.inputs
    operands = view.inputs[:most]
    if len(operands) < least or None in (operands if most is None else operands[:least]):
        raise Unreadable("operands")
    return operands


def _attribute(view: NodeView, operator: Operator, name: str) -> Attr:
    index = None if view.schema is None else formal_input(view.schema, name)
    default = _default(view, operator, name)
    value: Attr | None
    if index is None:
        value = _stated(view, operator, name, default)
    elif isinstance(default, int) or name == "axis":
        value = view.integer_input(index)
    else:
        value = view.list_input(index)
    value = default if value is None else value
    if name == "axes" and "keepdims" in operator.attrs:
        value = value or tuple(range(view.rank))  # no axis is all of them
    if isinstance(value, int) and name == "axis":
        return negative([value], _rank(view, operator))[0]
    if isinstance(value, tuple) and name == "axes":
        return tuple(sorted(distinct(negative([axis for axis in value if isinstance(axis, int)], view.rank))))
    if value is None:
        raise Unreadable(name)
    return value


def _stated(view: NodeView, operator: Operator, name: str, default: Attr | None) -> Attr | None:
    """Return the attribute of the node, or None if it is absent."""
    if view.schema is not None and name in view.schema.attributes:
        kind = attribute_kind(view.schema, name)
    elif view.schema is not None:
        return None
    elif isinstance(default, float) or name in REAL_ATTRS:
        kind = AttributeProto.FLOAT
    elif default is not None:
        kind = AttributeProto.INT if isinstance(default, int) else AttributeProto.STRING
    else:
        stated = next((a.type for a in view.node.attribute if a.name == name), AttributeProto.UNDEFINED)
        kind = _REQUIRED.get(name, stated)
    return _plain(view.attribute(name, kind, None))


def _default(view: NodeView, operator: Operator, name: str) -> Attr | None:
    """Return the schema's default, or the entry's as the float32 that a file would hold."""
    if view.schema is not None and name in view.schema.attributes:
        stated = view.schema.attributes[name].default_value
        if stated.type != AttributeProto.UNDEFINED:
            return _plain(helper.get_attribute_value(stated))
    default = operator.defaults.get(name)
    return view.real("", default) if isinstance(default, float) else default


def _plain(value: Any) -> Attr | None:
    """Return an attribute's value as the terms hold it. Raises Unreadable for tensors, graphs and the like."""
    if value is None or isinstance(value, (int, float, str)):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, list):
        return tuple(item for item in map(_plain, value) if item is not None)
    raise Unreadable("attribute")


def _rank(view: NodeView, operator: Operator) -> int:
    """Return the rank for counting an axis: the first operand's, or, with any number of operands, that of all."""
    if operator.inputs[1] is not None:
        return view.rank
    shapes = [*map(view.shape, range(len(view.inputs))), view.out_shape]
    rank = next((len(shape) for shape in shapes if shape is not None), None)
    if rank is None:
        raise Unreadable("rank")
    return rank


def _reduces_nothing(view: NodeView, operator: Operator) -> bool:
    """Return True for a reduction over no axis, by `noop_with_empty_axes`.

    Raises Unreadable if the entry's type rule says that such a reduction is no identity (ReduceLogSum is then Log).
    """
    if view.schema is None or "noop_with_empty_axes" not in view.schema.attributes:
        return False
    if not view.integer("noop_with_empty_axes", 0) or view.parameter("axes"):
        return False
    try:
        operator.shape_rule([()], {"axes": (), "keepdims": 1}, ignore)
    except IllTyped as error:
        raise Unreadable("axes") from error
    return True


def check_rest(view: NodeView, operator: Operator) -> None:
    """Raise Unreadable if the node states something that was not read and may have an effect."""
    schema = view.schema
    for index in range(operator.inputs[1] or len(view.inputs), len(view.inputs)):
        known = schema is not None and index < len(schema.inputs) and schema.inputs[index].name in operator.attrs
        if not known and view.inputs[index] is not None:
            raise Unreadable(f"input {index}")
    for attribute in view.node.attribute:
        if attribute.name in view.used or attribute.name in _WITHOUT_EFFECT:
            continue
        if schema is None:
            neutral = _NEUTRAL.get(attribute.name)
        elif attribute.name in schema.attributes:
            neutral = _value(schema.attributes[attribute.name].default_value)
        else:
            neutral = None
        if neutral is None or _value(attribute) != neutral:
            raise Unreadable(attribute.name)


def _value(attribute: onnx.AttributeProto) -> Any:
    return None if attribute.type == AttributeProto.UNDEFINED else helper.get_attribute_value(attribute)
