"""The values that ONNX's shape inference may propagate.

With `data_prop` it follows the values of tensors from a Shape to where they are sizes. It keeps them as one list,
without a rank or an element type: a Cast to int8 keeps 300, and Gather takes one number of a matrix where the operator
takes a row (seen with ONNX 1.23). So values are hidden from it where they are not integers on at most one axis.
"""

from __future__ import annotations

import itertools
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import onnx
from onnx import TensorProto, helper

from superopt.onnx_io.schemas import DEFAULT_DOMAINS, opset_of, schema_of
from superopt.onnx_io.subgraphs import all_nodes, subgraphs
from superopt.onnx_io.tensor_types import has_shape
from superopt.properties import SIZE_READERS

__all__ = ["infer_with_values"]

# What adds or multiplies integers of 32 bits may wrap around; what moves them does not.
_ARITHMETIC = frozenset({"Add", "Mul", "Sub"})

# Element type and rank (None: unknown) of a tensor.
_Kind: TypeAlias = tuple[int, "int | None"]
_UNKNOWN: _Kind = (TensorProto.UNDEFINED, None)


def infer_with_values(
    light: onnx.ModelProto, typed: onnx.ModelProto, infer: Callable[[onnx.ModelProto], onnx.ModelProto | None]
) -> onnx.ModelProto | None:
    """Return `light` with the types that `infer` finds for it where only certain values are propagated.

    `typed` is the same model with the types that inference finds without values.
    """
    hiding = onnx.ModelProto()
    hiding.CopyFrom(light)
    opset, prefix = opset_of(light), _unused_prefix(light.graph)
    names = (f"{prefix}{k}" for k in itertools.count())
    _hide(hiding.graph, typed.graph, ChainMap(), opset, names)
    for function in hiding.functions:  # of their tensors no types are known
        _hide_in(function, opset, {}, names)
    found = infer(hiding)
    if found is not None:
        del found.graph.node[:]
        found.graph.node.extend(light.graph.node)
        known = [value for value in found.graph.value_info if not value.name.startswith(prefix)]
        del found.graph.value_info[:]
        found.graph.value_info.extend(known)
    return found


def _unused_prefix(graph: onnx.GraphProto) -> str:
    """Return what no name of a tensor begins with."""
    values = (*graph.input, *graph.value_info, *graph.output, *graph.initializer)
    of_nodes = (name for node in all_nodes(graph) for name in (*node.input, *node.output))
    longest = max(map(len, itertools.chain(of_nodes, (value.name for value in values))), default=0)
    return "hidden" + "_" * longest


def _hide(
    graph: onnx.GraphProto,
    typed: onnx.GraphProto,
    outer: ChainMap[str, _Kind],
    opset: int,
    names: Iterator[str],
) -> None:
    kinds = outer.new_child(dict(_kinds(typed)))
    for node, twin in zip(graph.node, typed.node, strict=True):
        for inner, typed_inner in zip(subgraphs(node), subgraphs(twin), strict=True):
            _hide(inner, typed_inner, kinds, opset, names)
    _hide_in(graph, opset, kinds, names)


def _hide_in(
    owner: onnx.GraphProto | onnx.FunctionProto, opset: int, kinds: Mapping[str, _Kind], names: Iterator[str]
) -> None:
    """Put an Identity, through which no values are propagated, behind each node whose values are uncertain."""
    nodes: list[onnx.NodeProto] = []
    for node in owner.node:
        nodes.append(node)
        if _propagates(node, opset) and not _is_certain(node, kinds):
            name, hidden = node.output[0], next(names)
            node.output[0] = hidden
            nodes.append(helper.make_node("Identity", [hidden], [name]))
    if len(nodes) > len(owner.node):
        del owner.node[:]
        owner.node.extend(nodes)


def _kinds(graph: onnx.GraphProto) -> Iterator[tuple[str, _Kind]]:
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        yield value.name, (tensor.elem_type, len(tensor.shape.dim) if has_shape(value.type) else None)
    for weight in graph.initializer:
        yield weight.name, (weight.data_type, len(weight.dims))


def _propagates(node: onnx.NodeProto, opset: int) -> bool:
    if node.domain not in DEFAULT_DOMAINS or not node.output or not node.output[0]:
        return False
    schema = schema_of(node.op_type, opset)
    return schema is not None and schema.has_data_propagation_function


def _is_certain(node: onnx.NodeProto, kinds: Mapping[str, _Kind]) -> bool:
    """Return True if the values that are propagated are those that the node computes."""
    if node.op_type in SIZE_READERS:
        return True
    dtypes = {TensorProto.INT64} if node.op_type in _ARITHMETIC else {TensorProto.INT64, TensorProto.INT32}
    for name in filter(None, (*node.input, node.output[0])):
        dtype, rank = kinds.get(name, _UNKNOWN)
        if dtype not in dtypes or rank is None or rank > 1:
            return False
    return True
