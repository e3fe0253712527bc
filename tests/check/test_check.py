"""Pairs of models: the same function in other files, single mutations, and what the search for differences reaches."""

from __future__ import annotations

import json
from html import unescape
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
from tests.support.checked import attribute, checked, ints, network, relu, scaled, swapped
from tests.support.models import floats, lora, model, weights
from tests.support.runtime_oracle import session
from tests.support.simplified import parsed

node = helper.make_node


MUTATIONS = {
    "weight": scaled("w"),
    "one weight": scaled("v", (2, 3)),
    "one weight of a kernel": scaled("k", (1, 2, 0, 1)),
    "axis of a mean": attribute("ReduceMean", "axes", [1, 2]),
    "axis of Softmax": attribute("Softmax", "axis", 0),
    "pads": attribute("Conv", "pads", [0, 1, 2, 1]),
    "operands of Sub": swapped("Sub"),
    "operands of Concat": swapped("Concat"),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_different(name: str) -> None:
    mutant = network()
    MUTATIONS[name](mutant)
    answer = checked(network(), mutant)
    assert answer.verdict == DIFFERENT, answer.reason
    assert answer.difference is not None and answer.parting is not None


def test_the_pair_where_models_part_is_the_mutated_operator() -> None:
    mutant = network()
    MUTATIONS["one weight"](mutant)
    parting = checked(network(), mutant).parting
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


@pytest.mark.parametrize("other", [network(), _renamed(network()), _reordered(network())])
def test_the_same_network_in_another_file_is_equivalent(other: onnx.ModelProto) -> None:
    assert checked(network(), other).verdict == EQUIVALENT


def test_another_opset_is_not_different() -> None:
    other = onnx.version_converter.convert_version(network(), 18)
    assert checked(network(), other, 1).verdict != DIFFERENT


def test_rows_of_a_table_are_reached() -> None:
    def table(values: np.ndarray) -> onnx.ModelProto:
        ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["N"])
        return model([node("Gather", ["t", "ids"], ["y"])], [ids], [floats("y", "N", 4)], [("t", values)])

    values = weights(50, 4)
    other = values.copy()
    other[40:] *= 1.01
    assert checked(table(values), table(other)).verdict == DIFFERENT


def test_integers_that_wrap_are_reached() -> None:
    """2 x / 2 is x, unless 2 x is beyond the largest integer."""
    same = relu(4, dtype=TensorProto.INT32)
    halved = relu(4, dtype=TensorProto.INT32)
    doubled = halved.graph.node[0]
    doubled.output[0] = "r"
    halved.graph.initializer.append(numpy_helper.from_array(np.array(2, np.int32), "two"))
    halved.graph.node.append(helper.make_node("Mul", ["r", "two"], ["doubled"]))
    halved.graph.node.append(helper.make_node("Div", ["doubled", "two"], ["y"]))
    assert checked(same, halved).verdict == DIFFERENT


def test_the_saved_input_shows_the_difference(tmp_path: Path) -> None:
    mutant = network()
    MUTATIONS["axis of Softmax"](mutant)
    paths = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    for path, proto in zip(paths, (network(), mutant), strict=True):
        onnx.save(proto, path)
    page, saved = tmp_path / "page.html", tmp_path / "saved.npz"
    command = ["check", *map(str, paths), "--seconds", "20", "--json", "--witness", str(saved), "--html", str(page)]
    found = CliRunner().invoke(main, command)
    assert found.exit_code == 1, found.output
    answer = json.loads(found.stdout)
    with np.load(saved) as file:
        feeds = {name: file[name] for name in file.files}
    left, right = (session(proto).run(None, feeds)[0] for proto in (network(), mutant))
    index = tuple(answer["difference"]["index"])
    assert left[index] != right[index]
    assert "Different" in page.read_text()


def test_a_certificate_replays_for_its_models_only(tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    answer = check(network(), _renamed(network()), CheckOptions(seconds=2, certificate=proof))
    assert answer.certificate == str(proof)
    assert replay(proof, network(), _renamed(network())).verdict == EQUIVALENT
    mutant = network()
    MUTATIONS["operands of Concat"](mutant)
    assert replay(proof, network(), mutant).verdict != EQUIVALENT


@pytest.mark.parametrize("verdict", [EQUIVALENT, DIFFERENT])
def test_a_full_disk_costs_the_file_and_not_the_answer(
    verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = _renamed(network())
    if verdict == DIFFERENT:
        MUTATIONS["pads"](other)
    paths, written = [tmp_path / "a.onnx", tmp_path / "b.onnx"], tmp_path / "written"
    for path, proto in zip(paths, (network(), other), strict=True):
        onnx.save(proto, path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("superopt.files.os.replace", full)
    command = ["check", *map(str, paths), "-o" if verdict == EQUIVALENT else "--witness", str(written)]
    found = CliRunner().invoke(main, [*command, "--seconds", "20"])
    assert found.exit_code == 2
    assert found.stdout.startswith(verdict) and str(written) not in found.stdout
    assert found.stderr.splitlines()[-1].startswith("error: ") and "No space left" in found.stderr
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_an_unreadable_model_is_one_line(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(network(), good)
    bad.write_bytes(b"no model")
    found = CliRunner().invoke(main, ["check", str(good), str(bad)])
    assert found.exit_code == 2
    assert found.stderr.startswith("error: ") and found.stderr.count("\n") == 1


def test_the_results_of_a_tool_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.onnx"
    onnx.save(network(), path)
    row = check_tool("onnxruntime-basic", path, CheckOptions(seconds=2))
    assert row.answer is not None and row.verdict != DIFFERENT and row.nodes is not None
    assert row.version == onnxruntime.__version__
    assert row.answer is not None and row.answer.right == f"{path.stem}.onnxruntime-basic.onnx"


def test_the_page_draws_what_was_not_proven() -> None:
    answer = json.loads(checked(relu("N", 8), relu("N", 8)).to_json())
    pair = {"left": "a<b", "right": "b", "reason": "not proven", "left_graph": "Relu(x)", "right_graph": "Max(x, w1)"}
    page = render_check({**answer, "verdict": "Unknown", "unproven": [pair]})
    assert "a&lt;b" in page and "<svg" in page and "Relu" in page


def test_the_page_says_the_difference_once() -> None:
    other = network()
    MUTATIONS["pads"](other)
    answer = checked(network(), other)
    problem = answer.reason[1:]
    assert answer.verdict == DIFFERENT and unescape(render_check(json.loads(answer.to_json()))).count(problem) == 1


def test_a_model_that_loads_and_does_not_run_is_different() -> None:
    wrong = model(
        [node("Shape", ["x"], ["n"]), node("Sub", ["n", "one"], ["m"]), node("Reshape", ["x", "m"], ["y"])],
        [floats("x", "N", 8)],
        [floats("y", "N", 8)],
        [("one", ints(0, 1))],
    )
    assert checked(relu("N", 8), wrong).verdict == DIFFERENT


def test_optimize_proves_its_result_again(tmp_path: Path) -> None:
    path, out = tmp_path / "a.onnx", tmp_path / "b.onnx"
    onnx.save(network(), path)
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


def _pointwise(op: str, value: object, dtype: int = TensorProto.FLOAT, to: int = 0) -> onnx.ModelProto:
    out = to or dtype
    nodes = [node(op, ["x", "w"], ["z" if to else "y"]), *([node("Cast", ["z"], ["y"], to=to)] if to else [])]
    values = [helper.make_tensor_value_info(name, kind, ["N", 8]) for name, kind in (("x", dtype), ("y", out))]
    constant = np.array(value, helper.tensor_dtype_to_np_dtype(dtype))
    return model(nodes, values[:1], values[1:], [("w", constant)])


def test_boundaries_of_comparisons_are_reached() -> None:
    greater, equal = (_pointwise(op, 0.37, to=TensorProto.FLOAT) for op in ("Greater", "GreaterOrEqual"))
    assert checked(greater, equal).verdict == DIFFERENT


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
    assert checked(one, one).verdict == EQUIVALENT
    assert checked(one, other).verdict == DIFFERENT


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE])
def test_roundings_are_no_difference(dtype: int) -> None:
    divided = _pointwise("Div", 3, dtype)
    assert checked(divided, _pointwise("Mul", 1 / 3, dtype), 1).verdict != DIFFERENT
    factor = 1.03 if dtype == TensorProto.FLOAT16 else 1.01
    assert checked(divided, _pointwise("Mul", factor / 3, dtype)).verdict == DIFFERENT


def test_a_cancellation_that_rounds_more_is_no_difference() -> None:
    mean, w = np.full(8, 1000, np.float32), weights(8, 8)
    before = model(
        [node("Sub", ["x", "m"], ["c"]), node("MatMul", ["c", "w"], ["y"])],
        [floats("x", "N", 8)],
        [floats("y", "N", 8)],
        [("m", mean), ("w", w)],
    )
    after = model(
        [node("MatMul", ["x", "w"], ["c"]), node("Sub", ["c", "k"], ["y"])],
        [floats("x", "N", 8)],
        [floats("y", "N", 8)],
        [("k", mean @ w), ("w", w)],
    )
    assert checked(before, after, 1).verdict != DIFFERENT


def test_sequences_are_compared_as_runs() -> None:
    def joined_up(first: str, second: str) -> onnx.ModelProto:
        sequence = helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None)
        inputs = [floats("x", 4), floats("z", 4)]
        return model([node("SequenceConstruct", [first, second], ["s"])], inputs, [sequence])

    answer = checked(joined_up("x", "z"), joined_up("z", "x"))
    assert answer.verdict == DIFFERENT
    assert any("an output is a sequence" in notice for notice in answer.notices)


def test_small_weights_of_half_precision_are_no_zeros() -> None:
    """6.1e-5 is the least normal number of float16, and ONNX Runtime keeps smaller ones."""
    drawn, scales = weights(4, 3).astype(np.float16), np.array([1, 1, 3e-5], np.float16)
    folded = drawn * scales
    ends = [[helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT16, shape)]
            for name, shape in (("x", [2, 4]), ("y", [2, 3]))]  # fmt: skip
    apart = [node("Mul", ["w", "s"], ["u"]), node("MatMul", ["x", "u"], ["y"])]
    before = model(apart, *ends, [("w", drawn), ("s", scales)])

    def after(weight: np.ndarray) -> onnx.ModelProto:
        return model([node("MatMul", ["x", "w"], ["y"])], *ends, [("w", weight)])

    assert checked(before, after(folded)).verdict == EQUIVALENT
    assert checked(before, after(np.where(scales < 1, np.float16(0), folded)), 2).verdict != EQUIVALENT


def test_a_missing_tool_and_an_unreadable_model_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"no model")
    found = CliRunner().invoke(main, ["check", "--against", "onnxruntime", str(bad), "--json"])
    assert found.exit_code == 2 and json.loads(found.stdout)[0]["verdict"] == "unreadable"
    monkeypatch.setattr(Contestant, "installed", lambda self: False)
    found = CliRunner().invoke(main, ["check", "--against", "onnxslim", str(bad)])
    assert found.exit_code == 2 and found.stderr == "error: onnxslim is not installed here; pip install onnxslim\n"


def test_an_operator_that_is_not_known_here_is_no_difference() -> None:
    other = relu("N", 8)
    other.graph.node[0].domain, other.graph.node[0].op_type = "my.domain", "Mystery"
    other.opset_import.append(helper.make_opsetid("my.domain", 1))
    answer = checked(relu("N", 8), other)
    assert answer.verdict == UNKNOWN and answer.notices


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
    assert checked(_loudness(1e-8), _loudness(0)).verdict == DIFFERENT
    assert checked(_loudness(1e-8), _loudness(1e-8)).verdict == EQUIVALENT


def test_nothing_is_asked_where_the_first_model_computes_no_number() -> None:
    head, rest = "g (float[n, 4] x, float[n, 4] z) => (float[n, 4] y) {", "}"
    quotient, plain = parsed(f"{head} a = Mul(z, x) y = Div(a, x) {rest}"), parsed(f"{head} y = Identity(z) {rest}")
    assert checked(quotient, plain, 3).verdict != DIFFERENT  # 0 z / 0 is NaN
    assert checked(plain, quotient, 3).verdict == DIFFERENT


def test_first_axes_are_tried_apart() -> None:
    """Two batches of other names are often equal, but need not be."""
    text = "g (float[n] x, float[m] z) => (int64[1] s) {{ s = Shape({}) }}"
    assert checked(parsed(text.format("x")), parsed(text.format("z")), 3).verdict == DIFFERENT


@pytest.mark.parametrize("shape", [("batch", "samples"), ("samples",)])
def test_a_difference_that_only_a_long_signal_shows(shape: tuple[str, ...]) -> None:
    """No window of 500 samples fits into the small sizes, and a signal alone has no axis for a batch."""

    def spectrum(filter: float) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Reshape", ["x", "one_channel"], ["signal"]),
            helper.make_node("Conv", ["signal", "filters"], ["y"], strides=[160]),
        ]
        filters = np.full((4, 1, 500), filter, np.float32)
        constants = [("one_channel", np.array([1, 1, -1])), ("filters", filters)]
        return model(nodes, [floats("x", *shape)], [floats("y", 1, 4, "frames")], constants)

    assert check(spectrum(0.5), spectrum(0.6), seconds=20).verdict == DIFFERENT
    same = check(spectrum(0.5), spectrum(0.5), seconds=20)
    assert same.verdict == EQUIVALENT and same.tried


def test_a_difference_that_only_loud_and_silent_parts_together_show() -> None:
    """A spectrum in decibels is clamped to 150 below its largest element; noise of one scale is never that low."""

    def decibels(range: float) -> onnx.ModelProto:
        nodes = [
            helper.make_node("Conv", ["x", "filters"], ["amplitudes"], strides=[8]),
            helper.make_node("Mul", ["amplitudes", "amplitudes"], ["power"]),
            helper.make_node("Add", ["power", "least"], ["positive"]),
            helper.make_node("Log", ["positive"], ["log"]),
            helper.make_node("Mul", ["log", "ten"], ["level"]),
            helper.make_node("ReduceMax", ["level"], ["loudest"], keepdims=1),
            helper.make_node("Sub", ["loudest", "range"], ["floor"]),
            helper.make_node("Max", ["level", "floor"], ["y"]),
        ]
        numbers = {"least": 1e-30, "ten": 4.3429446, "range": range}
        constants = [(name, np.array(number, np.float32)) for name, number in numbers.items()]
        constants.append(("filters", weights(4, 1, 8)))
        return model(nodes, [floats("x", 1, 1, 64)], [floats("y", 1, 4, 8)], constants)

    answer = check(decibels(150.0), decibels(160.0), seconds=20)
    assert answer.verdict == DIFFERENT
