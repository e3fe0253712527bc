"""Calls of functions that a file defines, replaced by the nodes of these functions.

`onnx.inliner` does the same, but version 1.23 forgets the values that a function gives to absent attributes: a
LeakyRelu with an `alpha` of 0.5 gets ONNX's own default of 0.01.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx

from superopt.onnx_io.functions import FunctionKey, can_be_expanded, domain_of, key_of
from superopt.onnx_io.schemas import DEFAULT_DOMAINS
from superopt.onnx_io.skeleton import copy_fields
from superopt.onnx_io.subgraphs import graphs_in, local_names, subgraphs

__all__ = ["inlined"]

# ONNX Runtime computes its own operators of these domains, even if a file has functions of their names.
_RUNTIME_DOMAINS = ("ai.onnx", "com.microsoft", "com.ms")


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy without calls of functions, or `model` itself if there are none, or if it would be too large.

    Functions that use another version of an operator set than the model, or have the name of an operator, stay, and so
    do calls that do not fit their function.
    """
    imports = {domain_of(one): one.version for one in model.opset_import}
    functions = _inlinable(model, imports)
    if not functions:
        return model
    found = onnx.ModelProto()
    copy_fields(model, found, {"graph", "functions"})
    copy_fields(model.graph, found.graph, {"node"})
    known = {domain_of(one) for one in model.opset_import}
    found.opset_import.extend(
        onnx.OperatorSetIdProto(domain=d, version=v) for d, v in imports.items() if d not in known
    )
    inliner = _Inliner(functions, local_names(model.graph))
    found.graph.node.extend(inliner.without_calls(model.graph.node))
    if len(functions) < len(model.functions) or inliner.has_left_calls:
        found.functions.extend(model.functions)
    return found


def _inlinable(model: onnx.ModelProto, imports: dict[str, int]) -> dict[FunctionKey, onnx.FunctionProto]:
    """Return the functions that may be inlined, and add the operator sets that these need to `imports`."""
    functions = {key_of(function): function for function in model.functions}
    if not functions or len(functions) < len(model.functions) or not can_be_expanded(model):
        return {}
    found = {}
    for key, function in functions.items():
        needed = {domain_of(one): one.version for one in function.opset_import}
        agrees = all(imports.get(domain, version) == version for domain, version in needed.items())
        if agrees and key[0] not in DEFAULT_DOMAINS and not key[0].startswith(_RUNTIME_DOMAINS) and _is_plain(function):
            imports.update(needed)
            found[key] = function
    return found


def _is_plain(function: onnx.FunctionProto) -> bool:
    """Return True if each result has a node of its own, and no name in a body hides an operand."""
    inner: set[str] = set()
    for node in function.node:
        for graph in subgraphs(node):
            inner |= local_names(graph)
    computed = {name for node in function.node for name in node.output}
    operands, results = set(function.input), list(function.output)
    return inner.isdisjoint(operands) and computed.isdisjoint(operands) and computed.issuperset(results) and (
        len(set(results)) == len(results)
    )  # fmt: skip


class _Inliner:
    def __init__(self, functions: Mapping[FunctionKey, onnx.FunctionProto], taken: set[str]) -> None:
        self._functions, self._taken = functions, taken
        self.has_left_calls = False

    def without_calls(self, nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        """Yield copies of the nodes, in bodies as well, with those of functions in place of their calls."""
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            function = self._functions.get(key_of(node))
            if function is not None and _fits(node, function):
                stack.extend(reversed(list(self._nodes_of(node, function))))
                continue
            self.has_left_calls |= function is not None
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for graph in subgraphs(copy):
                inner = list(self.without_calls(graph.node))
                del graph.node[:]
                graph.node.extend(inner)
            yield copy

    def _nodes_of(self, call: onnx.NodeProto, function: onnx.FunctionProto) -> Iterator[onnx.NodeProto]:
        names: dict[str, str] = {
            "": "",
            **dict.fromkeys(function.input, ""),
            **dict(zip(function.input, call.input, strict=False)),
        }
        names |= {formal: name for formal, name in zip(function.output, call.output, strict=False) if name}
        attributes = {one.name: one for one in (*function.attribute_proto, *call.attribute)}
        prefix = call.name or call.op_type

        def new(name: str) -> str:
            if name not in names:
                found, count = f"{prefix}/{name}", 1
                while found in self._taken:
                    found, count = f"{prefix}_{count}/{name}", count + 1
                self._taken.add(found)
                names[name] = found
            return names[name]

        def renamed(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
            for node in nodes:
                copy = onnx.NodeProto()
                copy_fields(node, copy, {"input", "output", "attribute"})
                copy.name = f"{prefix}/{node.name}" if node.name else ""
                copy.input.extend(map(new, node.input))
                copy.output.extend(map(new, node.output))
                copy.attribute.extend(_stated(node.attribute, attributes))
                for graph in graphs_in(copy.attribute):
                    rename(graph)
                yield copy

        def rename(graph: onnx.GraphProto) -> None:
            for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
                value.name = new(value.name)
            for sparse in graph.sparse_initializer:
                sparse.values.name = new(sparse.values.name)
            nodes = list(renamed(graph.node))
            del graph.node[:]
            graph.node.extend(nodes)

        yield from renamed(function.node)


def _fits(call: onnx.NodeProto, function: onnx.FunctionProto) -> bool:
    """Return True if a function takes the operands, results and attributes of a call; no graph is one of these."""
    known = {*function.attribute, *(one.name for one in function.attribute_proto)}
    return (
        len(call.input) <= len(function.input)
        and len(call.output) <= len(function.output)
        and all(one.name in known for one in call.attribute)
        and next(graphs_in((*call.attribute, *function.attribute_proto)), None) is None
    )


def _stated(
    attributes: Iterable[onnx.AttributeProto], values: Mapping[str, onnx.AttributeProto]
) -> Iterator[onnx.AttributeProto]:
    """Yield attributes with the values that they refer to; without a value, an attribute is absent."""
    for attribute in attributes:
        value = values.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if value is not None:
            copy = onnx.AttributeProto()
            copy.CopyFrom(value)
            copy.name = attribute.name
            yield copy
