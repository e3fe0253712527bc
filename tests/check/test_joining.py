"""Two models over the same leaves."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import Model, ModelError, read_simplified
from tests.support.models import floats, model, weights

W = weights(4, 4)


def _read(*nodes: onnx.NodeProto, size: int | str = "n", opset: int = 17, values: np.ndarray = W) -> Model:
    proto = model(nodes, [floats("x", size, 4)], [floats("y", size, 4)], [("w", values)], opset)
    return read_simplified(proto)


def _relu_of_product(between: str = "h", size: int | str = "n", opset: int = 17, values: np.ndarray = W) -> Model:
    nodes = [helper.make_node("MatMul", ["x", "w"], [between]), helper.make_node("Relu", [between], ["y"])]
    return _read(*nodes, size=size, opset=opset, values=values)


@pytest.mark.parametrize("other", [{"between": "t"}, {"size": "batch"}, {"opset": 14}])
def test_names_of_tensors_and_sizes_and_opsets_do_not_matter(other: dict[str, str]) -> None:
    left, right = joined(_relu_of_product(), _relu_of_product(**other))  # type: ignore[arg-type]
    assert left.outputs == right.outputs
    found = prove_equal(left, right, seconds=1)
    assert found.outputs == (True,) and found.certificate is not None
    assert {match.by for match in found.matches} == {"same"}


def test_other_weights_are_other_terms() -> None:
    changed = W.copy()
    changed[1, 2] *= 1.01
    left, right = joined(_relu_of_product(), _relu_of_product(values=changed))
    assert left.outputs != right.outputs
    assert left.weights.keys() == right.weights.keys()


@pytest.mark.parametrize("size", [3, 1])
def test_a_free_size_does_not_correspond_to_a_number(size: int) -> None:
    with pytest.raises(ModelError, match="input 'x'"):
        joined(_relu_of_product(), _relu_of_product(size=size))


def test_a_number_corresponds_to_a_free_size() -> None:
    left, right = joined(_relu_of_product(size=3), _relu_of_product())
    assert left.outputs == right.outputs


def test_sizes_that_are_equal_in_the_second_model_only_do_not_correspond() -> None:
    def read(other: str) -> Model:
        nodes = [helper.make_node("MatMul", ["x", "y"], ["z"])]
        return read_simplified(
            model(nodes, [floats("x", "a", "b"), floats("y", "b", other)], [floats("z", "a", other)])
        )

    assert joined(read("a"), read("c"))
    with pytest.raises(ModelError, match="input 'y'"):
        joined(read("c"), read("a"))


def test_sizes_inside_are_no_sizes_of_the_other_model() -> None:
    """NonZero gives a free size; here each model's belongs to another operand."""

    def read(operand: str) -> Model:
        nodes = [
            helper.make_node("Neg", ["x"], ["m"]),
            helper.make_node("Relu", ["m"], ["r"]),
            helper.make_node("NonZero", [operand], ["i"]),
            helper.make_node("Shape", ["i"], ["s"]),
            helper.make_node("ConstantOfShape", ["s"], ["y"]),
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, None])
        return read_simplified(model(nodes, [floats("x", 3, 4)], [output]))

    left, right = joined(read("r"), read("x"))
    assert left.outputs != right.outputs
    left, right = joined(read("r"), read("r"))
    assert left.outputs == right.outputs


def test_random_numbers_are_never_equal() -> None:
    def read() -> Model:
        nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
        return _read(*nodes)

    left, right = joined(read(), read())
    assert left.outputs != right.outputs


def test_operators_without_a_definition_are_equal_in_one_specification_only() -> None:
    def read(op: str, opset: int) -> Model:
        return _read(helper.make_node(op, ["x"], ["i"]), helper.make_node("Cast", ["i"], ["y"], to=1), opset=opset)

    for op, equal in (("NonZero", True), ("Hardmax", False)):  # opset 13 has more types of the one, and another Hardmax
        left, right = joined(read(op, 12), read(op, 13))
        assert (left.outputs == right.outputs) == equal
        left, right = joined(read(op, 13), read(op, 14))
        assert left.outputs == right.outputs


def test_defaults_of_the_runtimes_own_operators_do_not_matter() -> None:
    def read(**attrs: int | float) -> Model:
        return _read(helper.make_node("Inverse", ["x"], ["i"], domain="com.microsoft"),
                     helper.make_node("GridSample", ["x", "i"], ["y"], domain="com.microsoft", **attrs))  # fmt: skip

    left, right = joined(read(), read(align_corners=0))
    assert left.outputs == right.outputs
    left, right = joined(read(), read(align_corners=1))
    assert left.outputs != right.outputs


def test_names_in_the_values_of_attributes_do_not_matter() -> None:
    def read(name: str, value: float) -> Model:
        filling = helper.make_tensor(name, 1, [1], [value])
        return _read(helper.make_node("Shape", ["x"], ["s"]),
                     helper.make_node("ConstantOfShape", ["s"], ["y"], value=filling))  # fmt: skip

    left, right = joined(read("value", 2.0), read("", 2.0))
    assert left.outputs == right.outputs
    left, right = joined(read("value", 2.0), read("value", 3.0))
    assert left.outputs != right.outputs


def test_another_input_name_is_an_error() -> None:
    other = read_simplified(
        model([helper.make_node("Relu", ["z"], ["y"])], [floats("z", "n", 4)], [floats("y", "n", 4)])
    )
    with pytest.raises(ModelError, match="only the first model has an input 'x'"):
        joined(_relu_of_product(), other)


@pytest.mark.parametrize("stated", [4, "n"])
def test_no_proof_depends_on_sizes_that_a_file_only_states(stated: int | str) -> None:
    """Compress keeps any number of rows. The file says as many as x has, so a Slice of that many would do nothing."""

    def read(*nodes: onnx.NodeProto) -> Model:
        nodes = (
            helper.make_node("Compress", ["x", "c"], ["u"], axis=0),
            helper.make_node("Shape", ["x"], ["t"]),
            *nodes,
        )
        values = [("s", np.array([0])), ("one", np.array([1]))]
        proto = model(nodes, [floats("x", stated, 4)], [floats("y", stated, 4)], values)
        proto.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, ["m"]))
        proto.graph.value_info.append(floats("u", stated, 4))
        return read_simplified(proto)

    left = read(helper.make_node("Relu", ["u"], ["y"]))
    size = [helper.make_node("Slice", ["t", "s", "one"], ["e"]), helper.make_node("Slice", ["u", "s", "e"], ["v"])]
    right = read(*size, helper.make_node("Relu", ["v"], ["y"]))
    assert prove_equal(*joined(left, right), seconds=10).outputs == (False,)
