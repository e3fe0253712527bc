"""Weights that the second model has folded, layer after layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from superopt.check.equality import joined, prove_equal
from superopt.check.folding import Rewriting
from superopt.onnx_io import Model, read_simplified
from tests.support.models import model, weights

node = helper.make_node
C = 4


def read(nodes: list[onnx.NodeProto], height: int | str, **values: np.ndarray) -> Model:
    x, y = (helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", ["n", C, height, 6]), ("y", None)))
    proto = model(nodes, [x], [y], list(values.items()))
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return read_simplified(proto)


def normalised(layers: int, op: str = "Conv", kernel: int = 3) -> tuple[Model, Model]:
    """Layers of a convolution, BatchNormalization and Tanh; and the same with BatchNormalization in the weights."""
    left: list[onnx.NodeProto] = []
    right: list[onnx.NodeProto] = []
    ours: dict[str, np.ndarray] = {}
    theirs: dict[str, np.ndarray] = {}
    last = "x"
    for k in range(layers):
        w = weights(C, C, kernel, kernel, seed=10 * k)
        s, o, m, v = (np.abs(weights(C, seed=10 * k + j)) + np.float32(0.5) for j in range(1, 5))
        ours |= {f"{name}{k}": value for name, value in zip("wsomv", (w, s, o, m, v), strict=True)}
        scale = s / np.sqrt(v + np.float32(1e-5))
        by_output = (1, C, 1, 1) if op == "ConvTranspose" else (C, 1, 1, 1)
        theirs |= {f"u{k}": w * scale.reshape(by_output), f"b{k}": o - m * scale}
        end = "y" if k == layers - 1 else f"t{k}"
        left += [
            node(op, [last, f"w{k}"], [f"c{k}"]),
            node("BatchNormalization", [f"c{k}", *(f"{name}{k}" for name in "somv")], [f"n{k}"]),
            node("Tanh", [f"n{k}"], [end]),
        ]
        right += [node(op, [last, f"u{k}", f"b{k}"], [f"d{k}"]), node("Tanh", [f"d{k}"], [end])]
        last = end
    return read(left, 6, **ours), read(right, 6, **theirs)


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_layers_that_are_alike_need_one_search(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0
    search = Rewriting._reached

    def counted(*arguments: Any) -> Any:
        nonlocal searches
        searches += 1
        yield from search(*arguments)

    monkeypatch.setattr(Rewriting, "_reached", counted)
    left, right = joined(*normalised(3, op, kernel=1))
    found = prove_equal(left, right, seconds=40)
    assert found.outputs == (True,) and found.certificate is not None and found.certificate.replay(left, right)
    assert searches == 1 and sum(match.by == "rules" for match in found.matches) >= 3


def test_rules_apply_where_a_window_below_makes_sizes_large_enough() -> None:
    """A Pool of three rows, three apart, has (n - 3) // 3 + 1 rows: at least one wherever it is defined."""
    w = weights(C, C, 1, 1)
    s, o, m, v = (np.abs(weights(C, seed=seed)) + np.float32(0.5) for seed in range(1, 5))
    scale = s / np.sqrt(v + np.float32(1e-5))
    pool = node("MaxPool", ["x"], ["p"], kernel_shape=[3, 3], strides=[3, 3])
    norm = node("BatchNormalization", ["c", "s", "o", "m", "v"], ["y"])
    left = read([pool, node("Conv", ["p", "w"], ["c"]), norm], "h", w=w, s=s, o=o, m=m, v=v)
    folded = {"u": w * scale[:, None, None, None], "b": o - m * scale}
    right = read([pool, node("Conv", ["p", "u", "b"], ["y"])], "h", **folded)
    left, right = joined(left, right)
    found = prove_equal(left, right, seconds=20)
    assert found.outputs == (True,) and found.certificate is not None and found.certificate.replay(left, right)


@pytest.mark.parametrize(("flushed", "is_equal"), [(True, True), (False, False)])
def test_what_is_smaller_than_normal_numbers_may_be_zero(flushed: bool, is_equal: bool) -> None:
    w = weights(C, C, 1, 1)
    w[0, 0, 0, 0], w[1, 1, 0, 0] = 3e-39, 3e-37
    half = w * np.float32(0.3)
    half[(0, 0, 0, 0) if flushed else (1, 1, 0, 0)] = 0
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Mul", ["c", "half"], ["y"])]
    left, right = joined(
        read(nodes, 6, w=w, half=np.array(0.3, np.float32)), read([node("Conv", ["x", "w"], ["y"])], 6, w=half)
    )
    assert prove_equal(left, right, seconds=20).outputs == (is_equal,)


def test_a_factor_of_an_activation_is_in_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """HardSigmoid(Conv(x, w) + o) is Clip(Conv(x, a w, a o + b)): the way there leads through more operators."""
    monkeypatch.setattr("superopt.check.equality._Proof._found_by_rules", lambda proof: None)
    w, o = weights(C, C, 1, 1), weights(1, C, 1, 1, seed=1)
    a, b = np.float32(0.2), np.float32(0.5)
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Add", ["c", "o"], ["s"]),
        node("HardSigmoid", ["s"], ["y"], alpha=float(a), beta=float(b)),
    ]
    values = {"u": a * w, "v": a * o.ravel() + b}
    clipped = {"activation": "Clip", "activation_params": [0.0, 1.0]}
    fused = node("FusedConv", ["x", "u", "v"], ["y"], domain="com.microsoft", **clipped)
    left, right = joined(read(nodes, 6, w=w, o=o), read([fused], 6, **values))
    found = prove_equal(left, right, seconds=20)
    assert found.outputs == (True,) and found.certificate is not None and found.certificate.replay(left, right)
