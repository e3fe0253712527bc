"""What terms compute, against ONNX Runtime and onnx.reference, through the writer; and the folding of weights."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from superopt.evaluate import can_evaluate, constant, evaluate, fold, folded
from superopt.ir.dim import symbol
from superopt.ir.ops import OPS, make
from superopt.ir.term import CLOSED_FORM, Term, topological, var
from superopt.ir.types import TensorType, tensor
from superopt.onnx_io import new_model, read_model, write_model
from tests.runtime_oracle import session

Shape = tuple[int, ...]
Made = tuple[dict[str, Any], list[Shape]]


def sizes(rng: random.Random, low: int, high: int) -> Shape:
    return tuple(rng.randint(1, 4) for _ in range(rng.randint(low, high)))


def narrowed(rng: random.Random, full: Shape) -> Shape:
    """A shape that broadcasts to `full`."""
    return tuple(1 if rng.random() < 0.3 else size for size in full[rng.randint(0, len(full)) :])


def unary(rng: random.Random) -> Made:
    return {}, [sizes(rng, 0, 4)]


def binary(rng: random.Random) -> Made:
    full = sizes(rng, 0, 4)
    return {}, [narrowed(rng, full), narrowed(rng, full)]


def variadic(rng: random.Random) -> Made:
    full = sizes(rng, 0, 3)
    return {}, [narrowed(rng, full) for _ in range(rng.randint(1, 4))]


def matmul(rng: random.Random) -> Made:
    m, k, n = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 4)
    batch = sizes(rng, 0, 2)
    left = (k,) if rng.random() < 0.2 else (*narrowed(rng, batch), m, k)
    right = (k,) if rng.random() < 0.2 else (*narrowed(rng, batch), k, n)
    return {}, [left, right]


def gemm(rng: random.Random) -> Made:
    m, k, n = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 4)
    attrs = {"alpha": rng.choice([1.0, -0.5]), "beta": rng.choice([1.0, 2.5])}
    attrs["transA"], attrs["transB"] = rng.randint(0, 1), rng.randint(0, 1)
    shapes = [(k, m) if attrs["transA"] else (m, k), (n, k) if attrs["transB"] else (k, n)]
    return attrs, shapes + rng.choice([[], [(n,)], [(m, n)], [(m, 1)], [(1,)], [()]])


def concat(rng: random.Random) -> Made:
    shape = sizes(rng, 1, 4)
    axis = rng.randrange(-len(shape), 0)
    parts = []
    for _ in range(rng.randint(1, 3)):
        part = list(shape)
        part[axis] = rng.randint(1, 4)
        parts.append(tuple(part))
    return {"axis": axis}, parts


def split(rng: random.Random) -> Made:
    shape = list(sizes(rng, 1, 4))
    axis = rng.randrange(-len(shape), 0)
    parts = tuple(rng.randint(1, 3) for _ in range(rng.randint(2, 3)))
    shape[axis] = sum(parts)
    return {"axis": axis, "split": parts}, [tuple(shape)]


def slice_(rng: random.Random) -> Made:
    shape = tuple(rng.randint(2, 7) for _ in range(rng.randint(1, 3)))
    axes = sorted(rng.sample(range(-len(shape), 0), rng.randint(1, len(shape))))
    starts = [rng.randint(0, shape[axis] - 1) for axis in axes]
    ends = [rng.randint(start + 1, shape[axis]) for axis, start in zip(axes, starts, strict=True)]
    steps = [rng.randint(1, 3) for _ in axes]
    return {"axes": tuple(axes), "starts": tuple(starts), "ends": tuple(ends), "steps": tuple(steps)}, [shape]


def transpose(rng: random.Random) -> Made:
    shape = sizes(rng, 1, 4)
    return {"perm": tuple(rng.sample(range(len(shape)), len(shape)))}, [shape]


def pad(rng: random.Random) -> Made:
    shape = tuple(rng.randint(3, 5) for _ in range(rng.randint(1, 3)))
    return {
        "pads": tuple(rng.randint(-1, 2) for _ in range(2 * len(shape))),
        "value": rng.choice([0.0, 1.5]),
    }, [shape]


def unsqueeze(rng: random.Random) -> Made:
    shape, more = sizes(rng, 0, 3), rng.randint(1, 2)
    return {"axes": tuple(sorted(rng.sample(range(-len(shape) - more, 0), more)))}, [shape]


def squeeze(rng: random.Random) -> Made:
    shape = list(sizes(rng, 1, 4))
    axes = sorted(rng.sample(range(-len(shape), 0), rng.randint(1, len(shape))))
    for axis in axes:
        shape[axis] = 1
    return {"axes": tuple(axes)}, [tuple(shape)]


def reduce_sum(rng: random.Random) -> Made:
    shape = sizes(rng, 1, 4)
    axes = sorted(rng.sample(range(-len(shape), 0), rng.randint(1, len(shape))))
    return {"axes": tuple(axes), "keepdims": rng.randint(0, 1)}, [shape]


def conv(rng: random.Random) -> Made:
    spatial, group = rng.randint(1, 3), rng.choice([1, 2, 3])
    kernel = [rng.randint(1, 3) for _ in range(spatial)]
    dilations = tuple(rng.randint(1, 2) for _ in range(spatial))
    pads = tuple(rng.randint(0, 2) for _ in range(2 * spatial))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    inside, outside = rng.randint(1, 2), group * rng.randint(1, 2)
    x = (rng.randint(1, 2), group * inside, *(size + rng.randint(0, 3) for size in reach))
    bias = [(outside,)] if rng.random() < 0.5 else []
    strides = tuple(rng.randint(1, 3) for _ in range(spatial))
    attrs = {"dilations": dilations, "group": group, "pads": pads, "strides": strides}
    return attrs, [x, (outside, inside, *kernel), *bias]


def batch_normalization(rng: random.Random) -> Made:
    shape = sizes(rng, 2, 4)
    return {"epsilon": rng.choice([float(np.float32(1e-5)), 0.25])}, [shape, *[(shape[1],)] * 4]


def dirac(rng: random.Random) -> Made:
    group, inside = rng.randint(1, 3), rng.randint(1, 3)
    kernel = tuple(rng.randint(1, 4) for _ in range(rng.randint(1, 2)))
    return {"group": group, "shape": (group * inside, inside, *kernel)}, []


MAKERS: dict[str, Callable[[random.Random], Made]] = {
    **dict.fromkeys(("Neg", "Identity", "Relu", "Sigmoid", "Tanh"), unary),
    **dict.fromkeys(("Add", "Sub", "Mul"), binary),
    "Sum": variadic,
    "MatMul": matmul,
    "Gemm": gemm,
    "Concat": concat,
    "Split": split,
    "Slice": slice_,
    "Transpose": transpose,
    "Pad": pad,
    "Unsqueeze": unsqueeze,
    "Squeeze": squeeze,
    "ReduceSum": reduce_sum,
    "Conv": conv,
    "BatchNormalization": batch_normalization,
    "Zeros": lambda rng: ({"shape": sizes(rng, 0, 3)}, []),
    "Ones": lambda rng: ({"shape": sizes(rng, 0, 3)}, []),
    "Eye": lambda rng: ({"n": rng.randint(1, 4)}, []),
    "Dirac": dirac,
}


def example(op: str, rng: random.Random) -> tuple[tuple[Term, ...], dict[Term, np.ndarray]]:
    """Outputs of a random application of `op` to variables, and values for those."""
    attrs, shapes = MAKERS[op](rng)
    inputs = [var(f"x{k}", tensor(*shape)) for k, shape in enumerate(shapes)]
    values = np.random.default_rng(rng.randrange(1 << 30))
    env = {term: values.standard_normal(shape).astype(np.float32) for term, shape in zip(inputs, shapes, strict=True)}
    if op == "BatchNormalization":
        env[inputs[4]] = np.abs(env[inputs[4]]) + 0.1
    term = make(op, inputs, attrs)
    return (term,) if len(term.types) == 1 else tuple(term.out(k) for k in range(len(term.types))), env


def assert_close(got: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_every_operator_is_here() -> None:
    assert set(MAKERS) == set(OPS)


@pytest.mark.parametrize("op", MAKERS)
def test_against_runtime_and_reference(op: str) -> None:
    for seed in range(25):
        rng = random.Random(f"{op}{seed}")
        outputs, env = example(op, rng)
        ours = evaluate(outputs, env, {})
        assert [array.shape for array in ours] == [term.type.shape for term in outputs if term.type is not None]
        opset = rng.choice([7, 9, 10, 11, 12, 13, 15, 17, 18, 21])
        if op == "Slice" and opset < 10 and set(outputs[0].attr("steps")) != {1}:
            opset = 10  # Slice had no steps before
        model = write_model(new_model(outputs, opset=opset))
        feeds = {str(term.attr("name")): value for term, value in env.items()}
        assert_close(session(model).run(None, feeds), ours)
        if op == "Pad" and min(outputs[0].attr("pads")) < 0:
            continue  # onnx.reference does not crop
        # At older opsets it takes BatchNormalization for training and loses count of negative axes.
        reference = ReferenceEvaluator(write_model(new_model(outputs, opset=18)))
        assert_close([np.asarray(array) for array in reference.run(None, feeds)], ours)


@pytest.mark.parametrize("op", MAKERS)
def test_written_operator_is_read_back(op: str) -> None:
    """The writer's form of every operator, at every opset, is read as the same term."""
    rng = random.Random(op)
    for opset in (7, 9, 10, 11, 12, 13, 14, 15, 17, 18, 21):
        outputs, _ = example(op, rng)
        if op == "Slice" and opset < 10 and set(outputs[0].attr("steps")) != {1}:
            continue
        if op == "Sum" and opset < 8:
            continue  # broadcasting sums become additions
        again = read_model(write_model(new_model(outputs, opset=opset))).outputs
        if op in CLOSED_FORM:
            assert again[0].weight_only
        elif op == "Gemm" and len(outputs[0].inputs) == 2 and opset < 11:
            assert again[0].inputs[:2] == outputs[0].inputs  # an absent C is written as zero
        else:
            assert again == outputs


def test_shared_subterms_and_given_values_in_between() -> None:
    x = var("x", tensor(2, 2))
    product = make("MatMul", (x, x))
    total = make("Add", (product, product))
    value = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert_close(evaluate([total, product], {x: value}, {}), [2 * value @ value, value @ value])
    assert_close(evaluate([total], {product: value}, {}), [2 * value])
    with pytest.raises(KeyError):
        evaluate([total], {}, {})


def test_integers_stay_integers() -> None:
    x = var("x", tensor(3, dtype="int8"))
    (result,) = evaluate([make("Add", (x, x))], {x: np.array([1, 100, -128], np.int8)}, {})
    assert result.dtype == np.int8
    assert result.tolist() == [2, -56, 0]


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
    opaque = Term.of("Erf", (a,), {}, a.types)
    output = make("Add", (make("MatMul", (a, a)), make("Neg", (opaque,))))
    (result,) = fold([output], weights)
    assert [term.op for term in topological([result])] == ["Const", "Const", "Erf", "Neg", "Add"]
    assert not can_evaluate(opaque)
    drawn = Term.of("RandomNormalLike", (a,), {"node": 3}, a.types)
    assert fold([make("Neg", (drawn,))], weights) == (make("Neg", (drawn,)),)


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
