"""Constants that jump: only a run says what they are. A folded one is equal if ONNX Runtime computes it so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper

from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import Model, read_model
from tests.support.models import floats, model

node = helper.make_node
# Positions from 1 to 40 fall into buckets by their logarithms, as in T5; each bucket has a bias.
BUCKETS = [
    node("Log", ["positions"], ["logs"]),
    node("Div", ["logs", "width"], ["parts"]),
    node("Cast", ["parts"], ["buckets"], to=onnx.TensorProto.INT64),
    node("Gather", ["table", "buckets"], ["bias"], axis=0),
]
ADD = node("Add", ["x", "bias"], ["y"])
WEIGHTS = [
    ("positions", np.arange(1, 41, dtype=np.float32)),
    ("width", np.array(np.log(2) / 4, np.float32)),
    ("table", np.random.default_rng(0).standard_normal(32).astype(np.float32)),
]


def computing() -> onnx.ModelProto:
    return model([*BUCKETS, ADD], [floats("x", "n", 40)], [floats("y", "n", 40)], WEIGHTS)


def folded() -> np.ndarray:
    proto = computing()
    proto.graph.output.append(floats("bias", 40))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["bias"], {"x": np.zeros((1, 40), np.float32)})[0])


def stored(bias: np.ndarray) -> onnx.ModelProto:
    return model([ADD], [floats("x", "n", 40)], [floats("y", "n", 40)], [("bias", bias)])


@pytest.fixture(params=[False, True], ids=["the second model folded", "the first model folded"])
def pair(request: pytest.FixtureRequest) -> tuple[Model, Model]:
    models = read_model(computing()), read_model(stored(folded()))
    return joined(*(models[::-1] if request.param else models))


def test_it_is_equal_and_the_answer_says_by_what(pair: tuple[Model, Model]) -> None:
    found = prove_equal(*pair, seconds=10)
    assert found.outputs == (True,) and found.certificate is not None
    assert "runtime" in {match.by for match in found.matches}
    assert found.certificate.replay(*pair)
    entries = tuple((*entry[:3], False) for entry in found.certificate.folded)
    assert not replace(found.certificate, folded=entries).replay(*pair)


def test_another_value_is_not() -> None:
    bias = folded()
    bias[7] = np.nextafter(bias[7], np.float32(9))
    found = prove_equal(*joined(read_model(computing()), read_model(stored(bias))), seconds=10)
    assert found.outputs == (False,)


@pytest.mark.parametrize("opsets", [(14, 18), (18, 14)])
def test_constants_of_two_operator_sets_are_run(opsets: tuple[int, int]) -> None:
    """ScatterND is one operator in both. One file stores the updates that the other one computes."""
    scatter = [node("ScatterND", ["zeros", "rows", "updates"], ["bias"]), ADD]
    updates = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    ends = [floats("x", "n", 3)], [floats("y", 5, 3)]
    read = [("zeros", np.zeros((5, 3), np.float32)), ("rows", np.array([[1], [4]], np.int64))]
    computed = model([node("Mul", ["half", "two"], ["updates"]), *scatter], *ends, [
        *read, ("half", updates / 2), ("two", np.array(2, np.float32)),
    ], opsets[0])  # fmt: skip
    for values, same in ((updates, True), (updates + 1, False)):
        stored = model(scatter, *ends, [*read, ("updates", values)], opsets[1])
        found = prove_equal(*joined(read_model(computed), read_model(stored)), seconds=10)
        assert found.outputs == (same,)


def test_arrays_of_two_files_are_not_run() -> None:
    found = prove_equal(*joined(read_model(stored(folded())), read_model(stored(folded() + 1))), seconds=10)
    assert found.outputs == (False,)


def test_generated_weights_and_stored_ones_are_paired_whole() -> None:
    """All elements are one number, so each weight also equals a part of a larger one: no use to the proof."""
    value = np.full(1, 0.02, np.float32)
    shapes = {"w": (64, 96), "v": (96, 64), "u": (64, 32)}
    layers = [node("MatMul", [a, w], [b]) for a, w, b in (("x", "w", "a"), ("a", "v", "b"), ("b", "u", "y"))]
    fill = [
        node("ConstantOfShape", [f"{name} sizes"], [name], value=onnx.numpy_helper.from_array(value)) for name in shapes
    ]
    sizes = [(f"{name} sizes", np.array(shape, np.int64)) for name, shape in shapes.items()]
    ends = [floats("x", "n", 64)], [floats("y", "n", 32)]
    stored = [(name, np.full(shape, value[0])) for name, shape in shapes.items()]
    found = prove_equal(
        *joined(read_model(model([*fill, *layers], *ends, sizes)), read_model(model(layers, *ends, stored))), seconds=10
    )
    assert found.outputs == (True,)
    assert {match.by for match in found.matches} == {"same", "values"}


@pytest.mark.parametrize(
    ("jump", "numbers", "in_reals", "in_runs"),
    [
        ([node("Mul", ["a", "b"], ["c"]), node("Floor", ["c"], ["d"])], (10, 0.7), 6, 7),
        ([node("Mul", ["a", "b"], ["c"]), node("Ceil", ["c"], ["d"])], (10, 0.1), 2, 1),
        ([node("Div", ["b", "a"], ["c"]), node("Floor", ["c"], ["d"])], (0.1, 0.7), 6, 7),
        ([node("Add", ["a", "b"], ["c"]), node("Sub", ["c", "a"], ["e"]), node("Sign", ["e"], ["d"])], (1, 1e-9), 1, 0),
    ],
)
def test_a_number_below_a_jump_is_what_a_run_says(
    jump: list[onnx.NodeProto], numbers: tuple[float, float], in_reals: float, in_runs: float
) -> None:
    """0.7 is the float32 below 0.7, and ten times as much is rounded to 7."""

    def read(nodes: list[onnx.NodeProto], **values: float) -> Model:
        constants = [(name, np.array([value], np.float32)) for name, value in values.items()]
        last = node("Mul", ["x", "d"], ["y"])
        return read_model(model([*nodes, last], [floats("x", "n", 4)], [floats("y", "n", 4)], constants))

    computing = read(jump, **dict(zip("ab", numbers, strict=True)))
    for value in (in_reals, in_runs):
        pair = joined(computing, read([], d=value))
        found = prove_equal(*pair, seconds=5)
        assert found.outputs == (value == in_runs,)
        assert found.certificate is None or found.certificate.replay(*pair)
