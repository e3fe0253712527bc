"""Forms that Reshape and its relatives take in the opsets, and the one form that terms have."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.ir.dim import Size, symbol
from superopt.ir.infer import make
from superopt.ir.operator import IllTyped
from superopt.ir.term import Attr, var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, read_model, write_model
from tests.support.canonical_nodes import read, shown
from tests.support.runtime_oracle import round_trip
from tests.support.simplified import parsed

WEIGHTS = (
    "int64[2] s0m = {0, -1}, int64[3] s = {2, 6, 2}, int64[0] none = {}, int64[4] s1 = {1, 0, 2, -1}, "
    "int64[2] two = {2, 1}, int64[3] r = {1, 2, 3}, int64[3] deep = {2, 1, 2}"
)


@pytest.mark.parametrize(
    ("opset", "node", "expected"),
    [
        (7, "Reshape(x, s0m)", "Reshape allowzero=0 shape=(0, -1)"),
        (13, "Reshape(x, s)", "Reshape allowzero=0 shape=(2, 6, 2)"),
        (14, "Reshape<allowzero = 1>(x, s)", "Reshape allowzero=0 shape=(2, 6, 2)"),
        (14, "Reshape<allowzero = 0>(x, s1)", "Reshape allowzero=0 shape=(1, 0, 2, -1)"),
        (21, "Reshape(x, s0m)", "Reshape allowzero=0 shape=(0, -1)"),
        (7, "Reshape(one, none)", "Reshape allowzero=0 shape=()"),
        (9, "Flatten(x)", "Flatten axis=1"),
        (9, "Flatten<axis = 3>(x)", "Flatten axis=3"),
        (11, "Flatten<axis = -1>(x)", "Flatten axis=2"),
        (13, "Flatten<axis = 0>(x)", "Flatten axis=0"),
        (8, "Expand(one, s)", "Expand shape=(2, 6, 2)"),
        (13, "Expand(x, deep)", "Expand shape=(2, 1, 2)"),
        (13, "Expand(x, none)", "Expand shape=(2, 1, 2)"),
        (7, "Tile(x, r)", "Tile repeats=(1, 2, 3)"),
        (13, "Tile(x, r)", "Tile repeats=(1, 2, 3)"),
        (13, "Tile(scalar, none)", "Tile repeats=()"),
        (7, "DepthToSpace<blocksize = 2>(image)", "DepthToSpace blocksize=2 mode=DCR"),
        (11, "DepthToSpace<blocksize = 2>(image)", "DepthToSpace blocksize=2 mode=DCR"),
        (13, 'DepthToSpace<blocksize = 2, mode = "CRD">(image)', "DepthToSpace blocksize=2 mode=CRD"),
        (7, "SpaceToDepth<blocksize = 2>(image)", "SpaceToDepth blocksize=2"),
        (13, "SpaceToDepth<blocksize = 2>(image)", "SpaceToDepth blocksize=2"),
    ],
)
def test_forms(opset: int, node: str, expected: str) -> None:
    inputs = "float[2, 3, 4] x, float[1] one, float scalar, float[1, 8, 2, 4] image"
    inputs = inputs.replace("2, 3, 4", "2, 1, 2") if "Expand" in node else inputs
    inputs = inputs.replace("2, 3, 4", "2, 2, 6") if "s1" in node else inputs
    assert shown(read(parsed(f"g ({inputs}) => (float[] y) <{WEIGHTS}> {{ y = {node} }}", opset))) == expected


def test_zero_as_a_size() -> None:
    body = "g (float[0, 3] x) => (float[] y) <int64[2] s = {5, 0}> { y = Reshape<allowzero = 1>(x, s) }"
    term = read(parsed(body, 14))
    assert shown(term) == "Reshape allowzero=1 shape=(5, 0)"
    assert term.type == tensor(5, 0)


@pytest.mark.parametrize("node", ["Reshape(x, n)", "Expand(x, n)", "Tile(x, n)"])
def test_what_is_computed_is_no_attribute(node: str) -> None:
    model = parsed(f"g (float[2, 3] x, int64[2] n) => (float[a, b] y) {{ y = {node} }}", 17)
    assert round_trip(model, {"x": np.ones((2, 3), np.float32), "n": np.array([2, 3])}) is not None
    assert read_model(model).outputs[0].op == f"ai.onnx::{node.split('(')[0]}"


def test_reshape_that_does_not_fit_is_left_to_the_runtime() -> None:
    model = parsed("g (float[2, 3] x) => (float[] y) <int64[1] s = {5}> { y = Reshape(x, s) }", 17)
    assert read_model(model).outputs[0].op == "ai.onnx::Reshape"


@pytest.mark.parametrize(
    ("inputs", "constant", "expected"),
    [
        ("float[n, c, 4] x", "int64[2] s = {0, -1}", "float[n, 4*c]"),
        ("float[n, c, 4] x", "int64[4] s = {0, 0, 2, 2}", "float[n, c, 2, 2]"),
        ("float[n, 12] x", "int64[3] s = {-1, 3, 4}", "float[n, 3, 4]"),
        ("float[n, 12] x", "int64[2] s = {-1, 4}", "float[3*n, 4]"),
        ("float[n, c, h, w] x", "int64[3] s = {0, 0, -1}", "float[n, c, h*w]"),
    ],
)
def test_reshape_of_sizes_that_are_not_known(inputs: str, constant: str, expected: str) -> None:
    term = read(parsed(f"g ({inputs}) => (float[] y) <{constant}> {{ y = Reshape(x, s) }}", 17))
    assert str(term.type) == expected


def _needs(op: str, sizes: tuple[Size, ...], **attrs: Attr) -> tuple[str, list[str]]:
    needs: list[str] = []
    x = var("x", tensor(*sizes))
    term = make(op, [x], attrs, need=lambda relation, left, right: needs.append(f"{left} {relation} {right}"))
    return str(term.type), needs


def test_types_of_symbolic_sizes() -> None:
    a, b, k = symbol("a"), symbol("b"), symbol("k")
    assert _needs("Reshape", (a * b,), shape=(a, b), allowzero=0) == ("float[a, b]", ["1 <= a", "1 <= b"])
    assert _needs("Reshape", (a, b + 1, k), shape=(0, 0, -1), allowzero=0) == (
        "float[a, b + 1, k]",
        ["1 <= a", "1 <= b + 1"],  # beside 0 nothing can be inferred
    )
    assert _needs("Reshape", (a,), shape=(4, -1), allowzero=0) == ("float[4, ((a) // (4))]", ["4*((a) // (4)) == a"])
    assert _needs("Flatten", (a, b, k), axis=2) == ("float[a*b, k]", [])
    assert _needs("Expand", (1, a), shape=(k, 1, 1)) == ("float[k, 1, a]", ["0 <= k"])
    assert _needs("Tile", (a, b), repeats=(1, k)) == ("float[a, b*k]", ["0 <= k"])
    assert _needs("DepthToSpace", (a, 8, b, k), blocksize=2, mode="DCR") == ("float[a, 2, 2*b, 2*k]", [])


@pytest.mark.parametrize("shape", [(-1, -1), (-2, 3), (0, 0, 0), (7,)])
def test_shapes_that_make_no_sense(shape: tuple[int, ...]) -> None:
    with pytest.raises(IllTyped):
        make("Reshape", [var("x", tensor(2, 3))], {"shape": shape, "allowzero": 0})


def test_opsets_that_lack_a_form() -> None:
    x, image = var("x", tensor(2, 0)), var("i", tensor(1, 4, 2, 2))
    for term, opset in (
        (make("Reshape", [x], {"shape": (3, 0), "allowzero": 1}), 13),
        (make("Expand", [x], {"shape": (1,)}), 7),
        (make("DepthToSpace", [image], {"blocksize": 2, "mode": "CRD"}), 10),
    ):
        with pytest.raises(ModelError):
            write_model(new_model([term], opset=opset))
        write_model(new_model([term], opset=17))
