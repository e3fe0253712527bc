"""Loading of files: bytes to a model protobuf, and its nodes in topological order. Errors are one line."""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import networkx as nx
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from superopt.onnx_io.external_data import load_external_data
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.subgraphs import captured, subgraphs

__all__ = ["load_proto", "parse_proto", "read_bytes", "reads", "sorted_nodes"]

_SHOWN_NODES = 8  # of a cycle, in the message about it
# What downloads leave in the place of a model, by the beginnings of the files.
_OTHER_FILES = {
    b"version https://git-lfs": "a pointer of Git LFS in the place of the model; fetch it by `git lfs pull`",
    b"<!doctype html": "a web page, not an ONNX model; download the file itself",
    b"<html": "a web page, not an ONNX model; download the file itself",
}


def load_proto(path: Path) -> onnx.ModelProto:
    """Return the model in the file `path`, with its external data (see `load_external_data`). Raises ModelError."""
    model = parse_proto(read_bytes(path), str(path))
    load_external_data(model, path)
    return model


def read_bytes(path: Path) -> bytes:
    """Return the content of the file `path`. Raises ModelError."""
    if str(path) == "-":
        raise ModelError("-: a model is read from a file, not from the standard input; name one")
    try:
        str(path).encode()
    except UnicodeEncodeError:  # runtimes take names that are text only
        raise ModelError(f"{path}: the file's name is not UTF-8; rename it") from None
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ModelError(f"{path}: is a directory, not an ONNX model")
        if not stat.S_ISREG(mode):  # reading may block, or never end
            raise ModelError(f"{path}: is a device, a pipe or a socket, not an ONNX model; name a file")
        return path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from None


def parse_proto(data: bytes, label: str) -> onnx.ModelProto:
    """Return the model in `data`, without its external data; `label` names it in errors. Raises ModelError."""
    if not data:
        raise ModelError(f"{label}: the file is empty")
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(data)
    except DecodeError:
        beginning = data[:100].lstrip().lower()
        said = (text for start, text in _OTHER_FILES.items() if beginning.startswith(start))
        what = next(said, "not an ONNX model, or a truncated one; export or copy it again")
        raise ModelError(f"{label}: {what}") from None
    if not _all_text(model):
        raise ModelError(f"{label}: not an ONNX model, or a damaged one (a name is not UTF-8); export or copy it again")
    if not model.HasField("graph"):
        raise ModelError(f"{label}: not an ONNX model, or a truncated one (it holds no graph); export or copy it again")
    return model


def _all_text(message: Message) -> bool:
    """Return True if all text in `message` is UTF-8; protobuf returns any other text as bytes."""
    stack: list[Message] = [message]
    while stack:
        for field, value in stack.pop().ListFields():
            values = [value] if isinstance(value, (str, bytes, Message)) else value
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                stack.extend(values)
            elif field.type == FieldDescriptor.TYPE_STRING and any(isinstance(text, bytes) for text in values):
                return False
    return True


def reads(node: onnx.NodeProto) -> list[str]:
    """Return the names of the tensors that `node` reads: its inputs, then those that its bodies capture, each once."""
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        names.extend(captured(graph))
    return names


def sorted_nodes(graph: onnx.GraphProto, label: str, around: Iterable[str] = ()) -> list[onnx.NodeProto]:
    """Return the nodes of `graph` in topological order, as close to their order in the file as possible.

    `around` are the outer tensors that a body may capture.

    Raises ModelError (its message begins with `label`) for a tensor that nothing defines or that is defined twice, and
    for a cycle.
    """
    dense = {tensor.name for tensor in graph.initializer}
    sparse = {tensor.values.name for tensor in graph.sparse_initializer}
    for name in dense & sparse:  # ONNX Runtime takes the sparse one
        raise ModelError(f"{label}: weight {name!r} is given twice, once as a sparse one")
    weights = (*graph.initializer, *(tensor.values for tensor in graph.sparse_initializer))
    for name, count in Counter(tensor.name for tensor in weights).items():
        if name and count > 1:  # ONNX Runtime takes the first one, and says that it takes the last
            raise ModelError(f"{label}: weight {name!r} is given twice; remove one of them")
    given = {value.name for value in graph.input} | dense | sparse
    given.update(around)
    nodes = list(graph.node)
    maker: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in node.output:
            if name and (name in maker or name in given):
                raise ModelError(f"{label}: tensor {name!r} is defined twice")
            maker[name] = index
    order: nx.DiGraph[int] = nx.DiGraph()
    order.add_nodes_from(range(len(nodes)))
    for index, node in enumerate(nodes):
        for name in reads(node):
            if name in maker:
                order.add_edge(maker[name], index)
            elif name not in given:
                raise ModelError(f"{label}: {_called(node)} reads tensor {name!r}, which nothing defines")
    for value in graph.output:
        if value.name not in maker and value.name not in given:
            raise ModelError(f"{label}: output {value.name!r} is a tensor that nothing defines")
    try:
        return [nodes[index] for index in nx.lexicographical_topological_sort(order)]
    except nx.NetworkXUnfeasible:
        cycle = [_called(nodes[index]) for index, _ in nx.find_cycle(order)]
        shown = [*cycle[:_SHOWN_NODES], "..."] if len(cycle) > _SHOWN_NODES else cycle
        raise ModelError(f"{label}: the graph has a cycle: {' -> '.join((*shown, cycle[0]))}") from None


def _called(node: onnx.NodeProto) -> str:
    return f"node {node.name!r} ({node.op_type})" if node.name else f"{node.op_type} node"
