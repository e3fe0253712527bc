"""A model at another version of ONNX's operator set: the writer writes each operator in its form of that version."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator

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
from superopt.onnx_io.subgraph_reader import BodyKey, read_bodies
from superopt.onnx_io.subgraph_writer import replace_bodies, write_body
from superopt.onnx_io.subgraphs import all_nodes, graphs_in

__all__ = ["NEWEST_OPSET", "at_opset"]

NEWEST_OPSET = onnx.defs.onnx_opset_version()
_OLD_IR_VERSION = 10  # has all that models of older opsets use
_CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})  # of these, versions with the same form differ in element types only


def at_opset(model: Model, opset: int) -> Model:
    """Return the model, to be written at version `opset`.

    A body of If, Loop or Scan is read and written as a model of its own if one of its nodes has another form at that
    version. Raises ModelError if a node that is copied as it is has another form there, or none: one that superopt has
    no definition of in this form, or one in a body that cannot be read.
    """
    if not FIRST_OPSET <= model.opset <= NEWEST_OPSET:
        raise ModelError(f"the model's own opset {model.opset} is not one of {FIRST_OPSET} to {NEWEST_OPSET}")
    if model.skeleton.functions:
        raise ModelError("the model has functions of its own, which have opsets of their own; inline them first")
    bodies = {
        body.key: write_body(body, at_opset(body.model, opset))
        for body in read_bodies(model)
        if not all(_has_same_form(name, model.opset, opset) for name in _types_in(body.graph))
    }
    for term, name, is_in_body in _opaque_types(model.outputs, bodies):
        if not _has_same_form(name, model.opset, opset):
            called = model.nodes[term].name if term in model.nodes else ""
            at = f" (node {called!r})" if called else ""
            where = f"{name} in a body of {standard_name(term.op) or term.op}{at}" if is_in_body else f"{name}{at}"
            change = "has another form" if schema_of(name, opset) is not None else "does not exist"
            reason = "this body is copied as it is" if is_in_body else "superopt has no definition of it in this form"
            raise ModelError(f"{where} {change} at opset {opset}, unlike at {model.opset}, and {reason}")
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(model.skeleton)
    for one in skeleton.opset_import:
        if one.domain in DEFAULT_DOMAINS:
            one.version = opset
    needed = helper.find_min_ir_version_for(list(skeleton.opset_import), ignore_unknown=True)
    if opset < model.opset:  # the runtimes that need an older opset do not read the newest files either
        skeleton.ir_version = min(skeleton.ir_version, _OLD_IR_VERSION)
    skeleton.ir_version = max(skeleton.ir_version, needed)
    return dataclasses.replace(replace_bodies(model, bodies), skeleton=skeleton)


def _opaque_types(outputs: Iterable[Term], converted: Container[BodyKey]) -> Iterator[tuple[Term, str, bool]]:
    """Yield the terms and types of standard nodes that are copied as they are; True for those in a body of the term."""
    for term in topological(outputs):
        if term.op in OPERATORS or term.op in LEAVES or term.op == "Out":
            continue
        name = standard_name(term.op)
        if name is not None:
            yield term, name, False
        number = dict(term.attrs).get("node")
        for attribute in unpack(term.attrs):
            if not isinstance(number, int) or (number, attribute.name) not in converted:
                yield from ((term, type, True) for graph in graphs_in([attribute]) for type in _types_in(graph))


def _types_in(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the types of the standard nodes in a graph and in the bodies inside it."""
    return (node.op_type for node in all_nodes(graph) if node.domain in DEFAULT_DOMAINS)


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
