"""Rewritten models whose operators need free sizes as numbers: constants, copies, or arithmetic on shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest

from superopt.ir.dim import Size, symbol
from superopt.ir.infer import completed, make
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, read_model, write_model
from tests.support.runtime_oracle import session


def term(op: str, *inputs: Term, dtype: str = "float", **attrs: Attr) -> Term:
    return make(op, inputs, completed(op, attrs), dtype)


def flat(x: Term, b: Size, s: Size) -> Term:
    return term("Reshape", x, shape=(b * s, 6))


def steps(n: Size) -> Term:
    return term("Range", dtype="int64", start=2.0, delta=3.0, n=n)


# name: (first opset, a term over x[b, s, 6], operators that compute it at opset 17)
Made = Callable[[Term, Size, Size], Term]
CASES: dict[str, tuple[int, Made, str]] = {
    "one other size": (7, lambda x, b, s: flat(x, b, s), "Reshape"),
    "copies": (7, lambda x, b, s: term("Reshape", x, shape=(b, s, 2, 3)), "Reshape"),
    "two other sizes": (
        14,
        lambda x, b, s: term("Reshape", term("Relu", flat(x, b, s)), shape=(b, s, 6)),
        "Reshape Relu Shape Concat Reshape",
    ),
    "beside an inferred one": (
        7,
        lambda x, b, s: term("Reshape", term("Relu", flat(x, b, s)), shape=(b, -1, 6)),
        "Reshape Relu Shape Concat Reshape",
    ),
    "turned": (
        14,
        lambda x, b, s: term("Reshape", flat(x, b, s), shape=(6, s, b)),
        "Reshape Shape Gather Concat Reshape",
    ),
    "slice to the end": (7, lambda x, b, s: term("Slice", x, axes=(-2,), starts=(0,), ends=(s,), steps=(1,)), "Slice"),
    "slice before the end": (
        7,
        lambda x, b, s: term("Slice", x, axes=(-2,), starts=(s - 2,), ends=(s - 1,), steps=(1,)),
        "Slice",
    ),
    "slice backwards": (
        10,
        lambda x, b, s: term("Slice", x, axes=(-2,), starts=(s - 1,), ends=(-1,), steps=(-1,)),
        "Slice",
    ),
    "slice backwards to a size": (
        10,
        lambda x, b, s: term("Slice", x, axes=(-1,), starts=(5,), ends=(b - 2,), steps=(-1,)),
        "Shape Sub Slice",
    ),
    "expand": (
        8,
        lambda x, b, s: term("Expand", term("Unsqueeze", x, axes=(0,)), shape=(s, b, s, 6)),
        "Unsqueeze Shape Concat Expand",
    ),
    "pad": (11, lambda x, b, s: term("Pad", x, pads=(0, 0, 0, b, s // 2, 0)), "Shape Shape Div Concat Pad"),
    "tile": (7, lambda x, b, s: term("Tile", x, repeats=(1, 1, b * s)), "Shape Shape Mul Concat Tile"),
    "split": (
        13,
        lambda x, b, s: term("Split", term("Concat", x, x, axis=-2), axis=-2, split=(s, s)).out(1),
        "Concat Shape Gather Split",
    ),
    "gather": (7, lambda x, b, s: term("Gather", x, axis=-2, indices=s - 1), "Shape Sub Squeeze Gather"),
    "zeros": (
        9,
        lambda x, b, s: term("Add", x, term("Zeros", shape=(b, s, 6))),
        "Shape Concat ConstantOfShape Add",
    ),
    "range": (
        11,
        lambda x, b, s: term("Add", term("Cast", x, to="int64"), term("Unsqueeze", steps(s), axes=(-1,))),
        "Cast Shape Mul Add Squeeze Range Unsqueeze Add",
    ),
    "rounded down": (
        10,
        lambda x, b, s: term("Tile", x, repeats=(1, 1, (s - 4 * b) // 3 + 8)),
        "Shape Shape Mul Sub Mod Sub Div Add Concat Tile",
    ),
}  # fmt: skip


@pytest.mark.parametrize("opset", [7, 9, 10, 13, 14, 17, 21])
@pytest.mark.parametrize("name", CASES)
def test_free_sizes_are_computed_as_numbers_would_be(name: str, opset: int) -> None:
    first, made, operators = CASES[name]
    x = var("x", tensor(symbol("b"), symbol("s"), 6))
    outputs = [made(x, symbol("b"), symbol("s")), made(term("Neg", x), symbol("b"), symbol("s"))]
    if opset < first:
        with pytest.raises(ModelError):
            write_model(new_model(outputs, opset=opset))
        return
    free = session(write_model(new_model(outputs, opset=opset)))
    for b, s in ((1, 2), (2, 3), (3, 7)):
        feeds = {"x": np.random.default_rng(b).standard_normal((b, s, 6)).astype(np.float32)}
        there = var("x", tensor(b, s, 6))
        fixed = session(write_model(new_model([made(there, b, s), made(term("Neg", there), b, s)], opset=opset)))
        for ours, theirs in zip(free.run(None, feeds), fixed.run(None, feeds), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    if opset == 17:
        written = write_model(new_model(outputs[:1], opset=opset))
        assert " ".join(node.op_type for node in written.graph.node) == operators


def test_arithmetic_on_shapes_is_written_once() -> None:
    b, s = symbol("b"), symbol("s")
    x = var("x", tensor(b, s, 6))
    outputs = [term("Reshape", term(op, flat(x, b, s)), shape=(b, s, 6)) for op in ("Neg", "Relu", "Exp")]
    written = write_model(new_model(outputs))
    assert [n.op_type for n in written.graph.node if n.op_type in ("Shape", "Concat")] == ["Shape", "Concat"]


def test_a_node_of_the_model_that_computes_a_size_is_not_written_again() -> None:
    """A BERT of free sizes had two nodes Shape of the same input: its own, and the one for the mask's Expand."""
    b, s = symbol("b"), symbol("s")
    x = var("x", tensor(b, s, 6))
    shape = Term.of("Shape", (x,), {}, (tensor(3, dtype="int64"),))
    outputs = [shape, term("Reshape", term("Neg", flat(x, b, s)), shape=(b, s, 6))]
    written = write_model(new_model(outputs, opset=14))
    assert [n.op_type for n in written.graph.node].count("Shape") == 1
    made = session(written).run(None, {"x": np.ones((2, 5, 6), np.float32)})
    assert made[0].tolist() == [2, 5, 6]
    assert made[-1].shape == (2, 5, 6)


# Target shapes of x[b, s, 6], and the first opset that can write them.
TARGETS: list[tuple[int, Callable[[Size, Size], tuple[Size, ...]]]] = [
    (7, lambda b, s: (b, s, 2, 3)),
    (7, lambda b, s: (b * s, 2, 3)),
    (7, lambda b, s: (2 * b * s, 3)),
    (14, lambda b, s: (b, 2, 3 * s)),
    (14, lambda b, s: (2 * b, 3 * s)),
    (14, lambda b, s: (s, b, 6)),
]


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0), (2, 3)])
@pytest.mark.parametrize(("opset", "wanted"), TARGETS)
def test_a_size_may_be_0_at_run_time(
    opset: int, wanted: Callable[[Size, Size], tuple[Size, ...]], shape: tuple[int, int]
) -> None:
    x = var("x", tensor(symbol("b"), symbol("s"), 6))
    reshaped = term("Reshape", x, shape=wanted(symbol("b"), symbol("s")))
    (y,) = session(write_model(new_model([reshaped], opset=opset))).run(None, {"x": np.zeros((*shape, 6), np.float32)})
    assert y.shape == wanted(*shape)
    if opset >= 14:
        with pytest.raises(ModelError, match="sizes that may be 0"):
            write_model(new_model([reshaped], opset=opset - 1))


def test_a_copied_size_may_be_0_at_run_time() -> None:
    x = var("x", tensor(symbol("b"), symbol("s"), 6))
    made = session(write_model(new_model([term("Reshape", x, shape=(0, 2, 3 * symbol("s")))])))
    assert made.run(None, {"x": np.zeros((0, 5, 6), np.float32)})[0].shape == (0, 2, 15)


def test_a_size_that_data_determine_comes_from_the_tensor_that_has_it() -> None:
    x = var("x", tensor(symbol("n")))
    found = Term.of("NonZero", (x,), {}, (tensor(1, symbol("found"), dtype="int64"),))
    twice = term("Concat", found, found, axis=-1)
    written = write_model(new_model([term("Reshape", twice, shape=(2, symbol("found"), 1))]))
    (y,) = session(written).run(None, {"x": np.array([1, 0, 2, 3], np.float32)})
    assert y.reshape(-1).tolist() == [0, 2, 3, 0, 2, 3]


def test_a_size_is_solved_for_if_no_tensor_has_it() -> None:
    n = symbol("n")
    x = var("x", tensor(2 * n + 1, 3))
    (y,) = session(write_model(new_model([term("Tile", x, repeats=(1, n))]))).run(
        None, {"x": np.ones((5, 3), np.float32)}
    )
    assert y.shape == (5, 6)


def test_an_attribute_of_a_free_size_is_refused_in_one_line() -> None:
    x = var("x", tensor(symbol("n"), 3, 8, 8))
    attrs: dict[str, Attr] = {"kernel_shape": (2, 2), "strides": (1, 1), "dilations": (1, 1)}
    pool = term("MaxPool", x, **attrs, pads=(0, 0, symbol("n"), 0))
    with pytest.raises(ModelError, match=r"MaxPool takes pads = .* as a number only, and the size is free"):
        write_model(new_model([pool]))
    with pytest.raises(ModelError, match="the size m is needed before a tensor has it"):
        write_model(new_model([term("Tile", x, repeats=(1, 1, 1, symbol("m")))]))


def test_a_size_that_may_be_broadcast_is_not_taken_for_the_result() -> None:
    """ONNX's inference does not know the operator of ONNX Runtime; n may be 1, and then the product has 2 columns."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[l, n] x) => (float[] z)'
        " <float[1, 1] w = {2}, float[2] v = {1, 1}>"
        ' { t = com.microsoft.FusedGemm<activation = "Relu">(w, x) c = Concat<axis = 0>(t, t) y = Mul(c, v)'
        " z = Add(y, v) }"
    )
    (total,) = read_model(model).outputs
    product = total.inputs[0]
    assert product is not None and product.op == "Mul"
    assert product.type is None or product.type.shape in (None, (2, 2))
