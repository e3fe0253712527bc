"""Harvests of small models: which windows are found, how they are counted and weighed, and what is left out."""

from __future__ import annotations

import itertools
from pathlib import Path

import networkx as nx
import numpy as np
import onnx
import pytest
from onnx import helper

from superopt.corpus import Window, read_corpus, write_corpus
from superopt.harvest import Harvest, WindowLimits, harvest
from superopt.harvest.cutting import cut_windows
from superopt.harvest.model_graph import ModelGraph, bits
from superopt.ir.notation import show_terms
from superopt.onnx_io import read_simplified
from tests.support.models import branches, floats, lora, model, weights


def saved(folder: Path, name: str, proto: onnx.ModelProto) -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(proto, path)
    return path


def found_in(folder: Path, proto: onnx.ModelProto, **limits: int) -> Harvest:
    return harvest([saved(folder, "model", proto)], WindowLimits(**limits))


def texts(found: Harvest) -> dict[str, Window]:
    return {show_terms(window.outputs): window for window in found.windows}


def test_all_windows_of_a_small_model(tmp_path: Path) -> None:
    """x W + (x A) B: each connected convex set, siblings that share x among them."""
    found = texts(found_in(tmp_path, lora(batch=8)))
    assert sorted(found) == sorted(
        [
            "MatMul(x0, x1)",  # all three products, whatever their sizes
            "Add(x0, x1)",
            "Relu(x0)",
            "Relu(Add(x0, x1))",
            "MatMul(MatMul(x0, x1), x2)",
            "(MatMul(x0, x1), MatMul(x0, x2))",
            "Add(x0, MatMul(x1, x2))",
            "Relu(Add(MatMul(x0, x1), x2))",
            "(MatMul(MatMul(x0, x1), x2), MatMul(x0, x3))",
            "Add(MatMul(MatMul(x0, x1), x2), x3)",
            "Relu(Add(x0, MatMul(MatMul(x1, x2), x3)))",
            "Add(MatMul(x0, x1), MatMul(x2, x3))",
            "Relu(Add(MatMul(x0, x1), MatMul(x2, x3)))",
            "Add(MatMul(MatMul(x0, x1), x2), MatMul(x0, x3))",
            "Relu(Add(MatMul(x0, x1), MatMul(MatMul(x0, x2), x3)))",
        ]
    )


def test_windows_of_bodies(tmp_path: Path) -> None:
    """Both branches of an If, and a body inside one of them."""

    def body(name: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
        return helper.make_graph(nodes, name, [], [floats(name, 2, 4)])

    condition = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    inner = body("p", helper.make_node("Exp", ["x"], ["r"]), helper.make_node("Abs", ["r"], ["p"]))
    plain = body("q", helper.make_node("Tanh", ["x"], ["q"]))
    outer = helper.make_node("If", ["c"], ["s"], then_branch=inner, else_branch=plain)
    choice = helper.make_node("If", ["c"], ["y"], then_branch=body("s", outer), else_branch=plain)
    found = found_in(tmp_path, model([choice], [condition, floats("x", 2, 4)], [floats("y", 2, 4)]))
    windows = texts(found)
    assert sorted(windows) == ["Abs(Exp(x0))", "Abs(x0)", "Exp(x0)", "Tanh(x0)"]
    assert windows["Tanh(x0)"].count == 2
    assert found.models[0].operators == 6 and found.models[0].unknown == {"If": 2}


def test_counts_and_shares(tmp_path: Path) -> None:
    found = texts(found_in(tmp_path, lora()))
    whole = [window for window in found.values() if len(window.operators) == 5]
    assert len(whole) == 1
    assert (whole[0].count, whole[0].share) == (1, 1.0)
    assert found["MatMul(x0, x1)"].count == 3
    assert found["MatMul(x0, x1)"].weights == ("x1",)
    singles = [window.share for window in found.values() if len(window.operators) == 1]
    assert sum(singles) == pytest.approx(1.0)


def test_shares_are_means_over_models(tmp_path: Path) -> None:
    other = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 4, 5)], [floats("y", 4, 5)])
    one, two = saved(tmp_path, "one", lora()), saved(tmp_path, "two", other)
    alone, both = texts(harvest([one])), texts(harvest([one, two]))
    assert both["Relu(x0)"].models == ("one", "two")
    assert both["Relu(x0)"].share == pytest.approx((alone["Relu(x0)"].share + 1) / 2)
    assert both["Relu(x0)"].count == 2
    assert both["MatMul(x0, x1)"].share == pytest.approx(alone["MatMul(x0, x1)"].share / 2)


def test_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    paths = [saved(folder, "model", lora()) for folder in (tmp_path, tmp_path / "other")]
    assert texts(harvest([*paths, paths[0]]))["Relu(x0)"].models == ("model", "model.2", "model.3")


def test_windows_are_connected_and_convex(tmp_path: Path) -> None:
    """On a model small enough for all subsets: the windows are exactly those that are connected and convex."""
    proto = read_simplified(saved(tmp_path, "model", branches(channels=4, size=6, blocks=1)))
    graph = ModelGraph(proto.outputs, lambda _: 1.0, lambda _: None)
    count = len(graph.operators)
    order = nx.DiGraph([(maker, k) for k in range(count) for maker, _ in graph.operands[k] if maker >= 0])
    near = nx.Graph([(k, j) for k in range(count) for j in bits(graph.near[k])])
    expected = 0
    for members in itertools.chain.from_iterable(itertools.combinations(range(count), n) for n in (1, 2, 3, 4)):
        between = {
            k for k in range(count) if k not in members
            and any(nx.has_path(order, a, k) for a in members) and any(nx.has_path(order, k, b) for b in members)
        }  # fmt: skip
        expected += nx.is_connected(near.subgraph(members)) and not between
    found = cut_windows(graph, WindowLimits(4, 9, 9))
    assert found.beyond_beam == found.over_limits == 0
    assert sum(place.count for place in found.windows.values()) == expected


def test_limits_hold_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    found = found_in(tmp_path, branches(channels=8, size=8), operators=4, inputs=2, outputs=1)
    for window in found.windows:
        reads = [v for v in window.variables if not v.weight]
        assert len(window.operators) <= 4 and len(reads) <= 2 and len(window.outputs) == 1
    assert found.models[0].left_out["more inputs or outputs than the limits"] > 0


def test_an_operator_without_definition_bounds_windows(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Det", ["a"], ["b"]),
        helper.make_node("Exp", ["b"], ["y"]),
    ]
    found = found_in(tmp_path, model(nodes, [floats("x", 5, 4, 4)], [floats("y", 5)]))
    assert set(texts(found)) == {"Relu(x0)", "Exp(x0)"}
    assert found.models[0].unknown == {"Det": 1}
    assert sum(window.share for window in found.windows) < 1


def test_scalars_stay_and_weights_become_variables(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "half"], ["a"]),
        helper.make_node("Add", ["a", "bias"], ["b"]),
        helper.make_node("Mul", ["b", "learned"], ["y"]),
    ]
    values = [
        ("half", np.array(0.5, np.float32)), ("bias", weights(6)), ("learned", np.array(0.7361253, np.float32)),
    ]  # fmt: skip
    found = texts(found_in(tmp_path, model(nodes, [floats("x", 4, 6)], [floats("y", 4, 6)], values)))
    (whole,) = (window for window in found.values() if len(window.operators) == 3)
    assert "value=0.5" in str(whole) and "0.736" not in str(whole)
    assert len(whole.weights) == 2
    assert sorted(len(v.shape) for v in whole.variables if v.weight) == [0, 1]


def test_a_corpus_does_not_depend_on_the_order_of_models(tmp_path: Path) -> None:
    paths = [saved(tmp_path, "a", lora()), saved(tmp_path, "b", branches(channels=8, size=8))]
    lines = []
    for order in (paths, paths[::-1]):
        write_corpus(tmp_path / "corpus.txt", harvest(order).windows)
        lines.append((tmp_path / "corpus.txt").read_bytes())
    assert lines[0] == lines[1]
    assert len(read_corpus(tmp_path / "corpus.txt")) == lines[0].count(b"\n")


def test_no_windows_of_a_model_without_operators(tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    found = found_in(tmp_path, model(nodes, [floats("x", 2)], [floats("y", 2)]))
    assert found.windows == ()
