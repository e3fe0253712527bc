"""The tensors of two models that correspond: proposed by their values, computed twice, or outputs of one model only."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.check.certificate import Certificate
from superopt.check.equality import joined, prove_equal
from superopt.check.values import Proposals
from superopt.onnx_io import Model, read_simplified
from tests.support.models import model, weights
from tests.support.pairs import graph, proven, shared

node = helper.make_node
N, C = "n", 4
W = weights(C, C)


@pytest.mark.parametrize(("factor", "count"), [(1 + 1e-3, 1), (1.5, 0)])
def test_the_nearest_tensor_is_proposed_where_roundings_have_grown(factor: float, count: int) -> None:
    left, right = joined(
        graph(node("MatMul", ["x", "w"], ["y"]), w=W),
        graph(node("MatMul", ["x", "w"], ["y"]), w=(W * factor).astype(np.float32)),
    )
    assert len(Proposals(left, right, 0, 10.0).of(right.outputs[0])) == count


def test_values_are_compared_at_a_batch_that_the_model_accepts() -> None:
    """An operand of one row fixes the batch to 1, and a window needs more than a few columns."""
    row, kernel = np.ones((1, 1, 1), np.float32), np.ones((1, 1, 9), np.float32)
    nodes = [node("Concat", ["x", "row"], ["c"], axis=2), node("Conv", ["c", "kernel"], ["y"])]
    models = (graph(*nodes, shape=("n", 1, "m"), row=row, kernel=(factor * kernel)) for factor in (1, 1 + 2**-20))
    left, right = joined(*models)
    assert Proposals(left, right, 0, 10.0).of(right.outputs[0]) == [left.outputs[0]]


def test_no_time_for_values_proposes_little() -> None:
    left, right = joined(graph(node("Relu", ["x"], ["y"])), graph(node("Relu", ["x"], ["y"])))
    Proposals(left, right, 0, -1.0)


def _two_outputs(*nodes: onnx.NodeProto) -> Model:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [N, C])]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [N, C]) for name in ("y", "z")]
    return read_simplified(model(nodes, inputs, outputs))


def _twice_or_once(first: str, second: str) -> tuple[Model, Model]:
    """Relu and two operators after it, one after the other, and Relu alone for all three."""
    nodes = [node("Relu", ["x"], ["h"]), node(first, ["h"], ["y"]), node(second, ["y"], ["z"])]
    once = [node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["z"])]
    return joined(_two_outputs(*nodes), _two_outputs(*once))


def test_an_output_may_be_another_tensor_of_the_first_model(tmp_path: Path) -> None:
    left, right = _twice_or_once("Abs", "Relu")
    found = prove_equal(left, right, seconds=20)
    assert found.outputs == (True, True) and found.certificate is not None
    assert found.certificate.derivations == ((), ()) and len(found.certificate.claims) == 2
    found.certificate.write(tmp_path / "c.json")
    proof = Certificate.read(tmp_path / "c.json")
    assert proof.replay(left, right)
    assert not replace(proof, claims=proof.claims[1:]).replay(left, right)
    assert not proof.replay(*_twice_or_once("Neg", "Relu"))


@pytest.mark.parametrize(("first", "second"), [("Neg", "Abs"), ("Abs", "Neg")])
def test_an_output_that_is_another_tensor_must_be_equal(first: str, second: str) -> None:
    left, right = _twice_or_once(first, second)
    found = prove_equal(left, right, seconds=1)
    assert found.outputs == (first == "Abs", second == "Abs") and found.certificate is None
    assert [reason for *_, reason in found.unproven]


def test_of_tensors_with_equal_values_the_last_ones_correspond() -> None:
    """Relu changes no positive number, so values do not tell it from its operand."""
    before = [node("Abs", ["x"], ["a"]), node("Relu", ["a"], ["r"])]
    left = graph(*before, node("Exp", ["r"], ["y"]))
    right = graph(node("Abs", ["x"], ["b"]), node("Exp", ["b"], ["y"]))
    left, right = joined(left, right)
    (exp,) = right.outputs
    (operand,) = exp.inputs
    assert operand is not None and [term.op for term in Proposals(left, right, 0, 5.0).of(operand)] == ["Relu", "Abs"]
    ours = joined(left, left)
    proposals = Proposals(*ours, 0, 5.0)
    for term in ours[0].names:
        assert proposals.of(term)[0] is term


def test_layers_with_filled_weights_of_other_sizes_have_one_equation() -> None:
    """Weights of one number are variables first, or each width would need a proof of its own."""

    def layers(scale_first: bool) -> Model:
        nodes, values, last, width = [], {}, "x", C
        for k, channels in enumerate((5, 6, 7, 8)):
            values |= {f"w{k}": np.full((width, channels), 0.02, np.float32), f"s{k}": weights(channels, seed=k)}
            if scale_first:
                nodes += [node("Mul", [f"w{k}", f"s{k}"], [f"v{k}"]), node("MatMul", [last, f"v{k}"], [f"m{k}"])]
            else:
                nodes += [node("MatMul", [last, f"w{k}"], [f"p{k}"]), node("Mul", [f"p{k}", f"s{k}"], [f"m{k}"])]
            nodes += [node("Tanh", [f"m{k}"], [f"t{k}"])]
            last, width = f"t{k}", channels
        return graph(*nodes, node("Neg", [last], ["y"]), **values)

    found, _, _ = proven(layers(False), layers(True))
    assert found.outputs == (True,) and found.certificate is not None
    equations = [equation for _, _, equation, _, _ in found.certificate.claims]
    assert len(equations) == 4 and len(set(equations)) == 1


def test_what_the_left_model_computes_twice_the_right_one_may_read_once() -> None:
    found, left, right = proven(*shared())
    assert found.outputs == (True,) and found.certificate is not None and found.certificate.congruent
    assert found.certificate.replay(left, right)
    assert not replace(found.certificate, claims=()).replay(left, right)
    assert not proven(*shared(1))[0].outputs[0]


def test_a_tensor_that_both_read_is_opened_if_one_of_them_reads_its_operand() -> None:
    """a Sigmoid(1 a) and QuickGelu(1 a): the second model has no a, as it computes 1 a in another way."""
    one, two = np.ones(1, np.float32), np.full(1, 2, np.float32)
    names = ["x", *(f"t{k}" for k in range(70))]  # more operators than a cone may have
    before = [node("Tanh", [name], [following]) for name, following in itertools.pairwise(names)]
    silu = [node("Sigmoid", ["m"], ["g"]), node("Mul", ["a", "g"], ["y"])]
    left = graph(*before, node("Add", ["t69", "t69"], ["a"]), node("Mul", ["a", "one"], ["m"]), *silu, one=one)
    fused = helper.make_node("QuickGelu", ["m"], ["y"], domain="com.microsoft", alpha=1.0)
    found, _, _ = proven(left, graph(*before, node("Mul", ["t69", "two"], ["m"]), fused, two=two))
    assert found.outputs == (True,) and found.certificate is not None
    assert found.certificate.derivations == ((), ())  # no rule has removed the 1 before
    wrong = helper.make_node("QuickGelu", ["m"], ["y"], domain="com.microsoft", alpha=1.5)
    assert not proven(left, graph(*before, node("Mul", ["t69", "two"], ["m"]), wrong, two=two))[0].outputs[0]
