"""Proofs that two models are equal, and that none is found for models that are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from superopt.check.certificate import Certificate
from superopt.check.equality import joined
from superopt.onnx_io import Model
from tests.support.models import weights
from tests.support.pairs import folded, graph, proven, third

node = helper.make_node
N, C, H = "n", 4, 6
W, V = weights(C, C), weights(C, C, seed=1)
B, S = weights(C, seed=2), weights(C, seed=3)
K = weights(C, C, 3, 3)
IMAGE = (N, C, H, H)


def _bias_in_gemm() -> tuple[Model, Model]:
    return (
        graph(node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["y"]), w=W, b=B),
        graph(node("Gemm", ["x", "w", "b"], ["y"]), w=W, b=B),
    )


def _transposed_weight() -> tuple[Model, Model]:
    return (
        graph(node("MatMul", ["x", "w"], ["y"]), w=W),
        graph(node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"]), w=W.T.copy()),
    )


def _gelu() -> tuple[Model, Model]:
    two = np.array(2**0.5, np.float32)
    parts = [node("Div", ["x", "r"], ["d"]), node("Erf", ["d"], ["e"]), node("Add", ["e", "one"], ["f"])]
    parts += [node("Mul", ["x", "f"], ["g"]), node("Mul", ["g", "half"], ["y"])]
    fused = onnx.helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    return graph(*parts, r=two, one=np.float32(1), half=np.float32(0.5)), graph(fused)


def _hard_swish(alpha: float = 1 / 6) -> tuple[Model, Model]:
    """The function body of HardSwish, with 1/6 as an attribute in float32."""
    parts = [node("HardSigmoid", ["x"], ["s"], alpha=alpha, beta=0.5), node("Mul", ["x", "s"], ["y"])]
    return graph(node("HardSwish", ["x"], ["y"])), graph(*parts)


def _two_layers() -> tuple[Model, Model]:
    """The second proof begins where the first one ended."""
    left = [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "b"], ["c"]), node("Tanh", ["c"], ["d"])]
    left += [node("MatMul", ["d", "v"], ["e"]), node("Add", ["s", "e"], ["y"])]
    right = [node("Gemm", ["x", "w", "b"], ["c"]), node("Tanh", ["c"], ["d"]), node("Gemm", ["d", "v", "s"], ["y"])]
    return graph(*left, w=W, v=V, b=B, s=S), graph(*right, w=W, v=V, b=B, s=S)


def _lora() -> tuple[Model, Model]:
    down, up = weights(C, 2, seed=8), weights(2, C, seed=9)
    left = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["x", "d"], ["e"]), node("MatMul", ["e", "u"], ["f"])]
    return (
        graph(*left, node("Add", ["a", "f"], ["y"]), w=W, d=down, u=up),
        graph(node("MatMul", ["x", "w"], ["y"]), w=W + down @ up),
    )


def _side_by_side() -> tuple[Model, Model]:
    left = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["x", "v"], ["b"]), node("Mul", ["a", "b"], ["y"])]
    right = [node("MatMul", ["x", "w"], ["h"]), node("Split", ["h"], ["a", "b"], axis=1)]
    return (
        graph(*left, w=W, v=V),
        graph(*right, node("Mul", ["a", "b"], ["y"]), w=np.concatenate((W, V), axis=1)),
    )


def _transposed_side_by_side() -> tuple[Model, Model]:
    """Two Gemms with transposed weights as one Gemm of both weights."""
    left = [node("Gemm", ["x", "w", "b"], ["a"], transB=1), node("Gemm", ["x", "v", "s"], ["c"], transB=1)]
    right = [node("Gemm", ["x", "u", "t"], ["h"]), node("Split", ["h"], ["a", "c"], axis=-1, num_outputs=2)]
    joint = np.concatenate((W.T, V.T), axis=1), np.concatenate((B, S))
    return (
        graph(*left, node("Mul", ["a", "c"], ["y"]), w=W, v=V, b=B, s=S),
        graph(*right, node("Mul", ["a", "c"], ["y"]), u=joint[0], t=joint[1]),
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
    left = graph(*convs, *normal, node("Add", ["c", "d"], ["y"]), shape=IMAGE, w=K, k=small, **given)
    return left, graph(node("Conv", ["x", "w", "b"], ["y"], pads=[1] * 4), shape=IMAGE, **folded)


def _normed_weight() -> tuple[Model, Model]:
    """A weight that is divided by its norm (Salimans and Kingma, 2016)."""
    norm = [node("ReduceL2", ["w"], ["n"], axes=[0]), node("Div", ["w", "n"], ["d"]), node("MatMul", ["x", "d"], ["y"])]
    ratio = W / np.sqrt((W * W).sum(axis=0, keepdims=True))
    return graph(*norm, w=W), graph(node("MatMul", ["x", "d"], ["y"]), d=ratio)


EQUAL = [_bias_in_gemm, _transposed_weight, _gelu, third, _hard_swish, _two_layers, folded, _lora, _side_by_side]
EQUAL += [_transposed_side_by_side, _branches, _normed_weight]


@pytest.mark.parametrize("pair", EQUAL, ids=lambda pair: pair.__name__)
def test_equal_models_are_proven_and_the_proof_replays(pair: Any, tmp_path: Path) -> None:
    found, left, right = proven(*pair())
    assert found.outputs == (True,) and found.certificate is not None
    found.certificate.write(tmp_path / "proof.json")
    assert Certificate.read(tmp_path / "proof.json").replay(left, right)
    assert {match.by for match in found.matches} - {"same"}
    assert not Certificate(found.certificate.models).replay(left, right)


def test_a_certificate_proves_nothing_else(tmp_path: Path) -> None:
    found, left, right = proven(*_two_layers())
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
            graph(*_pads([1], "MaxPool"), p=P, **image),
            graph(node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]), **image),
        ),
        "integer division": (
            graph(node("Div", ["one", "x"], ["h"]), node("Mul", ["h", "z"], ["y"]), one=np.array(1, np.int32), dtype=6),
            graph(node("Div", ["z", "x"], ["y"]), dtype=6),
        ),
        "AveragePool's pads": (
            graph(*_pads([1], "AveragePool", pads=[1, 1, 1, 1]), p=P, **image),
            graph(node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[2, 2, 2, 2]), **image),
        ),
        "disjoint Clips": (
            graph(node("Clip", ["x", "a", "b"], ["h"]), node("Relu", ["h"], ["y"]), a=np.float32(-2), b=np.float32(-1)),
            graph(node("Clip", ["x", "a", "b"], ["y"]), a=np.float32(0), b=np.float32(-1)),
        ),
        "scale along W": (
            graph(node("Conv", ["x", "k"], ["h"]), node("Mul", ["h", "s"], ["y"]), k=K, s=S, shape=(N, C, H, H)),
            graph(node("Conv", ["x", "k"], ["y"]), k=K * S[:, None, None, None], shape=(N, C, H, H)),
        ),
        "Casts": (
            graph(node("Cast", ["x"], ["h"], to=6), node("Cast", ["h"], ["b"], to=9), node("Cast", ["b"], ["y"], to=1)),
            graph(node("Cast", ["x"], ["b"], to=9), node("Cast", ["b"], ["y"], to=1)),
        ),
        "a weight": (
            graph(node("MatMul", ["x", "w"], ["y"]), w=W),
            graph(node("MatMul", ["x", "w"], ["y"]), w=changed),
        ),
        "a fraction, the next number": third(float(np.nextafter(np.float32(1 / 3), np.float32(1)))),
        "an attribute, the next number": _hard_swish(float(np.nextafter(np.float32(1 / 6), np.float32(1)))),
        "operands": (graph(node("Sub", ["x", "z"], ["y"])), graph(node("Sub", ["z", "x"], ["y"]))),
        "an axis": (graph(node("Softmax", ["x"], ["y"], axis=0)), graph(node("Softmax", ["x"], ["y"], axis=1))),
        "a transposition": (
            graph(node("MatMul", ["x", "w"], ["y"]), w=W),
            graph(node("Gemm", ["x", "w"], ["y"], transB=1), w=W),
        ),
    }


@pytest.mark.parametrize("name", _false_pairs())
def test_different_models_are_not_proven(name: str) -> None:
    found, _, _ = proven(*_false_pairs()[name])
    assert found.outputs == (False,) and found.certificate is None


def test_folded_weights_agree_within_their_roundings_only() -> None:
    found, _, _ = proven(*folded())
    errors = [match.error for match in found.matches if match.error]
    assert errors and all(error < 1e-6 for error in errors)
    for factor in (1 + 2e-6, 1.01, -1.0):
        found, _, _ = proven(*folded(factor))
        assert found.outputs == (False,)


def test_weights_that_both_models_folded_may_differ_by_a_few_roundings() -> None:
    """Two exporters fold BatchNormalization, and neither file says from what."""

    def gemm(weight: np.ndarray[Any, Any]) -> Model:
        return graph(node("MatMul", ["x", "w"], ["y"]), w=weight)

    near = np.nextafter(W, np.float32(2))
    found, left, right = proven(gemm(W), gemm(near))
    assert found.outputs == (True,) and found.certificate is not None
    apart = float(np.abs(near.astype(float) - W).max() / np.abs(near).max())
    assert [match.error for match in found.matches if match.by == "values"] == [pytest.approx(apart)]
    assert found.certificate.replay(left, right)
    far = W.copy()
    far[1, 2] += np.float32(1e-6) * np.abs(W).max()
    assert proven(gemm(W), gemm(far))[0].outputs == (False,)


def test_the_error_of_a_weight_of_the_other_sign_is_stated() -> None:
    left = graph(node("MatMul", ["x", "w"], ["h"]), node("Sub", ["z", "h"], ["y"]), w=W)
    near = np.nextafter(-W, np.float32(2))
    right = graph(node("MatMul", ["x", "v"], ["h"]), node("Add", ["z", "h"], ["y"]), v=near)
    found, *pair = proven(left, right)
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
        left = graph(gather, node("Add", ["x", "g"], ["y"]), shape=(2, 2), t=table, i=places)
        right = graph(node("Add", ["x", "g"], ["y"]), shape=(2, 2), g=value)
        assert proven(left, right)[0].outputs == (is_equal,)


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
    left = graph(*nodes, product, **used)
    found, *pair = proven(left, graph(product, m=value))
    assert found.outputs == (True,)
    assert found.certificate is not None
    assert found.certificate.replay(*pair)
    assert proven(left, graph(product, m=value * np.float32(1.001)))[0].outputs == (False,)
