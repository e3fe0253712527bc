"""Functions that a file defines, and the number of nodes that they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import onnx

from superopt.onnx_io.schemas import DEFAULT_DOMAINS
from superopt.onnx_io.subgraphs import all_nodes

__all__ = ["MAX_EXPANDED_NODES", "FunctionKey", "can_be_expanded", "domain_of", "key_of"]

FunctionKey: TypeAlias = tuple[str, str, str]  # domain, name and overload

MAX_EXPANDED_NODES = 100_000


def domain_of(named: onnx.NodeProto | onnx.FunctionProto | onnx.OperatorSetIdProto) -> str:
    """Return the domain, by one name for ONNX's own."""
    return "" if named.domain in DEFAULT_DOMAINS else named.domain


def key_of(named: onnx.NodeProto | onnx.FunctionProto) -> FunctionKey:
    """Return what names a function, of the function itself or of a node that calls it."""
    return domain_of(named), named.op_type if isinstance(named, onnx.NodeProto) else named.name, named.overload


def can_be_expanded(model: onnx.ModelProto) -> bool:
    """Return True if expanding all calls of functions gives a bounded number of nodes.

    Forty functions that call each other twice stand for 2^40 nodes, and functions that call themselves for no end of
    them. ONNX's inference goes through all of these nodes.
    """
    if not model.functions:
        return True
    bodies = {key_of(function): list(_nodes(function.node)) for function in model.functions}
    sizes: dict[FunctionKey, int] = {}
    opened: set[FunctionKey] = set()
    stack = list(bodies)
    while stack:
        key = stack[-1]
        calls = [key_of(node) for node in bodies[key] if key_of(node) in bodies]
        waiting = [called for called in calls if called not in sizes]
        if key in sizes:
            stack.pop()
        elif not waiting:
            sizes[key] = len(bodies[key]) + sum(sizes[called] for called in calls)
            if sizes[key] > MAX_EXPANDED_NODES:
                return False
            stack.pop()
        elif key in opened:
            return False  # a call below this function leads back to it
        else:
            opened.add(key)
            stack.extend(waiting)
    return sum(sizes.get(key_of(node), 1) for node in all_nodes(model.graph)) <= MAX_EXPANDED_NODES


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterable[onnx.NodeProto]:
    graph = onnx.GraphProto()
    graph.node.extend(nodes)
    return all_nodes(graph)
