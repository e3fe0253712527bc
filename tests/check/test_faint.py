"""Differences below the roundings of one run: found where a weight was moved, and never in what a tool rounds."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from superopt.check import DIFFERENT, EQUIVALENT, UNKNOWN, CheckOptions, check
from superopt.check.constants import Constants
from superopt.check.differences import Comparison
from superopt.check.faint import follows
from superopt.check.side import Side
from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType, tensor
from tests.support.models import floats, model, weights

node = helper.make_node
_WIDTH = 192


def _layers(moved: float = 1.0, scale: float = 1.0) -> onnx.ModelProto:
    """Two layers; one weight of the first is multiplied by `moved`, and all of it by `scale`, in float32."""
    first, second = weights(_WIDTH, _WIDTH), weights(_WIDTH, _WIDTH, seed=1)
    first[3, 5] *= np.float32(moved)
    first, second = first * np.float32(scale), second / np.float32(scale)
    return model(
        [node("MatMul", ["x", "a"], ["h"]), node("Relu", ["h"], ["r"]), node("MatMul", ["r", "b"], ["y"])],
        [floats("x", 4, _WIDTH)],
        [floats("y", 4, _WIDTH)],
        [("a", first), ("b", second)],
    )


def test_one_weight_among_many_is_found() -> None:
    answer = check(_layers(), _layers(1.001), CheckOptions(seconds=20))
    assert answer.verdict == DIFFERENT, answer.reason


def test_rounded_weights_are_no_difference() -> None:
    """Both layers are rounded anew: (3 a) and (b / 3) give the same function."""
    assert check(_layers(), _layers(scale=3.0), CheckOptions(seconds=2)).verdict != DIFFERENT


def _cancelling() -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """((x w - 1000) + 1000.001) t is x (w t) + (0.001 t), where 1000.001 - 1000 has lost most of its digits."""
    w, t = weights(_WIDTH, _WIDTH), weights(_WIDTH, seed=1)
    high = np.full(_WIDTH, 1000.001, np.float32)
    long = model(
        [
            node("MatMul", ["x", "w"], ["m"]), node("Sub", ["m", "k"], ["s"]), node("Add", ["s", "h"], ["a"]),
            node("Mul", ["a", "t"], ["y"]),
        ],
        [floats("x", 4, _WIDTH)],
        [floats("y", 4, _WIDTH)],
        [("w", w), ("k", np.full(_WIDTH, 1000, np.float32)), ("h", high), ("t", t)],
    )  # fmt: skip
    folded = model(
        [node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["y"])],
        [floats("x", 4, _WIDTH)],
        [floats("y", 4, _WIDTH)],
        [("w", w * t), ("b", (high - np.float32(1000)) * t)],
    )
    return long, folded


def test_a_folded_bias_that_cancels_is_no_difference() -> None:
    assert check(*_cancelling(), CheckOptions(seconds=2)).verdict != DIFFERENT


def test_attributes_that_are_roundings_are_no_difference() -> None:
    """A product of two numbers that one model has as an attribute, rounded."""

    def scaled(*factors: float) -> onnx.ModelProto:
        nodes = [
            node("Gemm", ["x" if k == 0 else f"g{k}", "w" if k == 0 else "one", "z"], [f"g{k + 1}"], alpha=factor)
            for k, factor in enumerate(factors)
        ]
        nodes[-1].output[0] = "y"
        values = [("w", weights(64, 64)), ("z", np.zeros(64, np.float32)), ("one", np.eye(64, dtype=np.float32))]
        return model(nodes, [floats("x", 4, 64)], [floats("y", 4, 64)], values)

    assert check(scaled(0.3, 0.7), scaled(float(np.float32(0.21))), CheckOptions(seconds=2)).verdict != DIFFERENT


def test_runs_follow_a_difference_and_no_noise() -> None:
    rng = np.random.default_rng(0)
    exact = rng.standard_normal(1000), rng.standard_normal(1000)
    d = 1e-3 * rng.standard_normal(1000)
    noise = 1e-3 * rng.standard_normal((2, 1000))
    assert follows((exact[0], exact[0] + d), (exact[0] + noise[0], exact[0] + d + noise[1]))
    assert not follows((exact[0], exact[0] + d), (exact[0] + noise[0], exact[0] + noise[1]))
    assert not follows((exact[0], exact[0] + d), (exact[0], exact[0]))
    assert not follows((exact[0], exact[0] + d), (exact[0], exact[0] - d))
    assert not follows((exact[0][:4], exact[0][:4] + d[:4]), (exact[0][:4], exact[0][:4] + d[:4]))
    assert not follows((exact[0], exact[0]), (exact[0], exact[0]))


def _compared(
    a: np.ndarray, b: np.ndarray, *uses: tuple[str, np.ndarray | None], is_folded: bool = True
) -> float | None:
    """Compare two arrays of which a graph makes these uses, each with an input or another array.

    If `is_folded`, the other array is rounded in another way where `b` is used.
    """
    dtype = "float"
    arrays = {"a": a, "b": b}
    for k, (_, array) in enumerate(uses):
        if array is not None:
            arrays |= {f"ca{k}": array, f"cb{k}": array * np.float32(1 + 2.0**-23) if is_folded else array}
    terms = {
        name: Term.of("Const", (), {"hash": name}, (TensorType(dtype, array.shape),)) for name, array in arrays.items()
    }
    outputs: list[Term] = []
    for k, (op, array) in enumerate(uses or [("Mul", None)]):
        for name in ("a", "b"):
            other = var("x", tensor(*a.shape)) if array is None else terms[f"c{name}{k}"]
            outputs.append(_used(op, other, terms[name]))
    return Constants(arrays, outputs).difference(terms["a"], terms["b"])


def _used(op: str, other: Term, constant: Term) -> Term:
    """Return an operator on a constant and another term, and inputs if the operator is a sum of products."""
    if op == "Conv":
        attrs = {"group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1), "dilations": (1, 1)}
        return make(op, (var("x", tensor(1, 3, 8, 8)), other, constant), attrs)
    if op == "MatMul":
        return make("Add", (make(op, (var("x", tensor(5, 64)), other), {}), constant), {})
    made = make(op, (other, constant), {"fmod": 1} if op == "Mod" else {})
    return make("Mul", (var("x", tensor(64)), made), {}) if made.is_constant else made


def test_a_small_element_that_moved_is_no_rounding() -> None:
    """It is near relative to the largest element, but not to itself."""
    a = weights(64, 64)
    a[0, 0] = 1e-6
    b = a.copy()
    b[0, 0] *= np.float32(1 + 1e-5)
    assert _compared(a, b) is None
    b[0, 0] = np.nextafter(a[0, 0], np.float32(1))
    assert _compared(a, b) is not None
    again = (a.astype(np.float64) * (1 + 1e-7 * np.random.default_rng(0).standard_normal(a.shape))).astype(np.float32)
    assert _compared(a, again) is not None


@pytest.mark.parametrize(("op", "shape"), [("Conv", (64, 3, 3, 3)), ("MatMul", (64, 64))])
def test_a_bias_may_be_what_a_sum_has_left(op: str, shape: tuple[int, ...]) -> None:
    """It may differ by roundings of the sums of products to which it is added."""
    a, kernel = weights(64), weights(*shape)
    a[0] = 1e-6
    b = a.copy()
    sums = np.abs(kernel).sum(axis=(1, 2, 3) if op == "Conv" else 0)
    b[0] += np.float32(2.0**-22) * sums[0]
    assert _compared(a, b, (op, kernel)) is not None
    assert _compared(a, b, (op, kernel), is_folded=False) is None  # nothing was folded into the weights
    assert _compared(a, b, ("Add", None)) is None  # to what has no weights
    assert _compared(a, b, (op, kernel), ("Mul", None)) is None
    b[0] += np.float32(2.0**-20) * sums[0]
    assert _compared(a, b, (op, kernel)) is None


@pytest.mark.parametrize("op", ["Sub", "Greater", "Mod"])
def test_roundings_matter_where_a_function_jumps_or_further_constants_are_computed(op: str) -> None:
    a = np.linspace(1, 2, 64, dtype=np.float32)
    b = np.nextafter(a, np.float32(0))
    assert _compared(a, b) is not None
    assert _compared(a, b, (op, weights(64) if op == "Sub" else None)) is None


def test_a_small_weight_that_moved_is_not_equivalent() -> None:
    before, after = _layers(), _layers()
    for proto, factor in ((before, 1.0), (after, 1.01)):
        (tensor,) = (t for t in proto.graph.initializer if t.name == "a")
        values = numpy_helper.to_array(tensor).copy()
        values[0, 0] = np.float32(1e-6 * factor)
        tensor.CopyFrom(numpy_helper.from_array(values, "a"))
    assert check(before, after, CheckOptions(seconds=2)).verdict != EQUIVALENT


def test_without_time_for_float64_nothing_is_called_different(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs alone do not tell a cancellation from a difference."""
    exact = Side.exact

    def late(side: Side, *arguments: Any) -> list[Any]:
        time.sleep(1.2)  # longer than a search may take of two seconds
        return exact(side, *arguments)

    def compared(*arguments: Any) -> None:
        raise AssertionError("runs were compared with each other")

    monkeypatch.setattr(Side, "exact", late)
    monkeypatch.setattr(Comparison, "_difference_of_runs", compared)
    assert check(*_cancelling(), CheckOptions(seconds=2)).verdict != DIFFERENT


@pytest.mark.parametrize("width", [8, 192])
def test_a_weight_with_other_last_digits_is_found_in_float64(width: int, tmp_path: Path) -> None:
    """No run in float32 tells the outputs apart. But the models are equal but for one element."""

    def layers(factor: float) -> onnx.ModelProto:
        first, second = weights(width, width), weights(width, width, seed=1)
        place = np.unravel_index(np.argmax(np.abs(first)), first.shape)
        first[place] *= np.float32(factor)
        nodes = [node("MatMul", ["x", "a"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "b"], ["y"])]
        return model(nodes, [floats("x", 4, width)], [floats("y", 4, width)], [("a", first), ("b", second)])

    witness = tmp_path / "x.npz"
    answer = check(layers(1.0), layers(1 + 1e-6), CheckOptions(seconds=20, witness=witness))
    assert answer.verdict == DIFFERENT
    assert "equal but for 'a'[" in answer.reason
    assert answer.difference is not None
    assert answer.difference.is_faint
    assert witness.exists()


def test_a_changed_weight_without_effect_is_not_called_different() -> None:
    def gated(weight: float) -> onnx.ModelProto:
        nodes = [
            node("MatMul", ["x", "a"], ["h"]),
            node("Sigmoid", ["h"], ["s"]),
            node("Mul", ["s", "half"], ["t"]),
            node("Floor", ["t"], ["f"]),
            node("Add", ["f", "x"], ["y"]),
        ]
        values = weights(64, 64)
        values[0, 0] = weight
        return model(
            nodes, [floats("x", 4, 64)], [floats("y", 4, 64)], [("a", values), ("half", np.array(0.5, np.float32))]
        )

    answer = check(gated(1.0), gated(1.25), CheckOptions(seconds=3))
    assert answer.verdict == UNKNOWN
    assert "equal but for 'a'[0, 0] (1 in A, 1.25 in B)" in answer.reason


def test_an_element_is_compared_by_itself() -> None:
    a = np.full(1000, 0.01, np.float32)
    a[0] = 1e6
    b = a.copy()
    b[777] = 0.05
    assert _compared(a, b, ("Mul", None)) is None
    assert _compared(a, b, ("Add", None)) is None


def test_zeros_of_other_signs_are_no_rounding() -> None:
    zeros = np.zeros(4, np.float32)
    assert _compared(zeros, -zeros) is None


def test_rules_make_no_roundings_where_nothing_is_rounded() -> None:
    """x > w is x > w - 0, by a rule. But w - 0 is w, so a threshold with another last digit is another one."""

    def above(w: np.ndarray) -> onnx.ModelProto:
        output = helper.make_tensor_value_info("y", TensorProto.BOOL, None)
        return model([node("Greater", ["x", "w"], ["y"])], [floats("x", "n", 64)], [output], [("w", w)])

    w = np.linspace(1, 2, 64, dtype=np.float32)
    assert check(above(w), above(np.nextafter(w, np.float32(0))), CheckOptions(seconds=3)).verdict != EQUIVALENT


@pytest.mark.parametrize("op", ["Max", "Where", "Concat"])
def test_roundings_matter_where_nothing_rounds_before_a_function_jumps(op: str) -> None:
    """floor(max(x, w)) is another number for most x."""
    a = np.linspace(1, 2, 64, dtype=np.float32)
    b = np.nextafter(a, np.float32(0))
    x, mask = var("x", tensor(64)), var("m", TensorType("bool", (64,)))

    def used(constant: Term) -> Term:
        if op == "Concat":
            return make(op, (x, constant), {"axis": -1})
        return make(op, (mask, constant, x) if op == "Where" else (constant, x), {})

    terms = [Term.of("Const", (), {"hash": name}, (tensor(64),)) for name in "ab"]
    for end, in_body, equal in (("Exp", False, True), ("Floor", False, False), ("", False, True), ("", True, False)):
        outputs = [make(end, (used(term),), {}) if end else used(term) for term in terms]
        found = Constants({"a": a, "b": b}, outputs, in_body).difference(*terms)
        assert (found is not None) == equal


def test_a_folded_threshold_with_another_last_digit_is_another_one() -> None:
    factor = np.array([0.1, 0.5, 0.3, 1], np.float32)
    made = factor * np.float32(10)
    near = np.nextafter(made, np.float32(0))

    def scaled_by_whole_part(nodes: list[onnx.NodeProto], **values: np.ndarray) -> onnx.ModelProto:
        nodes = [*nodes, node("Floor", ["w"], ["f"]), node("Mul", ["x", "f"], ["y"])]
        return model(nodes, [floats("x", "n", 4)], [floats("y", "n", 4)], list(values.items()))

    left = scaled_by_whole_part([node("Mul", ["c", "ten"], ["w"])], c=factor, ten=np.float32([10]))
    assert check(left, scaled_by_whole_part([], w=made), CheckOptions(seconds=3)).verdict == EQUIVALENT
    assert check(left, scaled_by_whole_part([], w=near), CheckOptions(seconds=3)).verdict != EQUIVALENT
