"""Models in float64: all operators without the rounding of their types, with limits of time and memory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.onnx_io import read_model
from superopt.optimizer import float64
from superopt.optimizer.float64 import Float64Model, Noise, NoReference
from superopt.runtime import Target, open_session
from tests.support.models import floats, lora, model, weights

node = helper.make_node


def run(proto: onnx.ModelProto, noise: Noise | None = None, seconds: float = 60.0, **feeds: Any) -> list[Any]:
    shapes = {name: np.shape(value) for name, value in feeds.items()}
    return Float64Model(read_model(proto).at_shapes(shapes)).run(feeds, time.process_time() + seconds, noise)


def single(nodes: Sequence[onnx.NodeProto], constants: Sequence[tuple[str, np.ndarray]] = ()) -> onnx.ModelProto:
    return model(list(nodes), [floats("x", 8, 32)], [onnx.ValueInfoProto(name="y")], list(constants), opset=17)


X = (1e6 + np.random.default_rng(0).standard_normal((8, 32))).astype(np.float32)


def test_products_are_not_rounded() -> None:
    w = weights(32, 4)
    proto = single(
        [node("MatMul", ["x", "w"], ["p"]), node("Sub", ["p", "p"], ["z"]), node("Add", ["p", "z"], ["y"])], [("w", w)]
    )
    (found,) = run(proto, x=X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, X.astype(float) @ w.astype(float), rtol=1e-14)


def test_real_casts_change_nothing_and_casts_to_integers_truncate() -> None:
    halves = [node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)]
    np.testing.assert_array_equal(run(single(halves), x=X)[0], X.astype(float))
    integers = [node("Cast", ["x"], ["h"], to=TensorProto.INT32), node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)]
    np.testing.assert_array_equal(run(single(integers), x=X)[0], np.trunc(X.astype(float)))


def test_operators_without_a_definition_run_in_double() -> None:
    index = np.array([[5], [0]], np.int64)
    nodes = [node("GatherND", ["x", "index"], ["g"]), node("Atan", ["g"], ["y"])]
    np.testing.assert_allclose(
        run(single(nodes, [("index", index)]), x=X)[0], np.arctan(X[[5, 0]].astype(float)), rtol=1e-14
    )
    nodes = [node("Gather", ["x", "index"], ["y"], axis=1)]
    np.testing.assert_array_equal(run(single(nodes, [("index", index)]), x=X)[0], X[:, [[5], [0]]].astype(float))
    scale, zero = np.array(0.1, np.float32), np.array(3, np.int8)
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])]
    expected = (np.clip(np.rint(np.linspace(-9, 9, 32) / float(scale)) + 3, -128, 127) - 3) * float(scale)
    small = np.tile(np.linspace(-9, 9, 32, dtype=np.float64), (8, 1))
    found = run(single(nodes, [("s", scale), ("z", zero)]), x=small.astype(np.float32))[0]
    np.testing.assert_allclose(found[0], expected, atol=float(scale) * 1.01)


def body(nodes: Sequence[onnx.NodeProto], **constants: np.ndarray) -> onnx.GraphProto:
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    return helper.make_graph(list(nodes), "body", [], [floats("z", 8, 32)], tensors)


def test_bodies_run_in_double() -> None:
    then = body([node("Add", ["x", "c"], ["z"])], c=np.array(1 / 3, np.float32))
    other = body([node("Neg", ["x"], ["z"])])
    nodes = [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Greater", ["m", "zero"], ["g"])]
    nodes.append(node("If", ["g"], ["y"], then_branch=then, else_branch=other))
    proto = single(nodes, [("zero", np.array(0, np.float32))])
    np.testing.assert_array_equal(run(proto, x=X)[0], X.astype(float) + float(np.float32(1 / 3)))


def test_several_outputs_and_symbolic_sizes() -> None:
    proto = model(
        [node("Split", ["x"], ["a", "b"], axis=1), node("MatMul", ["a", "w"], ["y"]), node("Relu", ["b"], ["z"])],
        [floats("x", "batch", 8)],
        [floats("y", "batch", 3), floats("z", "batch", 4)],
        [("w", weights(4, 3))],
        opset=13,
    )
    for rows in (1, 5):
        x = weights(rows, 8)
        y, z = run(proto, x=x)
        np.testing.assert_allclose(y, x[:, :4].astype(float) @ weights(4, 3).astype(float), rtol=1e-13)
        np.testing.assert_array_equal(z, np.maximum(x[:, 4:], 0).astype(float))


def test_noise_has_the_size_of_the_rounding_of_each_type() -> None:
    x = weights(8, 32)
    double = single([node("Exp", ["x"], ["y"])])
    half = single([node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), node("Exp", ["h"], ["e"]),
                   node("Cast", ["e"], ["y"], to=TensorProto.FLOAT)])  # fmt: skip
    for proto, roundoff in ((double, 2.0**-24), (half, 2.0**-11)):
        exact, noisy = run(proto, x=x)[0], run(proto, Noise(np.random.default_rng(0)), x=x)[0]
        assert 0.5 * roundoff < np.std(noisy / exact - 1) < 2 * roundoff
    still = single([node("Identity", ["x"], ["y"])])
    np.testing.assert_array_equal(run(still, Noise(np.random.default_rng(0)), x=x)[0], x.astype(float))


def test_random_models_have_no_reference() -> None:
    with pytest.raises(NoReference, match="RandomNormalLike"):
        run(single([node("RandomNormalLike", ["x"], ["y"])]), x=X)


def test_unknown_operators_have_no_reference() -> None:
    proto = single([node("Mystery", ["x"], ["y"], domain="com.example")])
    proto.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(NoReference, match="Mystery"):
        run(proto, x=X)


def test_lengths_of_sequences_have_no_reference() -> None:
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 9, 2), "r": (1, 9, 3), "b": (1, 18)}
    constants = [(name, rng.normal(size=shape).astype(np.float32)) for name, shape in shapes.items()]
    layer = node("GRU", ["x", "w", "r", "b", "n"], ["y"], hidden_size=3)
    ends = [floats("x", 4, 1, 2)], [floats("y", 4, 1, 1, 3)]
    proto = model([layer], *ends, [*constants, ("n", np.array([2], np.int32))], opset=17)
    with pytest.raises(NoReference, match="lengths"):
        run(proto, x=np.ones((4, 1, 2), np.float32))


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoReference, match="too long"):
        run(lora(), seconds=-1.0, x=weights(16, 64))
    monkeypatch.setattr(float64, "_MAX_BYTES", 1000)
    with pytest.raises(NoReference, match="memory"):
        run(lora(), x=weights(16, 64))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_quantization_along_an_axis_is_the_runtimes(axis: int) -> None:
    size = 8 if axis == 0 else 32
    scale = np.random.default_rng(2).uniform(0.01, 0.1, size).astype(np.float32)
    zero = np.arange(size).astype(np.uint8)
    nodes = [node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis)]
    nodes.append(node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis))
    proto = single(nodes, [("s", scale), ("z", zero)])
    x = np.random.default_rng(3).standard_normal((8, 32)).astype(np.float32)
    (expected,) = open_session(proto, Target()).run({"x": x})
    np.testing.assert_allclose(run(proto, x=x)[0], expected, rtol=1e-6)
