"""Models as networkx graphs."""

from __future__ import annotations

import doctest
from pathlib import Path

import networkx as nx
import onnx
import pytest

from superopt import graph as graph_module
from superopt.graph import to_networkx
from superopt.onnx_io import ModelError, read_model
from tests.support.simplified import parsed

SPLIT = """g (float[N, 4] x, bool c) => (float[N, 2] y) <float[2] w = {1, 2}, int64[2] sizes = {2, 2}> {
    a, b = Split<axis = 1>(x, sizes)
    p = Mul(a, b)
    q = Mul(p, p)
    r = Add(q, w)
    y = If(c) <
        then_branch = one () => (float[N, 2] t) { t = Neg(r) },
        else_branch = two () => (float[N, 2] e) { e = Identity(a) }
    >
}"""


@pytest.fixture
def model() -> onnx.ModelProto:
    return parsed(SPLIT, 17)


def test_the_documented_example() -> None:
    results = doctest.testmod(graph_module)
    assert results.attempted > 5 and not results.failed


def test_nodes_are_operators_inputs_and_constants(model: onnx.ModelProto) -> None:
    graph = to_networkx(model)
    assert {name: node["op"] for name, node in graph.nodes.items()} == {
        "x": "Input", "c": "Input", "w": "Constant", "sizes": "Constant", "a": "Split", "p": "Mul", "q": "Mul",
        "r": "Add", "y": "If",
    }  # fmt: skip
    assert graph.nodes["a"] == {
        "op": "Split", "domain": "", "name": "", "outputs": ("a", "b"), "dtype": "float", "shape": ("N", 2),
        "constant": False,
    }  # fmt: skip
    assert (graph.graph["inputs"], graph.graph["outputs"], graph.graph["opset"]) == (("x", "c"), ("y",), 17)


def test_edges_say_which_input_reads_which_tensor(model: onnx.ModelProto) -> None:
    graph = to_networkx(model)
    assert graph.edges["a", "p"] == {"positions": (0, 1), "tensors": ("a", "b")}
    assert graph.edges["p", "q"] == {"positions": (0, 1), "tensors": ("p", "p")}
    assert graph.edges["w", "r"] == {"positions": (1,), "tensors": ("w",)}
    # Bodies read these two.
    assert graph.edges["r", "y"] == {"positions": (), "tensors": ("r",)}
    assert graph.edges["a", "y"] == {"positions": (), "tensors": ("a",)}


def test_nodes_stand_in_an_order_in_which_they_can_run(model: onnx.ModelProto) -> None:
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    graph = to_networkx(model)
    place = {name: index for index, name in enumerate(graph)}
    assert all(place[source] < place[target] for source, target in graph.edges)
    assert nx.is_directed_acyclic_graph(graph)


def test_a_path_and_a_model_of_terms_give_the_same_graph(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    shapes = [
        {node["op"]: node["shape"] for node in to_networkx(source).nodes.values()}
        for source in (model, tmp_path / "m.onnx", str(tmp_path / "m.onnx"), read_model(model))
    ]
    assert shapes.count(shapes[0]) == 4


def test_weights_that_old_files_list_as_inputs_are_constants() -> None:
    body = "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }"
    model = parsed(body, 7)
    assert not to_networkx(model).nodes["w"]["constant"]  # an input with a default value
    model.ir_version = 3
    assert to_networkx(model).nodes["w"]["constant"]


def test_files_that_are_no_graphs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        to_networkx(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match=r"the graph has a cycle: Add node -> Neg node -> Add node"):
        to_networkx(parsed("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Neg(a) y = Relu(b) }", 17))
