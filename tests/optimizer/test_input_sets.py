"""Inputs of other scales, around the model's constants, and integers at the edges."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from superopt.onnx_io import read_model
from superopt.optimizer.input_sets import input_sets
from superopt.runtime import Feeds
from tests.support.models import floats, model, weights

node = helper.make_node
MEAN = np.random.default_rng(0).uniform(5e5, 2e6, 6).astype(np.float32)
STD = np.random.default_rng(1).uniform(1, 5, 6).astype(np.float32)
CONSTANTS = [("mean", MEAN), ("std", STD), ("scale", 1 / STD), ("shift", -MEAN / STD)]


def sets(proto: onnx.ModelProto, feeds: Feeds, *fixed: str) -> dict[str, list[Feeds]]:
    terms = read_model(proto).at_shapes({name: array.shape for name, array in feeds.items()})
    return dict(input_sets(terms, feeds, 0, fixed))


def around(nodes: list[onnx.NodeProto], *shape: int) -> np.ndarray:
    """Return the critical value of the input x, of this shape, of a model with these nodes and a last MatMul."""
    proto = model(nodes, [floats("x", *shape)], [onnx.ValueInfoProto(name="y")], CONSTANTS)
    (feeds,) = sets(proto, {"x": weights(*shape)})["around constants"]
    return feeds["x"]


def assert_near_mean(x: np.ndarray) -> None:
    """The spread around the mean is that of the standard deviation."""
    normal = (x.astype(float) - MEAN) / STD
    assert 0.5 < np.std(normal) < 2 and np.abs(normal).max() < 6


def test_standardization_in_several_forms() -> None:
    assert_near_mean(
        around([node("Sub", ["x", "mean"], ["c"]), node("Div", ["c", "std"], ["s"]), node("Tanh", ["s"], ["y"])], 64, 6)
    )
    assert_near_mean(
        around(
            [node("Mul", ["x", "scale"], ["c"]), node("Add", ["c", "shift"], ["s"]), node("Relu", ["s"], ["y"])], 64, 6
        )
    )
    moved = around(
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0]),
            node("Sub", ["t", "mean"], ["c"]),
            node("Div", ["c", "std"], ["y"]),
        ],
        6,
        64,
    )
    assert_near_mean(moved.T)
    swapped = around(
        [node("Sub", ["mean", "x"], ["c"]), node("Neg", ["c"], ["n"]), node("Div", ["n", "std"], ["y"])], 64, 6
    )
    assert_near_mean(swapped)


def test_batch_normalization() -> None:
    ones = np.ones(6, np.float32)
    proto = model(
        [node("BatchNormalization", ["x", "one", "zero", "mean", "var"], ["b"]), node("Relu", ["b"], ["y"])],
        [floats("x", 4, 6, 8)],
        [floats("y", 4, 6, 8)],
        [("one", ones), ("zero", 0 * ones), ("mean", MEAN), ("var", STD**2)],
    )
    (feeds,) = sets(proto, {"x": weights(4, 6, 8)})["around constants"]
    assert_near_mean(feeds["x"].transpose(0, 2, 1))


def test_joined_inputs_get_their_parts() -> None:
    proto = model(
        [
            node("Concat", ["a", "b"], ["x"], axis=1),
            node("Sub", ["x", "mean"], ["c"]),
            node("Div", ["c", "std"], ["y"]),
        ],
        [floats("a", 64, 2), floats("b", 64, 4)],
        [floats("y", 64, 6)],
        CONSTANTS[:2],
    )
    feeds = {"a": weights(64, 2), "b": weights(64, 4)}
    (found,) = sets(proto, feeds)["around constants"]
    assert_near_mean(np.concatenate([found["a"], found["b"]], axis=1))
    (found,) = sets(proto, feeds, "a")["around constants"]
    np.testing.assert_array_equal(found["a"], feeds["a"])


def test_integer_images_are_rounded_into_their_range() -> None:
    proto = model(
        [node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), node("Sub", ["f", "m"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [4, 8])],
        [floats("y", 4, 8)],
        [("m", np.array(120, np.float32))],
    )
    (found,) = sets(proto, {"x": np.zeros((4, 8), np.uint8)})["around constants"]
    assert found["x"].dtype == np.uint8 and np.abs(found["x"].astype(int) - 120).max() < 6


def test_scales() -> None:
    proto = model([node("Relu", ["x"], ["y"])], [floats("x", 4)], [floats("y", 4)])
    x = weights(4)
    found = sets(proto, {"x": x})
    assert list(found) == ["offset", "large", "small"]
    np.testing.assert_array_equal(found["offset"][0]["x"], x + np.float32(4096))
    np.testing.assert_array_equal([feeds["x"] for feeds in found["large"]], [x * 4096, x * 64, x * 8])
    np.testing.assert_array_equal(found["small"][0]["x"], x / 4096)
    assert not sets(proto, {"x": x}, "x")


def test_integers_that_are_computed_with_get_the_edges() -> None:
    def integers(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64, [32])

    nodes = [node("Mul", ["x", "x"], ["p"]), node("Gather", ["table", "i"], ["g"]), node("Div", ["d", "d"], ["q"]),
             node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)]  # fmt: skip
    outputs = [onnx.ValueInfoProto(name=name) for name in ("y", "g", "q")]
    proto = model(nodes, [integers("x"), integers("i"), integers("d")], outputs, [("table", weights(4, 4))])
    zeros = {name: np.zeros(32, np.int64) for name in "xid"}
    (found,) = sets(proto, zeros)["integer edges"]
    limits = np.iinfo(np.int64)
    assert {limits.min, limits.max, 0, 2**53 + 1} <= set(found["x"].tolist())
    assert not found["i"].any() and not found["d"].any()  # an index, and a divisor
