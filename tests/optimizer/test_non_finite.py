"""Guards against NaN and infinity stay: rules tested at them, and outputs compared on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.evaluate import evaluate
from superopt.ir.notation import parse_rule
from superopt.ir.pattern import Bindings
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.optimizer import Options, non_finite, optimize
from superopt.optimizer.non_finite import loses_guard
from superopt.optimizer.source import Source
from superopt.optimizer.validator import Validator
from superopt.runtime import Target, open_session
from tests.support.models import floats, model
from tests.support.timers import faster

node = helper.make_node


@pytest.mark.parametrize(
    ("rule", "loses"),
    [
        ("Where(Equal(x, x), x, y) = x", True),
        ("Where(Less(x, y), x, y) = Min(x, y)", True),
        ("Min(x, y) = Where(Less(x, y), x, y)", True),
        ("Not(LessOrEqual(x, y)) = Less(y, x)", True),
        ("Sub(x, x) = Mul(x, Zeros[shape=[]])", False),
        ("Add(Sub(x, x), y) = y", True),
        ("Relu(x) = LeakyRelu[alpha=0.0](x)", True),  # 0 · (-infinity)
        ("Where(Less(x, Zeros[shape=[]]), Neg(x), x) = Abs(x)", False),
        ("Not(Less(x, y)) = Not(Greater(y, x))", False),
        ("Mul(Add(x, y), z) = Add(Mul(x, z), Mul(y, z))", False),
        ("Max(x, y) = Max(y, x)", False),
        ("Sqrt(Reciprocal(x)) = Reciprocal(Sqrt(x))", False),  # not defined at numbers near -infinity
        ("Reciprocal(Sqrt(x)) = Div(Sqrt(x), x)", True),  # infinity / infinity
    ],
)
def test_rules_at_nan_and_infinity(rule: str, loses: bool) -> None:
    used = {name: var(name, tensor(3, 4)) for name in "xyz" if name in rule.replace("alpha", "")}
    assert loses_guard(parse_rule(rule), Bindings(used, {})) is loses


def test_a_constant_is_finite() -> None:
    """NaN is tried in x and not in the constant."""
    rule = parse_rule("Sub(Add(x, y), y) = x")
    constant = Term.of("Const", (), {"hash": "c"}, (tensor(4),))
    assert loses_guard(rule, Bindings({"x": var("x", tensor(3, 4)), "y": var("y", tensor(4))}, {}))
    assert not loses_guard(rule, Bindings({"x": var("x", tensor(3, 4)), "y": constant}, {}))


def test_rules_of_many_variables_are_tested_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 variables in both sides: one test evaluates 200 operators, all tests together 1000 or a little more."""
    names = [f"x{k}" for k in range(100)]
    left, right = names[0], names[0]
    for name in names[1:]:
        left, right = f"Add({left}, {name})", f"Add({name}, {right})"
    evaluated: list[int] = []

    def counted(terms: tuple[Term, ...], *rest: Any) -> Any:
        evaluated.append(len(terms))
        return evaluate(terms, *rest)

    monkeypatch.setattr(non_finite, "evaluate", counted)
    used = {name: var(name, tensor(3, 4)) for name in names}
    assert not loses_guard(parse_rule(f"{left} = {right}"), Bindings(used, {}))
    assert 0 < len(evaluated) <= 12


ZERO, FIVE = np.array(0, np.float32), np.array(5, np.float32)
GUARDS: list[list[onnx.NodeProto]] = [
    [node("Equal", ["x", "x"], ["e"]), node("Not", ["e"], ["n"]), node("Where", ["n", "zero", "x"], ["g"])],
    [node("Sub", ["x", "x"], ["s"]), node("Equal", ["s", "zero"], ["e"]), node("Where", ["e", "x", "zero"], ["g"])],
    [node("Less", ["x", "five"], ["e"]), node("Where", ["e", "x", "five"], ["g"])],
]


def guarded(nodes: list[onnx.NodeProto], *outputs: onnx.ValueInfoProto) -> onnx.ModelProto:
    return model(nodes, [floats("x", 4, 6)], list(outputs) or [floats("y", 4, 6)], [("zero", ZERO), ("five", FIVE)])


@pytest.mark.parametrize("nodes", GUARDS)
def test_optimize_keeps_a_guard(nodes: list[onnx.NodeProto], tmp_path: Path) -> None:
    source, target = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save(guarded([*nodes, node("Exp", ["g"], ["y"])]), source)
    optimize(source, target, Options(cost="analytic"), timer=faster)
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    x[0, :3] = np.nan, np.inf, -np.inf
    before, after = (open_session(path, Target()).run({"x": x})[0] for path in (source, target))
    np.testing.assert_allclose(after, before, rtol=1e-6)


@pytest.mark.parametrize("nodes", GUARDS)
def test_outputs_are_compared_on_nan(nodes: list[onnx.NodeProto]) -> None:
    validator = Validator(Source(guarded([*nodes, node("Exp", ["g"], ["y"])])), Target(), Options())
    assert validator.compare(guarded([*nodes, node("Exp", ["g"], ["y"])]).SerializeToString())[0].ok
    unguarded = [node("Min", ["x", "five"], ["m"])] if nodes is GUARDS[2] else [node("Identity", ["x"], ["m"])]
    found, _ = validator.compare(guarded([*unguarded, node("Exp", ["m"], ["y"])]).SerializeToString())
    assert found.problem is not None and "NaN" in found.problem


def test_truth_values_are_compared_on_nan() -> None:
    truth = helper.make_tensor_value_info("y", TensorProto.BOOL, [4, 6])
    less = guarded([node("Less", ["x", "five"], ["y"])], truth)
    other = guarded([node("GreaterOrEqual", ["x", "five"], ["e"]), node("Not", ["e"], ["y"])], truth)
    found, accuracies = Validator(Source(less), Target(), Options()).compare(other.SerializeToString())
    assert "bool values differ" in str(found.problem)
    assert "NaN" in {one.kind for one in accuracies}


def test_a_model_that_passes_nan_on_is_not_compared_there() -> None:
    scaled = guarded([node("Mul", ["x", "five"], ["y"])])
    _, accuracies = Validator(Source(scaled), Target(), Options()).compare(scaled.SerializeToString())
    assert not {"NaN", "infinity", "-infinity"} & {one.kind for one in accuracies}


def endless() -> onnx.ModelProto:
    """A model that halves x until it is at most 1: with an infinite x it never ends."""
    scalar, truth = floats("v"), helper.make_tensor_value_info("go", TensorProto.BOOL, [])
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    body = helper.make_graph(
        [node("Div", ["v", "two"], ["half"]), node("Greater", ["half", "one"], ["again"])],
        "body",
        [count, truth, scalar],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []), floats("half")],
    )
    nodes = [node("Greater", ["x", "one"], ["first"]), node("Loop", ["", "first", "x"], ["y"], body=body)]
    constants = [("one", np.array(1, np.float32)), ("two", np.array(2, np.float32))]
    return model(nodes, [floats("x")], [floats("y")], constants)


def test_a_loop_gets_no_infinity() -> None:
    feeds = Validator(Source(endless()), Target(), Options()).feeds
    assert len(feeds) > 1 and all(np.isfinite(one["x"]).all() for one in feeds)
