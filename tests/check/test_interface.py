"""Inputs, outputs, names, types and sizes: where models have other ones, and where a window must fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper

from superopt.check import DIFFERENT, EQUIVALENT, UNKNOWN, CheckOptions, check
from superopt.check.answer_text import answer_text
from superopt.cli.commands import main
from tests.support.checked import checked, ints, network, relu, scaled, swapped
from tests.support.models import floats, model, weights
from tests.support.simplified import parsed

node = helper.make_node


@pytest.mark.parametrize(
    "other",
    [
        relu(1, 8),
        relu("N", 8, name="z"),
        relu("N", 8, out="z"),
        relu("N", 8, dtype=TensorProto.FLOAT16),
        relu("N"),
    ],
)
def test_other_interfaces_are_different(other: onnx.ModelProto) -> None:
    answer = checked(relu("N", 8), other)
    assert answer.verdict == DIFFERENT and answer.interface


def test_dynamic_sizes_may_have_other_names() -> None:
    assert checked(relu("N", 8), relu("batch", 8)).verdict == EQUIVALENT


def test_sizes_that_are_equal_in_the_first_model_only_are_told() -> None:
    """The first model states N by N; what the second one does with other sizes is no question of their equality."""
    square, any_sizes = (
        parsed(f"g (float[N, {other}] x) => (float[a, b] y) {{ s = Shape(x) {nodes} y = Reshape(x, t) }}")
        for other, nodes in (("N", "t = Identity(s)"), ("M", "i = Constant<value_ints = [1, 0]>() t = Gather(s, i)"))
    )
    found = checked(square, any_sizes, 5)
    assert found.verdict == EQUIVALENT and any("'N'" in notice for notice in found.notices)
    assert not checked(square, square, 5).notices


def test_a_changed_output_shape_is_different() -> None:
    flat = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", "b")], [("s", ints(-1, 4))]
    )
    same = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", "b")], [("s", ints(-1, 8))]
    )
    assert checked(flat, same).verdict == DIFFERENT


def test_a_size_that_is_fixed_inside_is_different() -> None:
    fixed = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", 8)], [("s", ints(1, 8))]
    )
    free = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", 8)], [("s", ints(-1, 8))]
    )
    assert checked(free, fixed).verdict == DIFFERENT


def test_names_may_correspond_by_position() -> None:
    other = relu("N", 8, name="y", out="x")
    answer = check(relu("N", 8), other, CheckOptions(seconds=2, by_position=True))
    assert answer.verdict == EQUIVALENT


def test_keywords_replace_options() -> None:
    other = relu("N", 8, name="y", out="x")
    assert check(relu("N", 8), other, seconds=2, by_position=True).verdict == EQUIVALENT
    with pytest.raises(
        TypeError, match=r"secs .did you mean seconds\?.; help.superopt\.check\.CheckOptions. describes"
    ):
        check(relu("N", 8), other, secs=2)
    with pytest.raises(TypeError, match=r"must be superopt\.check\.CheckOptions, not dict"):
        check(relu("N", 8), other, {"seconds": 2})  # type: ignore[arg-type]


def two_outputs() -> onnx.ModelProto:
    other = relu("N", 8, out="z")
    other.graph.output.append(floats("x", "N", 8))
    return other


@pytest.mark.parametrize(
    ("other", "helps"), [(relu("N", 8, out="z"), True), (relu(1, 8, out="z"), False), (two_outputs(), False)]
)
def test_positions_are_proposed_where_only_names_differ(other: onnx.ModelProto, helps: bool) -> None:
    answer = checked(relu("N", 8), other)
    assert any("--by-position" in notice for notice in answer.notices) == helps
    assert answer_text(answer).count("B has no output 'y'") == 1


def test_a_stated_output_shape_must_be_right() -> None:
    wrong = relu("N", 8)
    wrong.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2
    assert checked(relu("N", 8), wrong).verdict == DIFFERENT
    vague = relu("N", 8)
    vague.graph.output[0].type.tensor_type.ClearField("shape")
    assert checked(relu("N", 8), vague).verdict == EQUIVALENT
    assert checked(vague, relu("N", 8)).verdict == EQUIVALENT


def test_a_model_whose_types_contradict_is_different() -> None:
    wrong = network()
    swapped("MatMul")(wrong)
    assert checked(network(), wrong).verdict == DIFFERENT


def test_a_model_with_an_attribute_of_no_operator_set_is_different() -> None:
    """A tool writes `allowzero`, new in opset 14, into a model of opset 12."""
    numbers = [("sizes", np.int64([8, -1]))]
    models = [
        model([helper.make_node("Reshape", ["x", "sizes"], ["y"], **attrs)], [floats("x", 4, 6)], [floats("y", 8, 3)],
              numbers, opset=12)
        for attrs in ({}, {"allowzero": 0})
    ]  # fmt: skip
    found = checked(*models)
    assert found.verdict == DIFFERENT and "no valid model" in found.reason


@pytest.mark.parametrize("option", [["--shape", "x=3x9"], ["--shape", "z=3x8"]])
def test_shapes_that_do_not_fit_are_one_line(option: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    onnx.save(relu("N", 8), path)
    found = CliRunner().invoke(main, ["check", str(path), str(path), *option])
    assert found.exit_code == 2 and found.stderr.startswith("error: ")


def test_a_model_may_have_further_inputs_with_default_values() -> None:
    """Whoever runs A can run B in the same way; but not the other way round."""
    plain, other = network(), network()
    other.graph.input.append(floats("v", 8, 8))
    found = checked(plain, other)
    assert found.verdict == EQUIVALENT and found.notices == ["inputs that B alone has are at their default values: 'v'"]
    assert checked(other, other).verdict == EQUIVALENT
    assert checked(other, plain, seconds=2).verdict == UNKNOWN
    scaled("v")(other)
    assert checked(plain, other).verdict == DIFFERENT


def test_a_weight_that_became_an_input_is_different() -> None:
    other = network()
    other.graph.initializer.remove(next(weight for weight in other.graph.initializer if weight.name == "v"))
    other.graph.input.append(floats("v", 8, 8))
    found = checked(network(), other)
    assert found.verdict == DIFFERENT
    assert found.interface == ["B has no value for its input 'v', which is a weight of A"] and not found.notices


def test_windows_fit_where_a_model_is_defined() -> None:
    """The largest element of no window is not defined, so there is one at least."""

    def pooled(*axes: list[int]) -> onnx.ModelProto:
        names = ["p", *(f"m{k}" for k in range(len(axes) - 1)), "y"]
        return model(
            [
                node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
                *(
                    node("ReduceMax", [a], [b], axes=k, keepdims=0)
                    for a, b, k in zip(names, names[1:], axes, strict=False)
                ),
            ],
            [floats("x", "n", 3, "frames", 20)],
            [floats("y", "n", 3)],
        )

    assert checked(pooled([3], [2]), pooled([2, 3])).verdict == EQUIVALENT


def test_outputs_that_nothing_reads_need_no_name() -> None:
    """A GRU of both directions has no definition here, so its nodes must be the same."""

    def recurrent(*outputs: str) -> onnx.ModelProto:
        return model(
            [node("GRU", ["x", "w", "r"], list(outputs), hidden_size=4, direction="bidirectional")],
            [floats("x", "steps", 1, 3)],
            [floats("y", "steps", 2, 1, 4)],
            [("w", weights(2, 12, 3)), ("r", weights(2, 12, 4, seed=1))],
        )

    assert checked(recurrent("y", "state"), recurrent("y")).verdict == EQUIVALENT
    assert checked(recurrent("y"), recurrent("y", "state")).verdict == EQUIVALENT
    assert checked(recurrent("y", "state"), recurrent("other", "y"), seconds=2).verdict != EQUIVALENT


def test_windows_of_the_second_model_need_not_fit() -> None:
    """Adding 0 times the largest element of a window fails where there is none."""
    ours = model([node("Relu", ["x"], ["y"])], [floats("x", "n", 3, "frames", 20)], [floats("y", "n", 3, "frames", 20)])
    theirs = model(
        [
            node("MaxPool", ["x"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
            node("ReduceMax", ["p"], ["m"], axes=[2, 3], keepdims=1),
            node("Sub", ["m", "m"], ["z"]),
            node("Relu", ["x"], ["r"]),
            node("Add", ["r", "z"], ["y"]),
        ],
        [floats("x", "n", 3, "frames", 20)],
        [floats("y", "n", 3, "frames", 20)],
    )
    assert checked(ours, theirs, seconds=4).verdict != EQUIVALENT


def test_sizes_that_the_first_model_needs_to_be_equal_do_not_differ() -> None:
    """A Concat of (n, m) and (n, k) rows is computed for m = k only, so a result of m columns has k."""
    inputs = "float[n, m] x, float[n, k] z"
    rows = "t = Concat<axis = 0>(x, z) s = Shape(t) y = ConstantOfShape(s)"
    twice = "<int64[2] two = {2, 1}> { r = Shape(x) s = Mul(r, two) y = ConstantOfShape(s) }"
    left, right = (parsed(f"g ({inputs}) => (float[a, b] y) {body}") for body in (f"{{ {rows} }}", twice))
    assert checked(left, right, 1).verdict != DIFFERENT
    other = parsed(f"g ({inputs}) => (float[a, b] y) {twice.replace('{2, 1}', '{3, 1}')}")
    assert checked(left, other, 1).verdict == DIFFERENT
