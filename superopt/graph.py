"""An ONNX model as a `networkx.DiGraph`, for graph algorithms.

>>> import networkx as nx
>>> import onnx.parser
>>> from superopt.graph import to_networkx
>>> model = onnx.parser.parse_model('''
...     <ir_version: 8, opset_import: ["": 17]>
...     example (float[N, 8] x) => (float[N, 4] y) <float[8, 4] w = {}> {
...         h = MatMul (x, w)
...         s = Sigmoid (h)
...         y = Mul (h, s)
...     }''')
>>> graph = to_networkx(model)
>>> list(nx.topological_sort(graph))
['x', 'w', 'h', 's', 'y']
>>> graph.nodes["h"]["op"], graph.nodes["h"]["dtype"], graph.nodes["h"]["shape"]
('MatMul', 'float', ('N', 4))
>>> graph.edges["h", "y"]["positions"]
(0,)
>>> [name for name, node in graph.nodes.items() if node["constant"]]
['w']
>>> sorted(nx.ancestors(graph, "s"))
['h', 'w', 'x']
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import networkx as nx
import onnx

from superopt.onnx_io import Model, write_model
from superopt.onnx_io.constant_nodes import CONSTANT, is_constant_node
from superopt.onnx_io.functions import domain_of
from superopt.onnx_io.inference import infer_types, light_copy
from superopt.onnx_io.load import load_proto, reads, sorted_nodes
from superopt.onnx_io.schemas import opset_of

if TYPE_CHECKING:
    from superopt.ir.types import TensorType

__all__ = ["Graph", "to_networkx"]

Graph: TypeAlias = "nx.DiGraph[str]"


def to_networkx(model: str | Path | onnx.ModelProto | Model) -> Graph:
    """Return the top-level graph of a model: a node for each operator, input and constant, an edge for each use.

    The key of a node is the name of its (first) tensor, which is unique. Nodes are in a topological order. Their
    attributes:

    - `op`: the operator's type, "Input" for inputs of the model, "Constant" for constants;
    - `domain`: the operator's domain, "" for ONNX's own;
    - `name`: the name of the node in the file, which may be empty; for inputs and constants the name of the tensor;
    - `outputs`: the names of the tensors that the node computes, "" for an output that is left out;
    - `dtype`, `shape`: those of the first tensor, as ONNX infers them: "float", "int64", ...; a size is a number or
      the name of a symbol. None if unknown;
    - `constant`: True for initializers and Constant nodes.

    An edge goes from the node that computes a tensor to one that reads it. Its attributes:

    - `positions`: the positions among the reader's inputs, more than one for `Mul(x, x)`, and none if only a body of an
      If, Loop or Scan reads the tensor;
    - `tensors`: the name of the tensor at each of those positions, or the names of the tensors that bodies read.

    `graph.graph` has the graph's `name`, its `inputs` and `outputs` (names of tensors) and the model's `opset`.
    Raises `superopt.ModelError` for a file that is not a model, or a model without a valid graph.
    """
    if isinstance(model, Model):
        label, proto = "model", write_model(model, fold=False)
    elif isinstance(model, onnx.ModelProto):
        label, proto = "model", model
    else:
        label, proto = str(model), load_proto(Path(model))
    nodes = sorted_nodes(proto.graph, label)
    types = infer_types(light_copy(proto, nodes))
    opset = opset_of(proto)
    graph: Graph = nx.DiGraph(
        name=proto.graph.name,
        inputs=tuple(value.name for value in proto.graph.input),
        outputs=tuple(value.name for value in proto.graph.output),
        opset=opset,
    )
    producer: dict[str, str] = {}  # name of a tensor -> the graph's node that computes it
    weights = [tensor.name for tensor in proto.graph.initializer]
    weights += [sparse.values.name for sparse in proto.graph.sparse_initializer]
    inputs = dict.fromkeys(value.name for value in proto.graph.input)
    for name in (*inputs, *(name for name in weights if name not in inputs)):
        # Before IR version 4, weights are listed as inputs as well.
        constant = name not in inputs or (proto.ir_version < 4 and name in weights)
        graph.add_node(name, **_leaf(name, constant, types.get(name)))
        producer[name] = name
    for node in nodes:
        outputs = tuple(node.output)
        key = next((name for name in outputs if name), "")
        if not key:
            continue  # a node without outputs has no effect
        graph.add_node(key, **_operator(node, outputs, types.get(key)))
        producer.update((name, key) for name in outputs if name)
        for position, name in enumerate(node.input):
            if name:
                _connect(graph, producer[name], key, name, (position,))
        for name in reads(node):
            if name not in node.input:
                _connect(graph, producer[name], key, name, ())
    return graph


def _leaf(name: str, constant: bool, type: TensorType | None) -> dict[str, Any]:
    op = CONSTANT if constant else "Input"
    return {"op": op, "domain": "", "name": name, "outputs": (name,), **_type(type), "constant": constant}


def _operator(node: onnx.NodeProto, outputs: tuple[str, ...], type: TensorType | None) -> dict[str, Any]:
    domain = domain_of(node)
    return {
        "op": node.op_type, "domain": domain, "name": node.name, "outputs": outputs, **_type(type),
        "constant": is_constant_node(node),
    }  # fmt: skip


def _type(type: TensorType | None) -> dict[str, Any]:
    if type is None or type.shape is None:
        return {"dtype": None if type is None else type.dtype, "shape": None}
    return {"dtype": type.dtype, "shape": tuple(size if isinstance(size, int) else str(size) for size in type.shape)}


def _connect(graph: Graph, source: str, target: str, tensor: str, positions: tuple[int, ...]) -> None:
    """Add a use of `tensor` to the edge from `source` to `target`."""
    if not graph.has_edge(source, target):
        graph.add_edge(source, target, positions=(), tensors=())
    edge = graph.edges[source, target]
    edge["positions"] += positions
    edge["tensors"] += (tensor,)
