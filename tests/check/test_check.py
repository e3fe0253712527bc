"""Pairs of models: the same function in other files, single mutations, other interfaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from superopt.bench.contestants import Contestant
from superopt.check import DIFFERENT, EQUIVALENT, UNKNOWN, Answer, CheckOptions, check, replay
from superopt.check.tools import check_tool
from superopt.cli.commands import main
from superopt.report import render_check
from tests.support.models import floats, lora, model, weights
from tests.support.runtime_oracle import session

node = helper.make_node
_W, _V, _K = weights(8, 8), weights(8, 8, seed=1), weights(4, 3, 3, 3, seed=2)


def _network(opset: int = 17) -> onnx.ModelProto:
    """A small network with a Conv, a Softmax and products."""
    return model(
        [
            node("Conv", ["image", "k"], ["c"], pads=[1, 1, 1, 1]),
            node("ReduceMean", ["c"], ["p"], axes=[1, 3], keepdims=0),
            node("MatMul", ["p", "w"], ["m"]),
            node("Softmax", ["m"], ["s"], axis=-1),
            node("MatMul", ["x", "v"], ["n"]),
            node("Sub", ["s", "n"], ["d"]),
            node("Concat", ["d", "s"], ["y"], axis=1),
        ],
        [floats("image", "N", 3, 8, 8), floats("x", "N", 8)],
        [floats("y", "N", 16)],
        [("w", _W), ("v", _V), ("k", _K)],
        opset,
    )


def _checked(left: onnx.ModelProto, right: onnx.ModelProto, seconds: float = 20.0) -> Answer:
    return check(left, right, CheckOptions(seconds=seconds))


def _scaled(name: str, element: tuple[int, ...] | None = None) -> Callable[[onnx.ModelProto], None]:
    def mutate(proto: onnx.ModelProto) -> None:
        for tensor in proto.graph.initializer:
            if tensor.name == name:
                values = numpy_helper.to_array(tensor).copy()
                values[element or ...] *= np.float32(1.01)
                tensor.CopyFrom(numpy_helper.from_array(values, name))

    return mutate


def _attribute(op: str, name: str, value: object) -> Callable[[onnx.ModelProto], None]:
    def mutate(proto: onnx.ModelProto) -> None:
        for one in proto.graph.node:
            if one.op_type == op:
                kept = [a for a in one.attribute if a.name != name]
                del one.attribute[:]
                one.attribute.extend([*kept, helper.make_attribute(name, value)])

    return mutate


def _swapped(op: str) -> Callable[[onnx.ModelProto], None]:
    def mutate(proto: onnx.ModelProto) -> None:
        for one in proto.graph.node:
            if one.op_type == op:
                one.input[:] = reversed(one.input)

    return mutate


MUTATIONS = {
    "weight": _scaled("w"),
    "one weight": _scaled("v", (2, 3)),
    "one weight of a kernel": _scaled("k", (1, 2, 0, 1)),
    "axis of a mean": _attribute("ReduceMean", "axes", [1, 2]),
    "axis of Softmax": _attribute("Softmax", "axis", 0),
    "pads": _attribute("Conv", "pads", [0, 1, 2, 1]),
    "operands of Sub": _swapped("Sub"),
    "operands of Concat": _swapped("Concat"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_different(name: str) -> None:
    mutant = _network()
    MUTATIONS[name](mutant)
    answer = _checked(_network(), mutant)
    assert answer.verdict == DIFFERENT, answer.reason
    assert answer.difference is not None and answer.parting is not None


def test_the_pair_where_models_part_is_the_mutated_operator() -> None:
    mutant = _network()
    MUTATIONS["one weight"](mutant)
    parting = _checked(_network(), mutant).parting
    assert parting is not None
    assert (parting.left, parting.right, parting.left_operator, parting.agreeing) == ("n", "n", "MatMul", ["x"])


def _renamed(proto: onnx.ModelProto) -> onnx.ModelProto:
    kept = {v.name for v in (*proto.graph.input, *proto.graph.output)}
    for one in proto.graph.node:
        for names in (one.input, one.output):
            names[:] = [n if n in kept else f"t/{n}" for n in names]
    for tensor in proto.graph.initializer:
        tensor.name = f"t/{tensor.name}"
    return proto


def _reordered(proto: onnx.ModelProto) -> onnx.ModelProto:
    nodes = list(proto.graph.node)
    del proto.graph.node[:]
    proto.graph.node.extend([nodes[4], *nodes[:4], *nodes[5:]])
    return proto


@pytest.mark.parametrize("other", [_network(), _renamed(_network()), _reordered(_network())])
def test_the_same_network_in_another_file_is_equivalent(other: onnx.ModelProto) -> None:
    assert _checked(_network(), other).verdict == EQUIVALENT


def test_another_opset_is_not_different() -> None:
    other = onnx.version_converter.convert_version(_network(), 18)
    assert _checked(_network(), other, 1).verdict != DIFFERENT


def _relu(*shape: int | str, name: str = "x", out: str = "y", dtype: int = TensorProto.FLOAT) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, dtype, list(shape)) for n in (name, out)]
    return model([node("Relu", [name], [out])], values[:1], values[1:])


@pytest.mark.parametrize(
    "other",
    [
        _relu(1, 8),
        _relu("N", 8, name="z"),
        _relu("N", 8, out="z"),
        _relu("N", 8, dtype=TensorProto.FLOAT16),
        _relu("N"),
    ],
)
def test_other_interfaces_are_different(other: onnx.ModelProto) -> None:
    answer = _checked(_relu("N", 8), other)
    assert answer.verdict == DIFFERENT and answer.interface


def test_dynamic_sizes_may_have_other_names() -> None:
    assert _checked(_relu("N", 8), _relu("batch", 8)).verdict == EQUIVALENT


def test_a_changed_output_shape_is_different() -> None:
    flat = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", "b")], [("s", _ints(-1, 4))]
    )
    same = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", "b")], [("s", _ints(-1, 8))]
    )
    assert _checked(flat, same).verdict == DIFFERENT


def test_a_size_that_is_fixed_inside_is_different() -> None:
    fixed = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", 8)], [("s", _ints(1, 8))]
    )
    free = model(
        [node("Reshape", ["x", "s"], ["y"])], [floats("x", "N", 8)], [floats("y", "a", 8)], [("s", _ints(-1, 8))]
    )
    assert _checked(free, fixed).verdict == DIFFERENT


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def test_names_may_correspond_by_position() -> None:
    other = _relu("N", 8, name="y", out="x")
    answer = check(_relu("N", 8), other, CheckOptions(seconds=2, by_position=True))
    assert answer.verdict == EQUIVALENT


def test_rows_of_a_table_are_reached() -> None:
    def table(values: np.ndarray) -> onnx.ModelProto:
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["N"])
        return model([node("Gather", ["t", "ids"], ["y"])], [ids], [floats("y", "N", 4)], [("t", values)])

    values = weights(50, 4)
    other = values.copy()
    other[40:] *= 1.01
    assert _checked(table(values), table(other)).verdict == DIFFERENT


def test_integers_that_wrap_are_reached() -> None:
    """2 x / 2 is x, unless 2 x is beyond the largest integer."""
    same = _relu(4, dtype=TensorProto.INT32)
    halved = _relu(4, dtype=TensorProto.INT32)
    relu = halved.graph.node[0]
    relu.output[0] = "r"
    halved.graph.initializer.append(numpy_helper.from_array(np.array(2, np.int32), "two"))
    halved.graph.node.append(helper.make_node("Mul", ["r", "two"], ["doubled"]))
    halved.graph.node.append(helper.make_node("Div", ["doubled", "two"], ["y"]))
    assert _checked(same, halved).verdict == DIFFERENT


def test_the_saved_input_shows_the_difference(tmp_path: Path) -> None:
    mutant = _network()
    MUTATIONS["axis of Softmax"](mutant)
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, proto in zip(paths, (_network(), mutant), strict=True):
        onnx.save(proto, path)
    page, saved = tmp_path / "page.html", tmp_path / "saved.npz"
    command = ["check", *map(str, paths), "--seconds", "20", "--json", "--witness", str(saved), "--html", str(page)]
    found = CliRunner().invoke(main, command)
    assert found.exit_code == 1, found.output
    answer = json.loads(found.stdout)
    with np.load(saved) as file:
        feeds = {name: file[name] for name in file.files}
    left, right = (session(proto).run(None, feeds)[0] for proto in (_network(), mutant))
    index = tuple(answer["difference"]["index"])
    assert left[index] != right[index]
    assert "Different" in page.read_text()


def test_a_certificate_replays_for_its_models_only(tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    answer = check(_network(), _renamed(_network()), CheckOptions(seconds=2, certificate=proof))
    assert answer.certificate == str(proof)
    assert replay(proof, _network(), _renamed(_network())).verdict == EQUIVALENT
    mutant = _network()
    MUTATIONS["operands of Concat"](mutant)
    assert replay(proof, _network(), mutant).verdict != EQUIVALENT


def test_an_unreadable_model_is_one_line(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(_network(), good)
    bad.write_bytes(b"no model")
    found = CliRunner().invoke(main, ["check", str(good), str(bad)])
    assert found.exit_code == 2
    assert found.stderr.startswith("error: ") and found.stderr.count("\n") == 1


def test_the_results_of_a_tool_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    onnx.save(_network(), path)
    row = check_tool("onnxruntime-basic", path, CheckOptions(seconds=2))
    assert row.answer is not None and row.verdict != DIFFERENT and row.nodes is not None
    assert row.version == onnxruntime.__version__


def test_the_page_draws_what_was_not_proven() -> None:
    answer = json.loads(_checked(_relu("N", 8), _relu("N", 8)).to_json())
    pair = {"left": "a<b", "right": "b", "reason": "not proven", "left_graph": "Relu(x)", "right_graph": "Max(x, w1)"}
    page = render_check({**answer, "verdict": "Unknown", "unproven": [pair]})
    assert "a&lt;b" in page and "<svg" in page and "Relu" in page


def test_a_model_that_loads_and_does_not_run_is_different() -> None:
    wrong = model(
        [node("Shape", ["x"], ["n"]), node("Sub", ["n", "one"], ["m"]), node("Reshape", ["x", "m"], ["y"])],
        [floats("x", "N", 8)],
        [floats("y", "N", 8)],
        [("one", _ints(0, 1))],
    )
    assert _checked(_relu("N", 8), wrong).verdict == DIFFERENT


def test_optimize_proves_its_result_again(tmp_path: Path) -> None:
    path, out = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(_network(), path)
    found = CliRunner().invoke(main, ["optimize", str(path), "-o", str(out), "--quick", "--check", "--json"])
    assert found.exit_code == 0, found.output
    answer = json.loads(found.stdout)
    assert out.exists() and (not answer["changed"] or answer["check"]["verdict"] != DIFFERENT)


def test_optimize_writes_nothing_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(*_: object, **__: object) -> Answer:
        return Answer("a", "b", DIFFERENT, "for this test")

    monkeypatch.setattr("superopt.cli.second_proof.check", differs)
    path, out = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(lora(), path)
    found = CliRunner().invoke(main, ["optimize", str(path), "-o", str(out), "--quick", "--check"])
    assert found.exit_code == 1 and not out.exists()
    assert "differs from the original" in found.stderr


def test_a_stated_output_shape_must_be_right() -> None:
    wrong = _relu("N", 8)
    wrong.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 2
    assert _checked(_relu("N", 8), wrong).verdict == DIFFERENT
    vague = _relu("N", 8)
    vague.graph.output[0].type.tensor_type.ClearField("shape")
    assert _checked(_relu("N", 8), vague).verdict == EQUIVALENT
    assert _checked(vague, _relu("N", 8)).verdict == EQUIVALENT


def test_a_model_whose_types_contradict_is_different() -> None:
    wrong = _network()
    _swapped("MatMul")(wrong)
    assert _checked(_network(), wrong).verdict == DIFFERENT


def test_a_model_with_an_attribute_of_no_operator_set_is_different() -> None:
    """A tool writes `allowzero`, new in opset 14, into a model of opset 12."""
    numbers = [("sizes", np.int64([8, -1]))]
    models = [
        model([helper.make_node("Reshape", ["x", "sizes"], ["y"], **attrs)], [floats("x", 4, 6)], [floats("y", 8, 3)],
              numbers, opset=12)
        for attrs in ({}, {"allowzero": 0})
    ]  # fmt: skip
    found = _checked(*models)
    assert found.verdict == DIFFERENT and "no valid model" in found.reason


@pytest.mark.parametrize("option", [["--shape", "x=3x9"], ["--shape", "z=3x8"]])
def test_shapes_that_do_not_fit_are_one_line(option: list[str], tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    onnx.save(_relu("N", 8), path)
    found = CliRunner().invoke(main, ["check", str(path), str(path), *option])
    assert found.exit_code == 2 and found.stderr.startswith("error: ")


def _pointwise(op: str, value: object, dtype: int = TensorProto.FLOAT, to: int = 0) -> onnx.ModelProto:
    out = to or dtype
    nodes = [node(op, ["x", "w"], ["z" if to else "y"]), *([node("Cast", ["z"], ["y"], to=to)] if to else [])]
    values = [helper.make_tensor_value_info(name, kind, ["N", 8]) for name, kind in (("x", dtype), ("y", out))]
    constant = np.array(value, helper.tensor_dtype_to_np_dtype(dtype))
    return model(nodes, values[:1], values[1:], [("w", constant)])


def test_boundaries_of_comparisons_are_reached() -> None:
    greater, equal = (_pointwise(op, 0.37, to=TensorProto.FLOAT) for op in ("Greater", "GreaterOrEqual"))
    assert _checked(greater, equal).verdict == DIFFERENT


def test_strings_differ() -> None:
    one, other = (
        model(
            [node("Concat", ["x", "w"], ["y"], axis=0)],
            [helper.make_tensor_value_info("x", TensorProto.STRING, ["N"])],
            [helper.make_tensor_value_info("y", TensorProto.STRING, ["M"])],
            [("w", np.array([word], object))],
        )
        for word in ("a", "b")
    )
    assert _checked(one, one).verdict == EQUIVALENT
    assert _checked(one, other).verdict == DIFFERENT


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
def test_roundings_are_no_difference(dtype: int) -> None:
    divided = _pointwise("Div", 3, dtype)
    assert _checked(divided, _pointwise("Mul", 1 / 3, dtype), 1).verdict != DIFFERENT
    factor = 1.03 if dtype == TensorProto.FLOAT16 else 1.01
    assert _checked(divided, _pointwise("Mul", factor / 3, dtype)).verdict == DIFFERENT


def test_a_cancellation_that_rounds_more_is_no_difference() -> None:
    mean = np.full(8, 1000, np.float32)
    before = model(
        [node("Sub", ["x", "m"], ["c"]), node("MatMul", ["c", "w"], ["y"])],
        [floats("x", "N", 8)],
        [floats("y", "N", 8)],
        [("m", mean), ("w", _W)],
    )
    after = model(
        [node("MatMul", ["x", "w"], ["c"]), node("Sub", ["c", "k"], ["y"])],
        [floats("x", "N", 8)],
        [floats("y", "N", 8)],
        [("k", mean @ _W), ("w", _W)],
    )
    assert _checked(before, after, 1).verdict != DIFFERENT


def test_a_missing_tool_and_an_unreadable_model_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    found = CliRunner().invoke(main, ["check", "--against", "onnxruntime", str(bad), "--json"])
    assert found.exit_code == 2 and json.loads(found.stdout)[0]["verdict"] == "unreadable"
    monkeypatch.setattr(Contestant, "installed", lambda self: False)
    found = CliRunner().invoke(main, ["check", "--against", "onnxslim", str(bad)])
    assert found.exit_code == 2 and found.stderr == "error: onnxslim is not installed here; pip install onnxslim\n"


def test_an_operator_that_is_not_known_here_is_no_difference() -> None:
    other = _relu("N", 8)
    other.graph.node[0].domain, other.graph.node[0].op_type = "my.domain", "Mystery"
    other.opset_import.append(helper.make_opsetid("my.domain", 1))
    answer = _checked(_relu("N", 8), other)
    assert answer.verdict == UNKNOWN and answer.notices


def test_a_model_may_have_further_inputs_with_default_values() -> None:
    """Whoever runs A can run B in the same way; but not the other way round."""
    plain, other = _network(), _network()
    other.graph.input.append(floats("v", 8, 8))
    found = _checked(plain, other)
    assert found.verdict == EQUIVALENT and found.notices == ["inputs that B alone has are at their default values: 'v'"]
    assert _checked(other, other).verdict == EQUIVALENT
    assert _checked(other, plain, seconds=2).verdict == UNKNOWN
    _scaled("v")(other)
    assert _checked(plain, other).verdict == DIFFERENT


def test_a_weight_that_became_an_input_is_different() -> None:
    other = _network()
    other.graph.initializer.remove(next(weight for weight in other.graph.initializer if weight.name == "v"))
    other.graph.input.append(floats("v", 8, 8))
    found = _checked(_network(), other)
    assert found.verdict == DIFFERENT
    assert found.interface == ["B has no value for its input 'v', which is a weight of A"] and not found.notices


def _loudness(guard: float) -> onnx.ModelProto:
    """The logarithms of amplitudes, `guard` added to them, wherever the bound of frequencies exceeds 50."""
    return model(
        [
            node("Abs", ["sound"], ["a"]),
            node("Add", ["a", "guard"], ["g"]),
            node("Log", ["g"], ["l"]),
            node("Greater", ["bound", "fifty"], ["is_heard"]),
            node("Where", ["is_heard", "l", "fifty"], ["y"]),
        ],
        [floats("sound", "n"), floats("bound")],
        [floats("y", "n")],
        [("guard", np.float32(guard)), ("fifty", np.float32(50))],
    )


def test_silence_beside_a_large_bound_is_tried() -> None:
    assert _checked(_loudness(1e-8), _loudness(0)).verdict == DIFFERENT
    assert _checked(_loudness(1e-8), _loudness(1e-8)).verdict == EQUIVALENT


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

    assert _checked(pooled([3], [2]), pooled([2, 3])).verdict == EQUIVALENT


def test_outputs_that_nothing_reads_need_no_name() -> None:
    """A GRU of both directions has no definition here, so its nodes must be the same."""

    def recurrent(*outputs: str) -> onnx.ModelProto:
        return model(
            [node("GRU", ["x", "w", "r"], list(outputs), hidden_size=4, direction="bidirectional")],
            [floats("x", "steps", 1, 3)],
            [floats("y", "steps", 2, 1, 4)],
            [("w", weights(2, 12, 3)), ("r", weights(2, 12, 4, seed=1))],
        )

    assert _checked(recurrent("y", "state"), recurrent("y")).verdict == EQUIVALENT
    assert _checked(recurrent("y"), recurrent("y", "state")).verdict == EQUIVALENT
    assert _checked(recurrent("y", "state"), recurrent("other", "y"), seconds=2).verdict != EQUIVALENT


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
    assert _checked(ours, theirs, seconds=4).verdict != EQUIVALENT
