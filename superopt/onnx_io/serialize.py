"""Serialization of a model in parts: protobuf's own needs three times the memory of a model with large weights."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from google.protobuf.message import Message

from superopt.onnx_io.skeleton import copy_fields

__all__ = ["serialized"]

_LENGTH_DELIMITED = 2  # wire type of messages in the encoding of protobuf


def serialized(model: onnx.ModelProto) -> Iterator[bytes]:
    """Yield the bytes of `model.SerializeToString()` in parts: one for each initializer, and what is around them."""
    model_before, model_after = _around(model, "graph")
    if not model.HasField("graph"):
        yield model_before + model_after
        return
    graph = model.graph
    graph_before, graph_after = _around(graph, "initializer")
    in_graph, in_model = (_tag(message, name) for message, name in ((graph, "initializer"), (model, "graph")))
    sizes = [tensor.ByteSize() for tensor in graph.initializer]
    heads = [in_graph + _varint(size) for size in sizes]
    size = len(graph_before) + len(graph_after) + sum(map(len, heads)) + sum(sizes)
    yield model_before + in_model + _varint(size) + graph_before
    for head, tensor in zip(heads, graph.initializer, strict=True):
        yield head
        yield tensor.SerializeToString()
    yield graph_after + model_after


def _around(message: Message, name: str) -> tuple[bytes, bytes]:
    """Return the serialized fields before and after the field `name`: fields are in the order of their numbers."""
    fields = message.DESCRIPTOR.fields
    middle = message.DESCRIPTOR.fields_by_name[name].number
    found: list[bytes] = []
    for left_out in (
        {field.name for field in fields if field.number >= middle},
        {field.name for field in fields if field.number <= middle},
    ):
        part = type(message)()
        copy_fields(message, part, left_out)
        found.append(part.SerializeToString())
    return found[0], found[1]


def _tag(message: Message, name: str) -> bytes:
    return _varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | _LENGTH_DELIMITED)


def _varint(value: int) -> bytes:
    """Return a number in groups of 7 bits, the lowest first; all but the last have the highest bit set."""
    groups: list[int] = []
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*groups, value])
