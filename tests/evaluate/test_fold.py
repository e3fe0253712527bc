"""The folding of weights: which subterms become constants, and which."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.evaluate import can_evaluate, constant, evaluate, fold, folded
from superopt.ir.dim import symbol
from superopt.ir.infer import OPERATORS, make
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.types import TensorType, tensor
from superopt.onnx_io import new_model, write_model
from tests.support.closeness import assert_close
from tests.support.runtime_oracle import session

Shape = tuple[int, ...]


def test_a_view_is_stored_in_the_order_of_its_elements() -> None:
    weights: dict[str, np.ndarray] = {}
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert constant(rows.T, "float", weights) is constant(np.array(rows.T, order="C"), "float", weights)
    assert all(array.flags.c_contiguous for array in weights.values())
    assert constant(np.array(7, np.int64), "int64", weights).type == TensorType("int64", ())


def test_constants_are_recognised_bit_by_bit() -> None:
    weights: dict[str, np.ndarray] = {}
    assert constant(np.zeros((2, 3), np.float32), "float", weights) is make("Zeros", (), {"shape": (2, 3)})
    assert constant(np.ones((), np.float64), "double", weights) is make("Ones", (), {"shape": ()}, "double")
    assert not weights
    others = (-np.zeros(2), np.array([0.0, 1.0]), np.zeros(0), np.zeros(2, np.int64))
    for array in others:
        term = constant(array, "double" if array.dtype == np.float64 else "int64", weights)
        assert term.op == "Const"
        assert weights[term.attr("hash")] is array
    same = constant(np.array([0, 1], np.float32), "float", weights)
    assert same is constant(np.array([0, 1], np.float32), "float", weights)
    assert same is not constant(np.array([[0, 1]], np.float32), "float", weights)
    texts = np.array([b"a", b"b"], dtype=object)
    assert constant(texts, "string", weights) is constant(texts.copy(), "string", weights)


def weight(shape: Shape, weights: dict[str, np.ndarray], seed: int = 0, dtype: type = np.float32) -> Term:
    names = {np.float32: "float", np.float64: "double", np.float16: "float16"}
    array = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return constant(array, names[dtype], weights)


def test_fold_takes_the_maximal_subterms() -> None:
    weights: dict[str, np.ndarray] = {}
    x, a, b = var("x", tensor(3, 4)), weight((4, 5), weights, 1), weight((5, 4), weights, 2)
    product = make("MatMul", (a, b))
    moved = make("Add", (x, make("Ones", (), {"shape": (4,)})))
    output = make("MatMul", (moved, make("Transpose", (product,), {"perm": (1, 0)})))
    (result,) = fold([output], weights)
    assert [term.op for term in topological([result])] == ["Var", "Ones", "Add", "Const", "MatMul"]
    env = {x: np.ones((3, 4), np.float32)}
    assert_close(evaluate([result], env, weights), evaluate([output], env, weights))
    assert folded([result], weights) == {}


def test_fold_is_computed_in_float64_and_rounded_once() -> None:
    weights: dict[str, np.ndarray] = {}
    a = constant(np.array([1.0, 2048.0], np.float16), "float16", weights)
    b = constant(np.array([1.0, 1.0], np.float16), "float16", weights)
    total = make("Sub", (make("Add", (a, make("Identity", (b,)))), a))  # 2048 + 1 is 2048 in float16
    (result,) = fold([total], weights)
    assert result is make("Ones", (), {"shape": (2,)}, "float16")


def test_fold_leaves_opaque_and_random_terms() -> None:
    weights: dict[str, np.ndarray] = {}
    a = weight((2, 2), weights)
    assert "Atan" not in OPERATORS
    opaque = Term.of("Atan", (a,), {}, a.types)
    output = make("Add", (make("MatMul", (a, a)), make("Neg", (opaque,))))
    (result,) = fold([output], weights)
    assert [term.op for term in topological([result])] == ["Const", "Const", "Atan", "Neg", "Add"]
    assert not can_evaluate(opaque)
    drawn = Term.of("RandomNormalLike", (a,), {"node": 3}, a.types)
    assert fold([make("Neg", (drawn,))], weights) == (make("Neg", (drawn,)),)


def scalar(value: float, weights: dict[str, np.ndarray]) -> Term:
    return constant(np.array(value, np.float32), "float", weights)


@pytest.mark.parametrize("pair", [(0.3, 0.1), (0.7, 0.1)])
@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round", "Sign", "Equal", "Cast", "ThresholdedRelu"])
def test_what_a_jump_depends_on_is_left_to_the_runtime(op: str, pair: tuple[float, float]) -> None:
    """In float32, 0.7 / 0.1 is 7; the quotient of the two float32 numbers is less, and its floor 6."""
    weights: dict[str, np.ndarray] = {}
    a, b = (scalar(x, weights) for x in pair)
    quotient = make("Div", (a, b))
    attrs: dict[str, Attr] = {"Cast": {"to": "int64"}, "ThresholdedRelu": {"alpha": 1.0}}.get(op, {})
    inputs = (make("Sub", (quotient, make("Reciprocal", (b,)))),) if op == "Sign" else (make("Neg", (quotient,)),)
    jump = make(op, (quotient, scalar(7, weights)) if op == "Equal" else inputs, attrs)
    x = var("x", tensor(3, dtype=jump.type.dtype if jump.type is not None else "float"))
    outputs = (make("Where", (jump, x, x)) if op == "Equal" else make("Add", (x, jump)), jump)
    assert folded(outputs, weights) == {}
    assert fold(fold(outputs, weights), weights) == outputs
    # What is beside it folds as ever.
    beside = make("Mul", (x if op not in ("Equal", "Cast") else var("y", tensor(3)), make("Exp", (a,))))
    assert [term.op for term in folded([beside, jump], weights)] == ["Exp"]


def test_the_floor_of_a_quotient_of_weights_is_the_one_of_the_runtime() -> None:
    weights: dict[str, np.ndarray] = {}
    a, b = scalar(0.7, weights), scalar(0.1, weights)
    floor = make("Floor", (make("Div", (a, b)),))
    (exactly,) = evaluate([floor], {}, weights)
    assert exactly == 6
    x = var("x", tensor(1))
    model = write_model(new_model([make("Add", (x, floor))], weights, opset=17))
    assert [node.op_type for node in model.graph.node] == ["Div", "Floor", "Add"]
    (result,) = session(model).run(None, {"x": np.zeros(1, np.float32)})
    assert result == np.floor(np.float32(0.7) / np.float32(0.1)) == 7


def test_a_power_is_folded_where_its_exponent_is_no_computed_number() -> None:
    weights: dict[str, np.ndarray] = {}
    base, a, b = scalar(-2, weights), scalar(0.6, weights), scalar(0.3, weights)
    exponent = make("Div", (a, b))  # 2 in float32; any other would have no real power of -2
    power = make("Pow", (make("Mul", (base, base)), exponent))
    assert [term.op for term in folded([power], weights)] == ["Mul"]
    assert [term.op for term in folded([make("Pow", (make("Mul", (base, a)), scalar(2, weights)))], weights)] == ["Pow"]


def test_a_jump_of_weights_as_they_are_is_folded() -> None:
    weights: dict[str, np.ndarray] = {}
    a = constant(np.array([[0.3, -1.5], [2.0, 2.5]], np.float32), "float", weights)
    moved = make("Slice", (make("Transpose", (a,), {"perm": (1, 0)}),),
                 {"axes": (0,), "ends": (-1,), "starts": (1,), "steps": (-1,)})  # fmt: skip
    half = make("Cast", (moved,), {"to": "float16"})  # rounded as any runtime rounds it
    for term, expected in (
        (make("Floor", (moved,)), [[-2.0, 2.0], [0.0, 2.0]]),
        (make("Round", (half,)), [[-2.0, 2.0], [0.0, 2.0]]),
        (make("Cast", (moved,), {"to": "int32"}), [[-1, 2], [0, 2]]),
        (make("Less", (moved, scalar(1, weights))), [[True, False], [True, False]]),
        (make("Add", (make("Cast", (make("Less", (a, a)),), {"to": "float"}), a)), [[0.3, -1.5], [2.0, 2.5]]),
    ):
        (result,) = fold([term], weights)
        assert result.op == "Const" and result.type == term.type
        np.testing.assert_array_equal(weights[str(result.attr("hash"))], np.array(expected, np.float32))


def test_integers_have_no_rounding_to_wait_for() -> None:
    weights: dict[str, np.ndarray] = {}
    a, b = (constant(np.array([n], np.int64), "int64", weights) for n in (7, 2))
    term = make("Cast", (make("Less", (make("Div", (a, b)), b)),), {"to": "int64"})
    (result,) = fold([term], weights)
    assert weights[str(result.attr("hash"))].tolist() == [0]


def test_fold_of_several_outputs() -> None:
    weights: dict[str, np.ndarray] = {}
    a = weight((2, 5), weights)
    node = make("Split", (a,), {"axis": -1, "split": (2, 3)})
    left, right = fold([node.out(0), make("Tanh", (node.out(1),))], weights)
    assert left.op == right.op == "Const"
    array = next(iter(weights.values()))
    assert_close([weights[str(left.attr("hash"))]], [array[:, :2]])
    assert_close([weights[str(right.attr("hash"))]], [np.tanh(array[:, 2:])])


def test_a_term_with_symbols_cannot_be_evaluated() -> None:
    n = symbol("n")
    assert not can_evaluate(Term.of("Zeros", (), {"shape": (n,)}, (TensorType("float", (n,)),)))
    assert can_evaluate(make("Zeros", (), {"shape": (2,)}))
    assert not can_evaluate(var("x", tensor(2)))


def test_folding_a_large_convolution_of_weights_is_quick() -> None:
    weights: dict[str, np.ndarray] = {}
    big, small = weight((128, 64, 3, 3), weights, 1), weight((256, 64, 1, 1), weights, 2)
    attrs = {"dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1)}
    (result,) = fold([make("Conv", (big, small), attrs)], weights)
    assert result.type == tensor(128, 256, 3, 3)


def test_quantized_weights_stay_integers() -> None:
    """Runtimes compute with them as integers, and ONNX Runtime fuses only DequantizeLinear nodes that it finds."""
    weights: dict[str, np.ndarray] = {}
    w = constant(np.arange(6, dtype=np.int8).reshape(2, 3), "int8", weights)
    scale = constant(np.array(0.5, np.float32), "float", weights)
    real = make("DequantizeLinear", (make("Transpose", (w,), {"perm": (1, 0)}), scale), {"axis": -1})
    (term,) = fold([make("Transpose", (real,), {"perm": (1, 0)})], weights)
    (inner,) = term.inputs
    assert inner is not None and inner.op == "DequantizeLinear" and inner.inputs[0] is not None
    assert inner.inputs[0].op == "Const"


@pytest.mark.parametrize("step", [2**61 + 1, -(2**61)])
def test_a_step_of_a_slice_beyond_any_memory(step: int) -> None:
    weights: dict[str, np.ndarray] = {}
    attrs: dict[str, Attr] = {"axes": (0,), "ends": (3 if step > 0 else -1,), "starts": (1,), "steps": (step,)}
    sliced = make("Slice", (weight((3, 2), weights),), attrs)
    (found,) = evaluate([sliced], {}, weights)
    (whole,) = weights.values()
    np.testing.assert_array_equal(found, whole[1:2])
