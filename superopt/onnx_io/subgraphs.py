"""Graphs inside nodes (the bodies of If, Loop and Scan), and the outer tensors that they read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

__all__ = ["all_nodes", "captured", "graphs_in", "local_names", "rename_captured", "subgraphs"]


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of `graph` and of all graphs nested in it."""
    for node in graph.node:
        yield node
        for inner in subgraphs(node):
            yield from all_nodes(inner)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs among the attributes of `node`."""
    return graphs_in(node.attribute)


def graphs_in(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.GraphProto]:
    """Yield all graphs that `attributes` hold."""
    for attribute in attributes:
        yield from attribute_graphs(attribute)


def attribute_graphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    """Yield the graphs that an attribute holds."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _defined(graph: onnx.GraphProto) -> set[str]:
    names = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    names |= {sparse.values.name for sparse in graph.sparse_initializer}
    for node in graph.node:
        names.update(node.output)
    return names


def captured(graph: onnx.GraphProto) -> list[str]:
    """Return the names that `graph`, or a graph nested in it, reads from outside, in order of first use."""
    defined = _defined(graph)
    found: dict[str, None] = {}
    for node in graph.node:
        found.update((name, None) for name in node.input if name and name not in defined)
        for inner in subgraphs(node):
            found.update((name, None) for name in captured(inner) if name not in defined)
    found.update((value.name, None) for value in graph.output if value.name and value.name not in defined)
    return list(found)


def needed(graph: onnx.GraphProto) -> set[str]:
    """Return the names of the tensors of which the outputs of `graph` are computed. Its nodes must be sorted."""
    found = {value.name for value in graph.output}
    for node in reversed(graph.node):
        if not found.isdisjoint(node.output):
            found.update(node.input)
            for inner in subgraphs(node):
                found.update(captured(inner))
    return found


def local_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that `graph` or a graph nested in it defines."""
    names = _defined(graph)
    for node in graph.node:
        for inner in subgraphs(node):
            names |= local_names(inner)
    return names


def rename_captured(graph: onnx.GraphProto, new: Mapping[str, str]) -> None:
    """Rename tensors that `graph` reads from outside; no new name may be one of its `local_names`."""
    defined = _defined(graph)
    outer = {old: name for old, name in new.items() if old not in defined and old != name}
    if not outer:
        return
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in outer:
                node.input[index] = outer[name]
        for inner in subgraphs(node):
            rename_captured(inner, outer)
    for value in graph.output:
        value.name = outer.get(value.name, value.name)
