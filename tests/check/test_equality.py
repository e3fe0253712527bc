"""Proofs that two models are equal, and that none is found for models that are not."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.check.certificate import Certificate
from superopt.check.equality import Equality, joined, prove_equal
from superopt.check.values import Proposals
from superopt.onnx_io import Model, read_simplified
from tests.support.models import model, weights

node = helper.make_node
N, C, H = "n", 4, 6
W, V = weights(C, C), weights(C, C, seed=1)
B, S = weights(C, seed=2), weights(C, seed=3)
K = weights(C, C, 3, 3)
IMAGE = (N, C, H, H)


def _graph(
    *nodes: onnx.NodeProto, shape: tuple[int | str, ...] = (N, C), dtype: int = TensorProto.FLOAT, **values: Any
) -> Model:
    inputs = [helper.make_tensor_value_info(name, dtype, list(shape)) for name in ("x", "z")]
    output = helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)
    output.type.tensor_type.elem_type = dtype
    return read_simplified(model(nodes, inputs, [output], list(values.items())))


def _checked(left: Model, right: Model) -> tuple[Equality, Model, Model]:
    left, right = joined(left, right)
    return prove_equal(left, right, seconds=20), left, right


def _bias_in_gemm() -> tuple[Model, Model]:
    return (
        _graph(node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"]), w=W, b=B),
        _graph(node("Gemm", ["x", "w", "b"], ["y"]), w=W, b=B),
    )


def _transposed_weight() -> tuple[Model, Model]:
    return (
        _graph(node("MatMul", ["x", "w"], ["y"]), w=W),
        _graph(node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"]), w=W.T.copy()),
    )


def _gelu() -> tuple[Model, Model]:
    two = np.array(2**0.5, np.float32)
    parts = [node("Div", ["x", "r"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["f"])]
    parts += [node("Mul", ["x", "f"], ["g"]), node("Mul", ["g", "half"], ["y"])]
    fused = onnx.helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    return _graph(*parts, r=two, one=np.float32(1), half=np.float32(0.5)), _graph(fused)


def _third(factor: float = 1 / 3) -> tuple[Model, Model]:
    return (
        _graph(node("Div", ["x", "c"], ["y"]), c=np.float32(3)),
        _graph(node("Mul", ["x", "c"], ["y"]), c=np.float32(factor)),
    )


def _hard_swish(alpha: float = 1 / 6) -> tuple[Model, Model]:
    """The function body of HardSwish, with 1/6 as an attribute in float32."""
    parts = [node("HardSigmoid", ["x"], ["s"], alpha=alpha, beta=0.5), node("Mul", ["x", "s"], ["y"])]
    return _graph(node("HardSwish", ["x"], ["y"])), _graph(*parts)


def _two_layers() -> tuple[Model, Model]:
    """The second proof begins where the first one ended."""
    left = [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["c"]), node("Tanh", ["c"], ["d"])]
    left += [node("MatMul", ["d", "v"], ["e"]), node("Add", ["s", "e"], ["y"])]
    right = [node("Gemm", ["x", "w", "b"], ["c"]), node("Tanh", ["c"], ["d"]), node("Gemm", ["d", "v", "s"], ["y"])]
    return _graph(*left, w=W, v=V, b=B, s=S), _graph(*right, w=W, v=V, b=B, s=S)


def _folded(factor: float = 1.0) -> tuple[Model, Model]:
    """BatchNormalization in the weights of a Conv, in float32 as tools do it."""
    o, m, v = (np.abs(weights(C, seed=seed)) + np.float32(0.5) for seed in (5, 6, 7))
    scale = S / np.sqrt(v + np.float32(1e-5))
    kernel, bias = K * scale[:, None, None, None], o - m * scale
    kernel[1, 1, 1, 1] *= np.float32(factor)
    bn = node("BatchNormalization", ["h", "s", "o", "m", "v"], ["y"])
    return (
        _graph(node("Conv", ["x", "k"], ["h"]), bn, shape=IMAGE, k=K, s=S, o=o, m=m, v=v),
        _graph(node("Conv", ["x", "k", "b"], ["y"]), shape=IMAGE, k=kernel, b=bias),
    )


def _lora() -> tuple[Model, Model]:
    down, up = weights(C, 2, seed=8), weights(2, C, seed=9)
    left = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["x", "d"], ["e"]), node("MatMul", ["e", "u"], ["f"])]
    return (
        _graph(*left, node("Add", ["a", "f"], ["y"]), w=W, d=down, u=up),
        _graph(node("MatMul", ["x", "w"], ["y"]), w=W + down @ up),
    )


def _side_by_side() -> tuple[Model, Model]:
    left = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["x", "v"], ["b"]), node("Mul", ["a", "b"], ["y"])]
    right = [node("MatMul", ["x", "w"], ["h"]), node("Split", ["h"], ["a", "b"], axis=1)]
    return (
        _graph(*left, w=W, v=V),
        _graph(*right, node("Mul", ["a", "b"], ["y"]), w=np.concatenate((W, V), axis=1)),
    )


def _transposed_side_by_side() -> tuple[Model, Model]:
    """Two Gemms with transposed weights as one Gemm of both weights."""
    left = [node("Gemm", ["x", "w", "b"], ["a"], transB=1), node("Gemm", ["x", "v", "s"], ["c"], transB=1)]
    right = [node("Gemm", ["x", "u", "t"], ["h"]), node("Split", ["h"], ["a", "c"], axis=-1, num_outputs=2)]
    joint = np.concatenate((W.T, V.T), axis=1), np.concatenate((B, S))
    return (
        _graph(*left, node("Mul", ["a", "c"], ["y"]), w=W, v=V, b=B, s=S),
        _graph(*right, node("Mul", ["a", "c"], ["y"]), u=joint[0], t=joint[1]),
    )


def _branches() -> tuple[Model, Model]:
    """A block of RepVGG: convolutions of 3x3 and 1x1, with BatchNormalization, as one (Ding et al., 2021)."""
    small, double = weights(C, C, 1, 1, seed=4), np.float64
    stats = [np.abs(weights(C, seed=seed)) + np.float32(0.5) for seed in range(5, 13)]
    names = "omvspqru"
    normal = [node("BatchNormalization", ["a", *"somv"], ["c"]), node("BatchNormalization", ["b", *"rpqu"], ["d"])]
    convs = [node("Conv", ["x", "w"], ["a"], pads=[1] * 4), node("Conv", ["x", "k"], ["b"])]
    given = dict(zip(names, stats, strict=True))
    kernel, bias = np.zeros(K.shape), np.zeros(C)
    for weight, (scale, offset, mean, variance) in ((K, "somv"), (np.pad(small, [(0, 0)] * 2 + [(1, 1)] * 2), "rpqu")):
        factor = given[scale].astype(double) / np.sqrt(given[variance].astype(double) + 1e-5)
        kernel += weight * factor[:, None, None, None]
        bias += given[offset] - given[mean] * factor
    folded = {"w": kernel.astype(np.float32), "b": bias.astype(np.float32)}
    left = _graph(*convs, *normal, node("Add", ["c", "d"], ["y"]), shape=IMAGE, w=K, k=small, **given)
    return left, _graph(node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4), shape=IMAGE, **folded)


def _normed_weight() -> tuple[Model, Model]:
    """A weight that is divided by its norm (Salimans and Kingma, 2016)."""
    norm = [node("ReduceL2", ["w"], ["n"], axes=[0]), node("Div", ["w", "n"], ["d"]), node("MatMul", ["x", "d"], ["y"])]
    ratio = W / np.sqrt((W * W).sum(axis=0, keepdims=True))
    return _graph(*norm, w=W), _graph(node("MatMul", ["x", "d"], ["y"]), d=ratio)


EQUAL = [_bias_in_gemm, _transposed_weight, _gelu, _third, _hard_swish, _two_layers, _folded, _lora, _side_by_side]
EQUAL += [_transposed_side_by_side, _branches, _normed_weight]


@pytest.mark.parametrize("pair", EQUAL, ids=lambda pair: pair.__name__)
def test_equal_models_are_proven_and_the_proof_replays(pair: Any, tmp_path: Path) -> None:
    found, left, right = _checked(*pair())
    assert found.outputs == (True,) and found.certificate is not None
    found.certificate.write(tmp_path / "proof.json")
    assert Certificate.read(tmp_path / "proof.json").replay(left, right)
    assert {match.by for match in found.matches} - {"same"}
    assert not Certificate(found.certificate.models).replay(left, right)


def test_a_certificate_proves_nothing_else(tmp_path: Path) -> None:
    found, left, right = _checked(*_two_layers())
    assert found.certificate is not None and len(found.certificate.claims) == 2
    for k in range(2):
        fewer = replace(found.certificate, claims=found.certificate.claims[k : k + 1])
        assert not fewer.replay(left, right)
    first, second = found.certificate.claims
    wrong = replace(found.certificate, claims=((first[0], first[1], ("x0", "Neg(x0)"), *first[3:]), second))
    assert not wrong.replay(left, right)
    other, another = joined(_two_layers()[0], _bias_in_gemm()[1])
    assert not found.certificate.replay(other, another)


def _pads(before: list[int], kind: str, **attrs: Any) -> list[onnx.NodeProto]:
    return [node("Pad", ["x", "p"], ["h"]), node(kind, ["h"], ["y"], kernel_shape=[3, 3], **attrs)]


P = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64)


def _false_pairs() -> dict[str, tuple[Model, Model]]:
    """The false rewrites of other optimizers, and single mutations."""
    changed = W.copy()
    changed[1, 2] *= 1.01
    image = {"shape": IMAGE}
    return {
        "pad into MaxPool": (
            _graph(*_pads([1], "MaxPool"), p=P, **image),
            _graph(node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), **image),
        ),
        "integer division": (
            _graph(
                node("Div", ["one", "x"], ["h"]), node("Mul", ["h", "z"], ["y"]), one=np.array(1, np.int32), dtype=6
            ),
            _graph(node("Div", ["z", "x"], ["y"]), dtype=6),
        ),
        "AveragePool's pads": (
            _graph(*_pads([1], "AveragePool", pads=[1, 1, 1, 1]), p=P, **image),
            _graph(node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[2, 2, 2, 2]), **image),
        ),
        "disjoint Clips": (
            _graph(
                node("Clip", ["x", "a", "b"], ["h"]), node("Relu", ["h"], ["y"]), a=np.float32(-2), b=np.float32(-1)
            ),
            _graph(node("Clip", ["x", "a", "b"], ["y"]), a=np.float32(0), b=np.float32(-1)),
        ),
        "scale along W": (
            _graph(node("Conv", ["x", "k"], ["h"]), node("Mul", ["h", "s"], ["y"]), k=K, s=S, shape=(N, C, H, H)),
            _graph(node("Conv", ["x", "k"], ["y"]), k=K * S[:, None, None, None], shape=(N, C, H, H)),
        ),
        "Casts": (
            _graph(
                node("Cast", ["x"], ["h"], to=6), node("Cast", ["h"], ["b"], to=9), node("Cast", ["b"], ["y"], to=1)
            ),
            _graph(node("Cast", ["x"], ["b"], to=9), node("Cast", ["b"], ["y"], to=1)),
        ),
        "a weight": (
            _graph(node("MatMul", ["x", "w"], ["y"]), w=W),
            _graph(node("MatMul", ["x", "w"], ["y"]), w=changed),
        ),
        "a fraction, the next number": _third(float(np.nextafter(np.float32(1 / 3), np.float32(1)))),
        "an attribute, the next number": _hard_swish(float(np.nextafter(np.float32(1 / 6), np.float32(1)))),
        "operands": (_graph(node("Sub", ["x", "z"], ["y"])), _graph(node("Sub", ["z", "x"], ["y"]))),
        "an axis": (_graph(node("Softmax", ["x"], ["y"], axis=0)), _graph(node("Softmax", ["x"], ["y"], axis=1))),
        "a transposition": (
            _graph(node("MatMul", ["x", "w"], ["y"]), w=W),
            _graph(node("Gemm", ["x", "w"], ["y"], transB=1), w=W),
        ),
    }


@pytest.mark.parametrize("name", _false_pairs())
def test_different_models_are_not_proven(name: str) -> None:
    found, _, _ = _checked(*_false_pairs()[name])
    assert found.outputs == (False,) and found.certificate is None


def test_folded_weights_agree_within_their_roundings_only() -> None:
    found, _, _ = _checked(*_folded())
    errors = [match.error for match in found.matches if match.error]
    assert errors and all(error < 1e-6 for error in errors)
    for factor in (1 + 2e-6, 1.01, -1.0):
        found, _, _ = _checked(*_folded(factor))
        assert found.outputs == (False,)


def test_weights_that_both_models_folded_may_differ_by_a_few_roundings() -> None:
    """Two exporters fold BatchNormalization, and neither file says from what."""

    def gemm(weight: np.ndarray[Any, Any]) -> Model:
        return _graph(node("MatMul", ["x", "w"], ["y"]), w=weight)

    near = np.nextafter(W, np.float32(2))
    found, left, right = _checked(gemm(W), gemm(near))
    assert found.outputs == (True,) and found.certificate is not None
    apart = float(np.abs(near.astype(float) - W).max() / np.abs(near).max())
    assert [match.error for match in found.matches if match.by == "values"] == [pytest.approx(apart)]
    assert found.certificate.replay(left, right)
    far = W.copy()
    far[1, 2] += np.float32(1e-6) * np.abs(W).max()
    assert _checked(gemm(W), gemm(far))[0].outputs == (False,)


def test_the_error_of_a_weight_of_the_other_sign_is_stated() -> None:
    left = _graph(node("MatMul", ["x", "w"], ["h"]), node("Sub", ["z", "h"], ["y"]), w=W)
    near = np.nextafter(-W, np.float32(2))
    right = _graph(node("MatMul", ["x", "v"], ["h"]), node("Add", ["z", "h"], ["y"]), v=near)
    found, *pair = _checked(left, right)
    assert found.outputs == (True,) and found.certificate is not None and found.certificate.replay(*pair)
    assert any(0 < match.error < 1e-6 for match in found.matches)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_constants_that_a_gather_moves_are_compared_as_onnx_defines_it(axis: int) -> None:
    """GatherElements reads a part of the table where its indices have fewer rows."""
    table, places = weights(3, 4), np.array([[2, 0], [1, 2]])
    gather = node("GatherElements", ["t", "i"], ["g"], axis=axis)
    rows, columns = np.indices(places.shape)
    moved = table[places, columns] if axis == 0 else table[rows, places]
    for value, is_equal in ((moved, True), (moved[::-1].copy(), False)):
        left = _graph(gather, node("Add", ["x", "g"], ["y"]), shape=(2, 2), t=table, i=places)
        right = _graph(node("Add", ["x", "g"], ["y"]), shape=(2, 2), g=value)
        assert _checked(left, right)[0].outputs == (is_equal,)


@pytest.mark.parametrize(("factor", "count"), [(1 + 1e-3, 1), (1.5, 0)])
def test_the_nearest_tensor_is_proposed_where_roundings_have_grown(factor: float, count: int) -> None:
    left, right = joined(
        _graph(node("MatMul", ["x", "w"], ["y"]), w=W),
        _graph(node("MatMul", ["x", "w"], ["y"]), w=(W * factor).astype(np.float32)),
    )
    assert len(Proposals(left, right, 0, 10.0).of(right.outputs[0])) == count


def test_values_are_compared_at_a_batch_that_the_model_accepts() -> None:
    """An operand of one row fixes the batch to 1, and a window needs more than a few columns."""
    row, kernel = np.ones((1, 1, 1), np.float32), np.ones((1, 1, 9), np.float32)
    nodes = [node("Concat", ["x", "row"], ["c"], axis=2), node("Conv", ["c", "kernel"], ["y"])]
    models = (_graph(*nodes, shape=("n", 1, "m"), row=row, kernel=(factor * kernel)) for factor in (1, 1 + 2**-20))
    left, right = joined(*models)
    assert Proposals(left, right, 0, 10.0).of(right.outputs[0]) == [left.outputs[0]]


def test_no_time_for_values_proposes_little() -> None:
    left, right = joined(_graph(node("Relu", ["x"], ["y"])), _graph(node("Relu", ["x"], ["y"])))
    Proposals(left, right, 0, -1.0)


FOLDINGS = {
    "a mean": (
        [node("ReduceMean", ["w"], ["m"], axes=[0], keepdims=1)],
        lambda w: w.mean(axis=0, keepdims=True, dtype=np.float32),
    ),
    "a sum": ([node("CumSum", ["w", "axis"], ["m"])], lambda w: np.cumsum(w, axis=0, dtype=np.float32)),
    "a function of whole numbers": (
        [node("Cast", ["rows"], ["r"], to=1), node("Mul", ["r", "half"], ["t"]), node("Cos", ["t"], ["m"])],
        lambda w: np.cos(0.5 * np.arange(w.shape[1])).astype(np.float32),
    ),
    "a power": ([node("Abs", ["w"], ["a"]), node("Pow", ["a", "half"], ["m"])], lambda w: np.sqrt(np.abs(w))),
}


@pytest.mark.parametrize("name", FOLDINGS)
def test_what_a_tool_folds_is_compared_within_its_roundings(name: str) -> None:
    nodes, computed = FOLDINGS[name]
    value = computed(W)
    product = node("Mul", ["x", "m"], ["y"])
    constants = {"w": W, "axis": np.array(0), "half": np.array(0.5, np.float32), "rows": np.arange(W.shape[1])}
    used = {key: constants[key] for key in constants if any(key in made.input for made in nodes)}
    left = _graph(*nodes, product, **used)
    found, *pair = _checked(left, _graph(product, m=value))
    assert found.outputs == (True,)
    assert found.certificate is not None
    assert found.certificate.replay(*pair)
    assert _checked(left, _graph(product, m=value * np.float32(1.001)))[0].outputs == (False,)


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
    left = _graph(*before, node("Exp", ["r"], ["y"]))
    right = _graph(node("Abs", ["x"], ["b"]), node("Exp", ["b"], ["y"]))
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
        return _graph(*nodes, node("Neg", [last], ["y"]), **values)

    found, _, _ = _checked(layers(False), layers(True))
    assert found.outputs == (True,) and found.certificate is not None
    equations = [equation for _, _, equation, _, _ in found.certificate.claims]
    assert len(equations) == 4 and len(set(equations)) == 1


def _shared(row: float = 0) -> tuple[Model, Model]:
    """Two readers of the first row of e, which the left model computes in two ways; `row` changes one of them."""

    def read(silu: list[onnx.NodeProto], index: list[onnx.NodeProto], second: str) -> Model:
        nodes = [node("Gather", ["e", "zero"], ["a"], axis=0), *index, *silu]
        nodes += [node("Gather", ["x", "a"], ["u"], axis=0), node("Gather", ["m", second], ["v"], axis=0)]
        nodes += [node("Sub", ["u", "v"], ["y"])]
        inputs = [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["k", C]),
            helper.make_tensor_value_info("e", TensorProto.INT64, [2, N]),
        ]
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        numbers = {"zero": np.array(0), "row": np.array(int(row)), "axes": np.array([0]), "parts": np.array([1, 1])}
        return read_simplified(model(nodes, inputs, [output], list(numbers.items())))

    plain = [node("Sigmoid", ["x"], ["g"]), node("Mul", ["x", "g"], ["m"])]
    fused = [helper.make_node("QuickGelu", ["x"], ["m"], domain="com.microsoft", alpha=1.0)]
    split = [node("Split", ["e", "parts"], ["first", "rest"], axis=0), node("Squeeze", ["first", "axes"], ["b"])]
    other = [node("Gather", ["e", "row"], ["c"], axis=0)] if row else []
    return read(plain, split, "b"), read(fused, other, "c" if row else "a")


def test_what_the_left_model_computes_twice_the_right_one_may_read_once() -> None:
    found, left, right = _checked(*_shared())
    assert found.outputs == (True,) and found.certificate is not None and found.certificate.congruent
    assert found.certificate.replay(left, right)
    assert not replace(found.certificate, claims=()).replay(left, right)
    assert not _checked(*_shared(1))[0].outputs[0]


def test_a_tensor_that_both_read_is_opened_if_one_of_them_reads_its_operand() -> None:
    """a Sigmoid(1 a) and QuickGelu(1 a): the second model has no a, as it computes 1 a in another way."""
    one, two = np.ones(1, np.float32), np.full(1, 2, np.float32)
    names = ["x", *(f"t{k}" for k in range(70))]  # more operators than a cone may have
    before = [node("Tanh", [name], [following]) for name, following in itertools.pairwise(names)]
    silu = [node("Sigmoid", ["m"], ["g"]), node("Mul", ["a", "g"], ["y"])]
    left = _graph(*before, node("Add", ["t69", "t69"], ["a"]), node("Mul", ["a", "one"], ["m"]), *silu, one=one)
    fused = helper.make_node("QuickGelu", ["m"], ["y"], domain="com.microsoft", alpha=1.0)
    found, _, _ = _checked(left, _graph(*before, node("Mul", ["t69", "two"], ["m"]), fused, two=two))
    assert found.outputs == (True,) and found.certificate is not None
    assert found.certificate.derivations == ((), ())  # no rule has removed the 1 before
    wrong = helper.make_node("QuickGelu", ["m"], ["y"], domain="com.microsoft", alpha=1.5)
    assert not _checked(left, _graph(*before, node("Mul", ["t69", "two"], ["m"]), wrong, two=two))[0].outputs[0]
