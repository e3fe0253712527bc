"""Parts of a file that do not affect its results, kept to be written again."""

from __future__ import annotations

from collections.abc import Iterable, Set

import onnx
from google.protobuf.message import Message

from superopt.ir.term import Term

__all__ = ["copy_fields", "node_notes", "skeleton_of"]

_MEANING = frozenset({"input", "output", "op_type", "domain", "overload", "attribute"})  # of a node; the rest is notes


def skeleton_of(proto: onnx.ModelProto, inputs: Iterable[Term]) -> onnx.ModelProto:
    """Return the file without nodes and weights; default values of `inputs` stay."""
    kept = onnx.ModelProto()
    copy_fields(proto, kept, {"graph"})
    copy_fields(proto.graph, kept.graph, {"node", "initializer", "sparse_initializer"})
    names = {str(term.attr("name")) for term in inputs}
    kept.graph.initializer.extend(t for t in proto.graph.initializer if t.name in names)
    kept.graph.sparse_initializer.extend(t for t in proto.graph.sparse_initializer if t.values.name in names)
    kept.graph.SetInParent()
    return kept


def node_notes(node: onnx.NodeProto) -> onnx.NodeProto:
    """Return the name and notes of a node."""
    notes = onnx.NodeProto()
    copy_fields(node, notes, _MEANING)
    return notes


def copy_fields(source: Message, target: Message, left_out: Set[str]) -> None:
    """Copy the fields that are set. These messages have only numbers, text and lists."""
    for field, value in source.ListFields():
        if field.name not in left_out:
            if isinstance(value, (str, bytes, int, float)):
                setattr(target, field.name, value)
            else:
                getattr(target, field.name).MergeFrom(value)
