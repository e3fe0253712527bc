"""Classes of numerics: what `optimize --numerics` lets through, and that an exact result is exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from superopt.cli import main
from superopt.evaluate import constant, folded
from superopt.ir.infer import make
from superopt.ir.term import Term
from superopt.optimizer import Result, optimize
from superopt.runtime import Feeds, identical, with_specials
from tests.support.certified import certified
from tests.support.models import LORA_RULES, floats, model, weights
from tests.support.runtime_oracle import session
from tests.support.timers import faster

MOVES = """\
Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]
Concat[axis=-1](Split[axis=-1, split=n](x).0, Split[axis=-1, split=n](x).1) = x @ x[_,_] n=[_,_]
Concat[axis=-1](Relu(x), Relu(y)) = Relu(Concat[axis=-1](x, y)) @ x[_,_] y[_,_]
"""


def mixed() -> onnx.ModelProto:
    """One output that data movement alone makes smaller, and one that takes another order of sums."""
    return model(
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
            helper.make_node("Transpose", ["t"], ["u"], perm=[1, 0]),
            helper.make_node("Split", ["u"], ["a", "b"], axis=1),
            helper.make_node("Relu", ["a"], ["ra"]),
            helper.make_node("Relu", ["b"], ["rb"]),
            helper.make_node("Concat", ["ra", "rb"], ["y"], axis=1),
            helper.make_node("MatMul", ["x", "W"], ["base"]),
            helper.make_node("MatMul", ["x", "A"], ["down"]),
            helper.make_node("MatMul", ["down", "B"], ["up"]),
            helper.make_node("Add", ["base", "up"], ["z"]),
        ],
        [floats("x", 256, 256)],
        [floats("y", 256, 256), floats("z", 256, 256)],
        [("W", weights(256, 256)), ("A", weights(256, 128, seed=1)), ("B", weights(128, 256, seed=2))],
        opset=13,
    )


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    return certified(tmp_path / "mixed.rules", MOVES + LORA_RULES)


def optimized(rules: Path, numerics: str, proto: onnx.ModelProto | None = None) -> Result:
    # Costs are the analytic ones: which rewrites win must not depend on what else this machine does.
    return optimize(
        proto or mixed(), ep="cpu", rules=rules, budget=10.0, timer=faster, numerics=numerics, cost="analytic"
    )


def test_exact_moves_data_and_changes_no_bit(rules: Path) -> None:
    result = optimized(rules, "exact")
    assert result.changed, result
    assert result.numerics == "exact"
    assert result.proto is not None
    assert "Transpose" not in result.operators_after and "Split" not in result.operators_after
    assert result.operators_after["MatMul"] == 3
    assert result.difference is not None
    assert (result.difference.absolute, result.difference.tolerance, result.difference.inputs) == (0.0, 0.0, 6)
    before, after = session(mixed()), session(result.proto)
    for seed in range(5):
        x = np.random.default_rng(seed).standard_normal((256, 256)).astype(np.float32)
        for feeds in ({"x": x}, with_specials({"x": x}, seed)):
            for a, b in zip(before.run(None, feeds), after.run(None, feeds), strict=True):
                assert a.tobytes() == b.tobytes()


def test_looser_classes_rewrite_more(rules: Path) -> None:
    result = optimized(rules, "real-only")
    assert result.changed, result
    assert result.operators_after["MatMul"] == 1
    assert "Transpose" not in result.operators_after
    assert {use.rule for use in optimized(rules, "exact").rules} < {use.rule for use in result.rules}


def behind_jumps() -> onnx.ModelProto:
    """`mixed` with a class for each row of y and z, and their sizes: a floor is behind ArgMax, which is first."""
    proto = mixed()
    for name in "yz":
        proto.graph.node.append(helper.make_node("ArgMax", [name], [f"{name}_class"], axis=1, keepdims=0))
        proto.graph.output.append(helper.make_tensor_value_info(f"{name}_class", onnx.TensorProto.INT64, [256]))
    proto.graph.node.extend(
        [
            helper.make_node("Cast", ["z_class"], ["z_real"], to=onnx.TensorProto.FLOAT),
            helper.make_node("Floor", ["z_real"], ["z_floor"]),
            helper.make_node("Shape", ["z"], ["z_shape"]),
            helper.make_node("Pow", ["z", "two"], ["squares"]),
        ]
    )
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(2, np.float32), "two"))
    proto.graph.output.extend([floats("z_floor", 256), floats("squares", 256, 256)])
    proto.graph.output.append(helper.make_tensor_value_info("z_shape", onnx.TensorProto.INT64, [2]))
    return proto


def test_jumps_behind_rewrites_are_said(rules: Path) -> None:
    said = "no bound on rounding errors holds behind a jump: "
    result = optimized(rules, "normwise", behind_jumps())
    assert result.operators_after["MatMul"] == 1 and "Transpose" not in result.operators_after
    (notice,) = (notice for notice in result.notices if said in notice)
    assert notice.startswith(said + "1 ArgMax may see")  # that of z: y is moved only
    exact = optimized(rules, "exact", behind_jumps())
    assert exact.changed and not any(said in notice for notice in exact.notices)


def test_a_rule_names_the_nodes_that_it_rewrote(rules: Path) -> None:
    result = optimized(rules, "exact")
    places = {node for use in result.rules for node in use.nodes}
    assert places
    assert places <= {"t", "u", "a", "b", "ra", "rb", "y"}


def test_unknown_class(rules: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="numerics"):
        optimized(rules, "roughly")
    onnx.save(mixed(), tmp_path / "model.onnx")
    arguments = ["optimize", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--numerics", "roughly"]
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 2 and "real-only" in done.output


def test_command_says_the_class(rules: Path, tmp_path: Path) -> None:
    onnx.save(mixed(), tmp_path / "model.onnx")
    arguments = ["optimize", tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--rules", rules]
    arguments += ["--cost", "analytic", "--device", "cpu", "--target-absent"]
    page = tmp_path / "run.html"
    done = CliRunner().invoke(main, list(map(str, [*arguments, "--numerics", "exact", "--report", page])))
    assert done.exit_code == 0, done.output
    assert "(exact)" in done.output
    assert "must be bit-identical" in done.output
    assert "Every bit had to be the same" in page.read_text()


# Folding


def leaf(array: np.ndarray, dtype: str, values: dict[str, np.ndarray]) -> Term:
    return constant(array, dtype, values)


def test_exact_folding_moves_elements_only() -> None:
    values: dict[str, np.ndarray] = {}
    a, b = (leaf(weights(4, 4, seed=k), "float", values) for k in range(2))
    moved = make("Concat", (make("Transpose", (a,), {"perm": (1, 0)}), b), {"axis": 0})
    added = make("Add", (make("Transpose", (a,), {"perm": (1, 0)}), b))
    assert list(folded([moved], values, exact=True)) == [moved]
    (inner,) = folded([added], values, exact=True)
    assert inner.op == "Transpose"
    assert list(folded([added], values)) == [added]


def test_exact_folding_computes_with_integers() -> None:
    values: dict[str, np.ndarray] = {}
    a, b = (leaf(np.arange(3) + k, "int64", values) for k in range(2))
    total = make("Add", (a, b))
    assert list(folded([total], values, exact=True)) == [total]


def test_exact_folding_keeps_bits() -> None:
    values: dict[str, np.ndarray] = {}
    array = np.array([[np.nan, -0.0], [np.inf, 1e-40]], np.float32)
    moved = make("Transpose", (leaf(array, "float", values),), {"perm": (1, 0)})
    (result,) = folded([moved], values, exact=True).values()
    assert values[str(result.attr("hash"))].tobytes() == np.ascontiguousarray(array.T).tobytes()


# Comparing


def test_identical_means_every_bit() -> None:
    nan, other = np.float32(np.nan), np.array([0x7FC00001], np.uint32).view(np.float32)
    same = [np.array([1.0, nan, -0.0], np.float32), np.array(["a"], object)]
    assert identical(same, [array.copy() for array in same]).ok
    for a, b in (
        (np.array([0.0]), np.array([-0.0])),
        (np.array([nan], np.float32), other),
        (np.array([1.0]), np.array([1.0], np.float32)),
        (np.zeros((1, 2)), np.zeros((2, 1))),
        (np.array(["a"], object), np.array(["b"], object)),
    ):
        assert identical([a], [b]).problem == "output 0 is not bit-identical"
    assert not identical([], [np.zeros(1)]).ok


def test_special_values_are_put_into_floats_only() -> None:
    feeds: Feeds = {"x": np.ones((50, 50), np.float32), "i": np.ones(50, np.int64)}
    found = with_specials(feeds, 0)
    assert found["i"] is feeds["i"]
    assert np.isnan(found["x"]).any() and np.isinf(found["x"]).any() and (found["x"] == 1).mean() > 0.8
    assert found["x"].dtype == np.float32
    assert with_specials(feeds, 0)["x"].tobytes() == found["x"].tobytes()
