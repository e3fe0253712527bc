"""A model at another version of ONNX's operator set: the writer writes each operator in its form of that version."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

import onnx
from onnx import helper

from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term, topological
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.model import Model, ModelError
from superopt.onnx_io.node_order import LEAVES
from superopt.onnx_io.schemas import (
    DEFAULT_DOMAINS,
    FIRST_OPSET,
    OpSchema,
    schema_of,
    specification,
    standard_name,
    text_of,
)
from superopt.onnx_io.subgraphs import all_nodes, graphs_in

__all__ = ["NEWEST_OPSET", "at_opset"]

NEWEST_OPSET = onnx.defs.onnx_opset_version()
_OLD_IR_VERSION = 10  # has all that models of older opsets use
_CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})  # of these, versions with the same form differ in element types only


def at_opset(model: Model, opset: int) -> Model:
    """Return the model, to be written at version `opset`.

    Raises ModelError if a node that is copied as it is, because it is in a body or superopt has no definition of its
    form, has another form at that version, or none.
    """
    if not FIRST_OPSET <= model.opset <= NEWEST_OPSET:
        raise ModelError(f"the model's own opset {model.opset} is not one of {FIRST_OPSET} to {NEWEST_OPSET}")
    if model.skeleton.functions:
        raise ModelError("the model has functions of its own, which have opsets of their own; inline them first")
    for term, name in _opaque_types(model.outputs):
        if not _has_same_form(name, model.opset, opset):
            where = model.nodes[term].name if term in model.nodes else ""
            at = f" (node {where!r})" if where else ""
            change = "has another form" if schema_of(name, opset) is not None else "does not exist"
            raise ModelError(
                f"{name}{at} {change} at opset {opset}, unlike at {model.opset}, and superopt copies this node as it is"
            )
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(model.skeleton)
    for one in skeleton.opset_import:
        if one.domain in DEFAULT_DOMAINS:
            one.version = opset
    needed = helper.find_min_ir_version_for(list(skeleton.opset_import), ignore_unknown=True)
    if opset < model.opset:  # the runtimes that need an older opset do not read the newest files either
        skeleton.ir_version = min(skeleton.ir_version, _OLD_IR_VERSION)
    skeleton.ir_version = max(skeleton.ir_version, needed)
    return dataclasses.replace(model, skeleton=skeleton)


def _opaque_types(outputs: Iterable[Term]) -> Iterator[tuple[Term, str]]:
    """Yield the types of standard nodes that are copied as they are, those in bodies as well, and the terms of all."""
    for term in topological(outputs):
        if term.op in OPERATORS or term.op in LEAVES or term.op == "Out":
            continue
        name = standard_name(term.op)
        if name is not None:
            yield term, name
        for graph in graphs_in(unpack(term.attrs)):
            yield from ((term, node.op_type) for node in all_nodes(graph) if node.domain in DEFAULT_DOMAINS)


def _has_same_form(name: str, old: int, new: int) -> bool:
    one, other = schema_of(name, old), schema_of(name, new)
    if one is None or other is None:
        return False
    if one.since_version == other.since_version or (name in _CONTROL_FLOW and _form(one) == _form(other)):
        return True
    # A newer version may have more attributes, and values of them, that an older one lacks.
    return specification(name, old) == specification(name, new) if old < new else text_of(one) == text_of(other)


def _form(schema: OpSchema) -> tuple[object, ...]:
    sides = ([(one.name, one.option) for one in side] for side in (schema.inputs, schema.outputs))
    return sorted(schema.attributes), *sides
