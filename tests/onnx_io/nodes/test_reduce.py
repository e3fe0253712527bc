"""Forms that reductions take in the opsets, and the one form that terms have."""

from __future__ import annotations

import pytest

from superopt.ir.infer import IllTyped, make
from superopt.ir.term import var
from superopt.ir.types import tensor
from tests.support.canonical_nodes import read, shown
from tests.support.simplified import parsed

WEIGHTS = "int64[2] a02 = {0, 2}, int64[0] none = {}, int64[1] twice = {-3}"
PLAIN = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
COMPOSED = ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")


@pytest.mark.parametrize("op", PLAIN + COMPOSED)
@pytest.mark.parametrize(
    ("opset", "node", "expected"),
    [
        (7, "(t)", "axes=(-3, -2, -1) keepdims=1"),
        (7, "<axes = [2, 0], keepdims = 0>(t)", "axes=(-3, -1) keepdims=0"),
        (11, "<axes = [-1]>(t)", "axes=(-1,) keepdims=1"),
        (13, "<axes = [1]>(t)", "axes=(-2,) keepdims=1"),
        (18, "(t)", "axes=(-3, -2, -1) keepdims=1"),
        (18, "<keepdims = 0>(t, a02)", "axes=(-3, -1) keepdims=0"),
        (18, "<noop_with_empty_axes = 1>(t, a02)", "axes=(-3, -1) keepdims=1"),
        (18, "(t, none)", "axes=(-3, -2, -1) keepdims=1"),
        (20, "(t, twice)", "axes=(-3,) keepdims=1"),
    ],
)
def test_forms(op: str, opset: int, node: str, expected: str) -> None:
    body = f"g (float[2, 4, 3] x) => (float[] y) <{WEIGHTS}> {{ t = Abs(x) y = {op}{node} }}"
    assert shown(read(parsed(body, opset))) == f"{op} {expected}"


@pytest.mark.parametrize("op", ["ReduceSum", *PLAIN, *COMPOSED])
@pytest.mark.parametrize("inputs", ["x", "x, none"])
def test_a_reduction_over_no_axis_is_the_identity_where_it_only_reduces(op: str, inputs: str) -> None:
    body = f"g (float[2, 4, 3] x) => (float[] y) <{WEIGHTS}> {{ y = {op}<noop_with_empty_axes = 1>({inputs}) }}"
    expected = f"ai.onnx::{op}" if op in COMPOSED else "Identity"
    assert read(parsed(body, 18)).op == expected


@pytest.mark.parametrize("op", COMPOSED)
def test_a_composed_reduction_of_a_scalar_is_not_the_identity(op: str) -> None:
    assert read(parsed(f"g (float x) => (float y) {{ y = {op}(x) }}", 18)).op == f"ai.onnx::{op}"
    with pytest.raises(IllTyped):
        make(op, [var("x", tensor(2))], {"axes": (), "keepdims": 1})


def test_axes_that_are_not_constant() -> None:
    model = parsed("g (float[2, 4, 3] x, int64[1] a) => (float[k, n, m] y) { y = ReduceMean(x, a) }", 18)
    assert read(model).op == "ai.onnx::ReduceMean"


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceL2", "ReduceLogSum"])
def test_integers_whose_rounding_onnx_leaves_open(op: str) -> None:
    assert read(parsed(f"g (int32[2, 3] x) => (int32[1, 1] y) {{ y = {op}(x) }}", 13)).op == f"ai.onnx::{op}"


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMean", "ReduceLogSum"])
def test_the_largest_of_nothing(op: str) -> None:
    with pytest.raises(IllTyped):
        make(op, [var("x", tensor(2, 0))], {"axes": (-1,), "keepdims": 1})
