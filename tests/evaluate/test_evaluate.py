"""Values of terms, compared with ONNX Runtime and onnx.reference through the writer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from superopt.evaluate import can_evaluate, evaluate, fast, numpy_dtype
from superopt.evaluate.floats import Floats, by_definition, typed
from superopt.ir.infer import OPERATORS, make
from superopt.ir.term import CLOSED_FORM, Term, topological, var
from superopt.ir.types import FLOAT_DTYPES, tensor
from superopt.onnx_io import is_writable, new_model, read_model, write_model
from superopt.onnx_io.model import ModelError, Unwritable
from superopt.properties import jumps, moves
from tests.support.closeness import assert_close
from tests.support.runtime_oracle import session
from tests.support.semantic_cases import CASES
from tests.support.semantic_cases.constants import CONSTANTS
from tests.support.semantic_cases.opsets import OPSETS, first_opset
from tests.support.semantic_cases.terms import canonical, example, leaves, outputs_of


def written(outputs: Sequence[Term], opset: int) -> onnx.ModelProto:
    return write_model(new_model(outputs, opset=opset))


def test_tables_are_about_operators_of_the_table() -> None:
    assert set(fast.KERNELS) <= set(OPERATORS)
    assert set(CONSTANTS) == CLOSED_FORM <= set(OPERATORS)


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_against_runtime_and_reference(op: str) -> None:
    for seed in range(20):
        rng = random.Random(f"{op}{seed}")
        case = example(op, rng)
        outputs = outputs_of(op, case)
        feeds = {f"x{k}": array for k, array in enumerate(case.arrays) if array is not None}
        env = leaves(case)
        assert all(map(can_evaluate, outputs))
        ours = evaluate(outputs, env, {})
        types = [term.type for term in outputs if term.type is not None]
        assert [array.shape for array in ours] == [type.shape for type in types]
        kept = [np.dtype(np.float64) if type.dtype in FLOAT_DTYPES else numpy_dtype(type.dtype) for type in types]
        assert [array.dtype for array in ours] == kept
        assert case.oracles
        if "onnxruntime" in case.oracles:
            opset = case.opset
            if all(array.dtype == np.float32 for array in feeds.values()):  # others it has not at every opset
                opset = rng.choice([o for o in OPSETS if o >= first_opset(op, case)])
            results = session(written(outputs, opset)).run(None, feeds)
            assert_close(results, ours, case.tolerance)
        if "reference" in case.oracles:
            reference = ReferenceEvaluator(written(outputs, case.opset))
            assert_close(list(reference.run(None, feeds)), ours, case.tolerance)


def refusal_of(outputs: Sequence[Term], opset: int) -> str:
    """The writer's reason not to write the outputs; empty if it writes them."""
    try:
        written(outputs, opset)
    except Unwritable as error:
        return str(error)
    return ""


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_written_operator_is_read_back(op: str) -> None:
    """The writer's form of every operator, at every opset that can say it, is read as the same term."""
    for seed in range(4):
        case = example(op, random.Random(f"{op}{seed}"))
        outputs, first = outputs_of(op, case), first_opset(op, case)
        assert first <= case.opset
        for opset in OPSETS:
            if opset < first:
                if not all(is_writable(term, opset) for term in outputs):  # ONNX Runtime has no operator of its own
                    with pytest.raises(ModelError):
                        written(outputs, opset)
                continue
            refusal = refusal_of(outputs, opset)
            if refusal:  # this version of the operator does not take the element type
                written_as = "Pad" if op == "PadCopy" else op
                assert opset < case.opset and f"opset {opset} has no {written_as} of " in refusal
                continue
            again = read_model(written(outputs, opset)).outputs
            if op in CLOSED_FORM:
                assert again[0].is_constant
            elif op == "Gemm" and len(outputs[0].inputs) == 2 and opset < 11:
                assert again[0].inputs[:2] == outputs[0].inputs  # an absent C is written as zero
            elif op == "Sum" and opset < 8 and len({term.type for term in outputs[0].inputs if term is not None}) > 1:
                assert {term.op for term in topological(again)} == {"Var", "Add"}  # broadcasting sums become additions
            else:
                assert again == canonical(op, case)


@pytest.mark.parametrize("op", sorted(op for op in CASES if moves(op)))
def test_what_moves_elements_gives_no_new_ones(op: str) -> None:
    """So that folding it is exact: it needs no more digits than its inputs have."""
    for seed in range(10):
        case = example(op, random.Random(f"{op}{seed}"))
        env = leaves(case)
        old = {float(x) for array in env.values() for x in array.reshape(-1)} | {0.0, float(case.attrs.get("value", 0))}
        for result in evaluate(outputs_of(op, case), env, {}):
            assert set(map(float, result.reshape(-1))) <= old


# A Cast to another real type rounds, by less than that type tells apart.
@pytest.mark.parametrize("op", sorted(op for op in OPERATORS.keys() - CLOSED_FORM - {"Cast"} if not jumps(op)))
def test_functions_that_are_said_to_be_continuous_are(op: str) -> None:
    """Away from what the cases avoid (division by zero), a small change of real inputs changes real outputs little."""
    for seed in range(10):
        case = example(op, random.Random(f"{op}{seed}"))
        outputs, env = outputs_of(op, case), leaves(case)
        if any(term.type is None or term.type.dtype not in FLOAT_DTYPES for term in outputs):
            continue
        near, draw = dict(env), np.random.default_rng(seed)
        for term, array in list(env.items())[: 1 if op == "Pow" else None]:  # whole powers of negative numbers stay so
            if array.dtype.kind == "f":
                near[term] = array.astype(np.float64) + 1e-9 * draw.uniform(-1, 1, array.shape)
        for one, other in zip(evaluate(outputs, env, {}), evaluate(outputs, near, {}), strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("op", sorted(fast.KERNELS))
def test_kernels_agree_with_the_definition(op: str) -> None:
    for seed in range(20):
        case = example(op, random.Random(f"{op}{seed}"))
        env = leaves(case)
        for term, found in zip(outputs_of(op, case), evaluate(outputs_of(op, case), env, {}), strict=True):
            node = term.inputs[0] if term.op == "Out" else term
            assert node is not None and term.type is not None
            types = [i and i.type for i in node.inputs]
            xs = [i and i.type and _kept(env[i], i.type.dtype) for i in node.inputs]
            with np.errstate(all="ignore"):
                defined = by_definition(op, types, {**dict(node.attrs), **dict(term.attrs)}, xs, term.type)
            expected = np.broadcast_to(typed(Floats(found.shape).array(defined), term.type.dtype), found.shape)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def _kept(array: np.ndarray, dtype: str) -> np.ndarray:
    return array.astype(np.float64) if dtype in FLOAT_DTYPES else array


@pytest.mark.parametrize("op", sorted(CASES))
def test_operands_of_equal_elements_are_operands_like_others(op: str) -> None:
    """An array that repeats its elements along an axis without storing them is evaluated once for all of them."""
    for seed in range(12):
        rng = random.Random(f"repeated {op} {seed}")
        case = CASES[op](rng)
        given = {leaf: np.asarray(a, np.float64) if a.dtype.kind == "f" else a for leaf, a in leaves(case).items()}
        for leaf, a in given.items():
            axes = [axis for axis in range(a.ndim) if a.shape[axis] and rng.random() < 0.6]
            first = a[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(a.ndim))]
            given[leaf] = np.broadcast_to(first, a.shape)
        outputs = outputs_of(op, case)
        if not all(map(can_evaluate, outputs)):
            continue
        stored = evaluate(outputs, {leaf: a.copy() for leaf, a in given.items()}, {})
        for found, expected in zip(evaluate(outputs, given, {}), stored, strict=True):
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_sum_of_exponentials_in_blocks_whose_last_has_one_value() -> None:
    shape = (8, 18, 15, 16)  # 15 values of the last axis are one block
    x = np.random.default_rng(0).normal(size=shape)
    leaf = var("x", tensor(*shape))
    (found,) = evaluate([make("ReduceLogSumExp", (leaf,), {"axes": (-2, -1), "keepdims": 0})], {leaf: x}, {})
    np.testing.assert_allclose(found, np.log(np.exp(x).sum(axis=(-2, -1))), rtol=1e-12)


@pytest.mark.parametrize("op", ["LogSoftmax", "ReduceLogSumExp", "Softmax"])
@pytest.mark.parametrize("repeats", [(1, 2, 3), (1, 1, 3), (1, 3, 1), (2, 1, 1)])
def test_sums_of_equal_exponentials_count_them(op: str, repeats: tuple[int, ...]) -> None:
    """Also where another axis is as long as the one that is summed over."""
    x = var("x", tensor(3, 1, 1))
    attrs: dict[str, Any] = {"axes": (-1,), "keepdims": 1} if op == "ReduceLogSumExp" else {"axis": -1}
    (found,) = evaluate([make(op, (make("Tile", (x,), {"repeats": repeats}),), attrs)], {x: np.ones((3, 1, 1))}, {})
    count = repeats[-1]
    expected = {"LogSoftmax": -np.log(count), "ReduceLogSumExp": 1 + np.log(count), "Softmax": 1 / count}[op]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_functions_of_exponentials_neither_overflow_nor_lose_digits() -> None:
    x = var("x", tensor(4, dtype="double"))
    env = {x: np.array([1e-12, -800.0, 800.0, 801.0])}

    def value(op: str, **attrs: Any) -> np.ndarray:
        return evaluate([make(op, (x,), attrs)], env, {})[0]

    total = np.logaddexp(800.0, 801.0)
    np.testing.assert_allclose(value("Softmax", axis=-1), np.exp(env[x] - total), rtol=1e-12)
    np.testing.assert_allclose(value("LogSoftmax", axis=-1), env[x] - total, rtol=1e-12)
    np.testing.assert_allclose(value("ReduceLogSumExp", axes=(-1,), keepdims=0), total, rtol=1e-12)
    np.testing.assert_allclose(value("Softplus"), [np.log(2) + 5e-13, 0, 800, 801], rtol=1e-12)
    np.testing.assert_allclose(value("Elu", alpha=1.0), [1e-12, -1, 800, 801], rtol=1e-12)
    np.testing.assert_allclose(value("Celu", alpha=1.0), [1e-12, -1, 800, 801], rtol=1e-12)
    np.testing.assert_allclose(evaluate([make("Elu", (x,), {"alpha": 1.0})], {x: -env[x]}, {})[0][0], -1e-12)


def test_exponentials_of_large_numbers_keep_all_digits() -> None:
    x = var("x", tensor(4, dtype="double"))
    env = {x: np.array([481.1, 512.3, 511.7, 480.1])}
    exact = np.exp(env[x].astype(np.longdouble) - np.longdouble(512.3))
    np.testing.assert_allclose(evaluate([make("Softmax", (x,), {"axis": -1})], env, {})[0], exact / exact.sum(), 1e-15)
    nothing = var("nothing", tensor(2, 0, dtype="double"))
    assert evaluate([make("Softmax", (nothing,), {"axis": -1})], {nothing: np.zeros((2, 0))}, {})[0].shape == (2, 0)
    exact = 1 / (1 + np.exp(env[x].astype(np.longdouble)))
    np.testing.assert_allclose(evaluate([make("Sigmoid", (x,))], {x: -env[x]}, {})[0], exact, 1e-15)


def test_comparisons_of_infinities_and_of_integers_that_overflow() -> None:
    x = var("x", tensor(3))
    values = np.array([-np.inf, np.inf, 1.0])
    assert evaluate([make("Equal", (x, x))], {x: values}, {})[0].all()
    assert evaluate([make("GreaterOrEqual", (x, x))], {x: values}, {})[0].all()
    y, z = (var(name, tensor(2, dtype="int8")) for name in "yz")
    env = {y: np.array([-128, 127], np.int8), z: np.array([127, -128], np.int8)}
    assert evaluate([make("Less", (y, z))], env, {})[0].tolist() == [True, False]
    assert evaluate([make("Min", (y, z))], env, {})[0].tolist() == [-128, -128]
    u = var("u", tensor(2, dtype="uint64"))
    large = {u: np.array([2**64 - 1, 5], np.uint64)}
    assert evaluate([make("Add", (u, u))], large, {})[0].tolist() == [2**64 - 2, 10]
    assert evaluate([make("Max", (u, u))], large, {})[0].tolist() == [2**64 - 1, 5]


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


@pytest.mark.parametrize(("op", "weights"), [("LayerNormalization", 2), ("RMSNormalization", 1)])
def test_axes_may_be_counted_from_either_end(op: str, weights: int) -> None:
    terms = [var("x", tensor(3, 5)), *(var(f"w{k}", tensor(5)) for k in range(weights))]
    rng = np.random.default_rng(0)
    env = {term: rng.random(term.type.concrete()) for term in terms if term.type}
    first, last = (evaluate((make(op, terms, {"axis": axis, "epsilon": 1e-5}),), env, {}) for axis in (1, -1))
    np.testing.assert_array_equal(first[0], last[0])
