"""Constants of a graph as terms: initializers, Constant nodes, and sparse initializers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx

from superopt.evaluate import constant, dtype_name
from superopt.ir.term import Term
from superopt.ir.types import TensorType
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.onnx_io.model import Array, ModelError
from superopt.onnx_io.tensors import constant_value, from_proto

__all__ = ["constants_of", "sparse_constants_of"]


def constants_of(
    graph: onnx.GraphProto,
    nodes: Iterable[onnx.NodeProto],
    stubs: Mapping[str, Term],
    weights: dict[str, Array],
    label: str,
) -> Iterator[tuple[str, Term]]:
    """Yield the names and terms of the initializers and Constant nodes of a graph; `weights` gets their arrays.

    `stubs` are the terms of empty initializers. Raises ModelError, which names the model by `label`.
    """
    for tensor in graph.initializer:
        yield tensor.name, stubs.get(tensor.name) or constant(*from_proto(tensor, label), weights)
    for node in nodes:
        if is_constant_node(node) and len(node.output) == 1:
            value = constant_value(node, label)
            if value is not None:
                yield node.output[0], constant(*value, weights)


def sparse_constants_of(graph: onnx.GraphProto, label: str) -> Iterator[tuple[str, Term]]:
    """Yield the names and terms of sparse initializers, which no operator is proven for. Raises ModelError."""
    for sparse in graph.sparse_initializer:
        name, content = sparse.values.name, sparse.SerializeToString(deterministic=True).hex()
        try:
            type = TensorType(dtype_name(sparse.values.data_type), tuple(sparse.dims))
        except ValueError as error:
            raise ModelError(f"{label}: sparse tensor {name!r} is malformed: {error}") from None
        yield name, Term.of("ai.onnx::SparseInitializer", (), {"proto": content}, (type,))
