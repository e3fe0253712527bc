"""`superopt why`: what the rules say about one operator."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import helper

from superopt.cli import main
from superopt.ir.dim import symbol
from superopt.ir.rule import Condition
from superopt.onnx_io import ModelError
from superopt.optimizer import Options
from superopt.optimizer.why import RuleThere, explain_node, with_sizes
from tests.support.certified import certified
from tests.support.models import branches, floats, lora, model, weights

MERGE = "Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c)) @ a[_,_] b[_,_] c[_,_]\n"
TWICE = "Relu(Relu(x)) = Relu(x) @ x[_,_]\n"
SWAPPED = "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](x)) = x @ x[_,_]\n"
CANCELLED = "Sub(Add(x, y), y) = x @ x[_,_] y[_,_]\n"


def rules_of(source: onnx.ModelProto, node: str, rules: Path, **options: object) -> list[RuleThere]:
    return explain_node(source, node, Options(ep="cpu", rules=rules, **options)).rules  # type: ignore[arg-type]


def chain(*nodes: onnx.NodeProto, outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    return model(nodes, [floats("x", 4, 4)], [floats(name, 4, 4) for name in outputs])


def node(op: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=f"{op} of {output}", **attributes)


def test_nothing_blocks(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", TWICE)
    source = chain(node("Relu", "x", "a"), node("Relu", "a", "y"))
    for name in ("Relu of a", "a", "y"):
        (found,) = rules_of(source, name, rules)
        assert found.blocked_by == "nothing" and found.saved_us is not None and found.saved_us > 0
        assert (found.left, found.right) == ("Relu(Relu(x))", "Relu(x)")


def test_a_node_called_as_an_output_of_another_node_is(tmp_path: Path) -> None:
    source = chain(node("Relu", "x", "a"), node("Sigmoid", "a", "y"))
    source.graph.node[1].name = "a"
    assert explain_node(source, "a", Options(rules=certified(tmp_path / "own.rules", TWICE))).operator == "Sigmoid"


def test_cost_and_another_user(tmp_path: Path) -> None:
    """Both products stay, because both have other users; so the merged one comes on top."""
    rules = certified(tmp_path / "own.rules", MERGE)
    source = model(
        [
            node("MatMul", "x v", "a"),
            node("MatMul", "x w", "b"),
            node("Add", "a b", "y"),
            node("Sigmoid", "a", "first"),
            node("Sigmoid", "b", "second"),
        ],
        [floats("x", 64, 64)],
        [floats(name, 64, 64) for name in ("y", "first", "second")],
        [("v", weights(64, 64)), ("w", weights(64, 64, seed=1))],
    )
    found = next(one for one in rules_of(source, "y", rules) if one.left.startswith("Add"))
    assert found.blocked_by == "cost" and found.saved_us is not None and found.saved_us < 0
    assert "MatMul 'MatMul of a' stays: it is also read by Sigmoid 'Sigmoid of first'" in found.reason
    free = model(source.graph.node[:3], [floats("x", 64, 64)], [floats("y", 64, 64)])
    free.graph.initializer.extend(source.graph.initializer)
    assert rules_of(free, "y", rules)[0].blocked_by == "nothing"


def test_an_attribute(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", "Softmax[axis=0](Relu(x)) = Softmax[axis=0](Relu(Relu(x))) @ x[_,_]\n")
    source = chain(node("Relu", "x", "a"), node("Softmax", "a", "y", axis=1))
    found = [one for one in rules_of(source, "y", rules) if one.blocked_by == "attribute"]
    assert found and "Softmax 'Softmax of y' has axis = 1, and the rule needs 0" in found[0].reason.replace("-1", "1")


def test_a_missing_operator(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", MERGE)
    source = lora()
    source.graph.node[3].op_type = "Sub"
    assert not rules_of(source, "base", rules)  # one operator of three is not near
    source = lora()
    source.graph.node[2].op_type = "Mul"
    source.graph.node[2].input[:] = ["x", "base"]
    (found,) = rules_of(source, "sum", rules)
    assert found.blocked_by == "operator" and found.saved_us is None
    assert found.reason == "Add 'sum' reads Mul 'up', and the rule needs MatMul there"


def test_an_unknown_rank(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", "Relu(x) = Max(x, Neg(Relu(x))) @ x[_,_]\n")
    unranked = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy"]
    source = model([node("Relu", "x", "y")], unranked[:1], unranked[1:])
    reasons = {one.reason for one in rules_of(source, "y", rules) if one.blocked_by == "type"}
    assert reasons == {"the right side has no known type, because the rank of an operand is unknown"}


def test_the_user_is_another_operator(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", "Relu(Relu(Abs(x))) = Relu(Abs(x)) @ x[_,_]\n")
    source = chain(node("Abs", "x", "a"), node("Relu", "a", "b"), node("Sigmoid", "b", "y"))
    found = rules_of(source, "b", rules)
    assert [one.reason for one in found if one.left == "Relu(Relu(Abs(x)))"] == [
        "Relu 'Relu of b' is read by Sigmoid 'Sigmoid of y', and the rule needs Relu there"
    ]


def test_numerics(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", MERGE)
    loose, strict = (rules_of(lora(), "sum", rules, numerics=level) for level in ("real-only", "exact"))
    assert "numerics" not in {one.blocked_by for one in loose}
    source = model(
        [node("MatMul", "x v", "a"), node("MatMul", "x w", "b"), node("Add", "a b", "y")],
        [floats("x", 8, 8)],
        [floats("y", 8, 8)],
        [("v", weights(8, 8)), ("w", weights(8, 8, seed=1))],
    )
    found = rules_of(source, "y", rules, numerics="exact")
    assert any(one.blocked_by == "numerics" and "--numerics exact" in one.reason for one in (*strict, *found))


def test_a_guard_with_its_sizes() -> None:
    condition = Condition("<=", symbol("x.shape[0]") + 1, symbol("n"))
    assert with_sizes(condition, {"x.shape[0]": 16, "n": 4}) == (
        "it needs x.shape[0] + 1 <= n, and here that is 17 <= 4"
    )


def test_a_signature_that_does_not_cover_the_match(tmp_path: Path) -> None:
    """The rule holds where y is a number; a row would be added to other elements."""
    rules = certified(
        tmp_path / "own.rules",
        "Transpose[perm=[1, 0]](Add(x, y)) = Add(Transpose[perm=[1, 0]](x), y) @ x[_,_] y[1,1]\n",
    )
    source = model(
        [node("Add", "x b", "a"), node("Transpose", "a", "y", perm=[1, 0])],
        [floats("x", 4, 4)],
        [floats("y", 4, 4)],
        [("b", weights(1, 4))],
    )
    (found,) = [one for one in rules_of(source, "y", rules) if one.left.startswith("Transpose")]
    assert found.blocked_by == "proof"


def test_no_operator_any_more(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", TWICE)
    source = chain(node("Identity", "x", "a"), node("Relu", "a", "y"))
    found = explain_node(source, "Identity of a", Options(rules=rules))
    assert not found.rules and "no operator any more" in found.note


def test_an_unknown_operator(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", TWICE)
    source = chain(helper.make_node("Unheard", ["x"], ["y"], name="odd", domain="nobody"))
    source.opset_import.append(helper.make_opsetid("nobody", 1))
    assert "no definition of nobody::Unheard" in explain_node(source, "odd", Options(rules=rules)).note


def test_an_unknown_name() -> None:
    with pytest.raises(ModelError, match="nearest are 'Relu of y'"):
        explain_node(chain(node("Relu", "x", "y")), "Relu of z", Options())
    with pytest.raises(ModelError, match="no node"):
        explain_node(chain(helper.make_node("Relu", ["x"], ["y"])), "", Options())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main.command, ["why", *map(str, arguments)])


def test_the_command(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", TWICE + SWAPPED)
    nodes = [node("Relu", "x", "[bold]"), node("Relu", "[bold]", "y")]
    onnx.save(chain(*nodes), tmp_path / "model.onnx")
    done = run(tmp_path / "model.onnx", "--node", "[bold]", "--rules", rules)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("[bold] (Relu): float[4, 4]; costs of CPU")
    assert "nothing blocks" in done.stdout and "saves" in done.stdout
    data = json.loads(run(tmp_path / "model.onnx", "--node", "y", "--rules", rules, "--json").stdout)
    assert [rule["blocked_by"] for rule in data["rules"]] == ["nothing"]
    failed = run(tmp_path / "model.onnx", "--node", "nowhere", "--rules", rules)
    assert failed.exit_code == 2 and failed.stderr.count("\n") == 1
    assert "the first are 'Relu of [bold]' (Relu), 'Relu of y' (Relu)" in failed.stderr


def test_costs_are_for_the_given_shapes(tmp_path: Path) -> None:
    """Without shapes, a dynamic size counts as 32."""
    rules = certified(tmp_path / "own.rules", TWICE)
    graph = model([node("Relu", "x", "a"), node("Relu", "a", "y")], [floats("x", "n", "m")], [floats("y", "n", "m")])
    onnx.save(graph, tmp_path / "model.onnx")

    def saved(*shape: str) -> float:
        arguments = tmp_path / "model.onnx", "--node", "y", "--rules", rules, "--json", *shape
        return float(json.loads(run(*arguments).stdout)["rules"][0]["saved_us"])

    usual = saved()
    assert saved("--shape", "x=1x1") < usual < saved("--shape", "x=2048x2048")
    assert saved("--shape", "x=32x32") == usual
    failed = run(tmp_path / "model.onnx", "--node", "y", "--shape", "z=1")
    assert failed.exit_code == 2 and failed.stderr == "error: there is no input 'z' (inputs: x)\n"


def test_without_a_name_the_costliest_operators_are_named(tmp_path: Path) -> None:
    sizes = [("w", weights(4, 512)), ("v", weights(512, 4))]
    nodes = [node("MatMul", "x w", "a"), node("Relu", "a", "b"), helper.make_node("MatMul", ["b", "v"], ["y"])]
    onnx.save(model(nodes, [floats("x", 4, 4)], [floats("y", 4, 4)], sizes), tmp_path / "model.onnx")
    failed = run(tmp_path / "model.onnx")
    assert failed.exit_code == 2 and "--node NAME" in failed.stderr
    shown = [line.strip() for line in failed.stderr.splitlines() if line.startswith("  ")]
    assert sorted(shown[:2]) == ["MatMul of a (MatMul)", "y (MatMul)"] and shown[2:] == ["Relu of b (Relu)"]


def test_a_long_rule_is_shown_by_its_beginning(tmp_path: Path) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    shapes = (1, 4, 8, 8), (1, 8, 8, 8)
    graph = model([conv], [floats("x", *shapes[0])], [floats("y", *shapes[1])], [("w", weights(8, 4, 3, 3))])
    onnx.save(graph, tmp_path / "model.onnx")
    arguments = tmp_path / "model.onnx", "--node", "y", "--limit", 1000
    rules = json.loads(run(*arguments, "--json").stdout)["rules"]
    assert any(len(rule["left"] + rule["right"]) > 1000 for rule in rules)
    lines = run(*arguments).stdout.splitlines()
    assert any(line.endswith(" ...") for line in lines) and max(map(len, lines)) < 400


def test_constants_are_no_operators(tmp_path: Path) -> None:
    rules = certified(tmp_path / "own.rules", CANCELLED)
    source = model(
        [node("Add", "x c", "a"), node("Sub", "a x", "y")],
        [floats("x", 4, 4)],
        [floats("y", 4, 4)],
        [("c", np.ones((4, 4), np.float32))],
    )
    reasons = [one.reason for one in rules_of(source, "y", rules)]
    assert not reasons or all("Const" not in reason for reason in reasons)


def test_every_operator_of_a_model_can_be_asked_for() -> None:
    """With the shipped rules; a rule may want an output of an operator where there is a constant."""
    source = branches(blocks=1)
    for node in source.graph.node:
        assert explain_node(source, node.output[0], Options()).rules
