"""Each operator's definition in the kernel against ONNX Runtime and onnx.reference, at random attributes and shapes."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from superopt.ir.ops import OPS, make
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from verify.algebra import Numeric
from verify.semantics import SEMANTICS, Meaning

Case = tuple[dict[str, Any], list[tuple[int, ...]]]
OPSET = 17


def _shape(rng: random.Random, low: int = 0, high: int = 4) -> tuple[int, ...]:
    return tuple(rng.randint(1, 4) for _ in range(rng.randint(low, high)))


def _broadcast_to(rng: random.Random, full: tuple[int, ...]) -> tuple[int, ...]:
    kept = full[rng.randint(0, len(full)) :]
    return tuple(1 if rng.random() < 0.3 else n for n in kept)


def _binary(rng: random.Random) -> Case:
    full = _shape(rng)
    pair = [full, _broadcast_to(rng, full)]
    rng.shuffle(pair)
    return {}, pair


def _variadic(rng: random.Random) -> Case:
    full = _shape(rng)
    return {}, [_broadcast_to(rng, full) for _ in range(rng.randint(1, 3))]


def _unary(rng: random.Random) -> Case:
    return {}, [_shape(rng)]


def _matmul(rng: random.Random) -> Case:
    m, k, n = (rng.randint(1, 4) for _ in range(3))
    batch = _shape(rng, 0, 2)
    a = (*_broadcast_to(rng, batch), m, k) if rng.random() < 0.8 else (k,)
    b = (*batch, k, n) if rng.random() < 0.8 else (k,)
    return {}, [a, b]


def _gemm(rng: random.Random) -> Case:
    m, k, n = (rng.randint(1, 4) for _ in range(3))
    ta, tb = rng.randint(0, 1), rng.randint(0, 1)
    attrs = {"alpha": rng.choice([1.0, 0.5, -2.0]), "beta": rng.choice([1.0, 0.25]), "transA": ta, "transB": tb}
    c = [rng.choice([(n,), (1, n), (m, n), (m, 1), (1,), ()])] if rng.random() < 0.7 else []
    return attrs, [(k, m) if ta else (m, k), (n, k) if tb else (k, n), *c]


def _concat(rng: random.Random) -> Case:
    shape = _shape(rng, 1)
    axis = rng.randrange(len(shape))
    parts = [(*shape[:axis], rng.randint(1, 3), *shape[axis + 1 :]) for _ in range(rng.randint(1, 3))]
    return {"axis": axis - len(shape)}, parts


def _split(rng: random.Random) -> Case:
    sizes = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
    shape = list(_shape(rng, 1))
    axis = rng.randrange(len(shape))
    shape[axis] = sum(sizes)
    return {"axis": axis - len(shape), "split": sizes}, [tuple(shape)]


def _slice(rng: random.Random) -> Case:
    shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))
    axes = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    starts = [rng.randint(0, shape[a] - 1) for a in axes]
    ends = [rng.randint(s + 1, shape[a]) for a, s in zip(axes, starts, strict=True)]
    steps = [rng.randint(1, 3) for _ in axes]
    named = {"axes": [a - len(shape) for a in axes], "starts": starts, "ends": ends, "steps": steps}
    return {name: tuple(values) for name, values in named.items()}, [shape]


def _transpose(rng: random.Random) -> Case:
    shape = _shape(rng, 1)
    return {"perm": tuple(rng.sample(range(len(shape)), len(shape)))}, [shape]


def _pad(rng: random.Random) -> Case:
    shape = tuple(rng.randint(2, 4) for _ in range(rng.randint(1, 3)))
    begins, ends = ([rng.randint(-1, 2) for _ in shape] for _ in range(2))
    pads = tuple(begins + [max(end, 1 - begin - n) for begin, end, n in zip(begins, ends, shape, strict=True)])
    return {"pads": pads, "value": rng.choice([0.0, 1.5])}, [shape]


def _unsqueeze(rng: random.Random) -> Case:
    shape, more = _shape(rng, 0, 3), rng.randint(1, 2)
    rank = len(shape) + more
    return {"axes": tuple(a - rank for a in sorted(rng.sample(range(rank), more)))}, [shape]


def _squeeze(rng: random.Random) -> Case:
    attrs, (shape,) = _unsqueeze(rng)
    rank = len(shape) + len(attrs["axes"])
    places, rest = {a + rank for a in attrs["axes"]}, iter(shape)
    return attrs, [tuple(1 if d in places else next(rest) for d in range(rank))]


def _reduce_sum(rng: random.Random) -> Case:
    shape = _shape(rng, 1)
    axes = sorted(rng.sample(range(len(shape)), rng.randint(1, len(shape))))
    return {"axes": tuple(a - len(shape) for a in axes), "keepdims": rng.randint(0, 1)}, [shape]


def _conv(rng: random.Random) -> Case:
    spatial, group = rng.choice([1, 2, 2]), rng.choice([1, 1, 2, 3])
    kernel = [rng.randint(1, 3) for _ in range(spatial)]
    dilations = [rng.randint(1, 2) for _ in range(spatial)]
    attrs = {
        "dilations": tuple(dilations),
        "group": group,
        "pads": tuple(rng.randint(0, 2) for _ in range(2 * spatial)),
        "strides": tuple(rng.randint(1, 3) for _ in range(spatial)),
    }
    size = [(k - 1) * d + 1 + rng.randint(0, 2) for k, d in zip(kernel, dilations, strict=True)]
    channels, out = rng.randint(1, 2), group * rng.randint(1, 2)
    shapes = [(rng.randint(1, 2), channels * group, *size), (out, channels, *kernel)]
    return attrs, shapes + ([(out,)] if rng.random() < 0.5 else [])


def _batch_normalization(rng: random.Random) -> Case:
    shape = _shape(rng, 2, 4)
    return {"epsilon": rng.choice([1e-5, 0.5])}, [shape, *[(shape[1],)] * 4]


CASES: dict[str, Callable[[random.Random], Case]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    **dict.fromkeys(("Add", "Sub", "Mul"), _binary),
    "Sum": _variadic,
    **dict.fromkeys(("Neg", "Identity", "Relu", "Sigmoid", "Tanh"), _unary),
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "ReduceSum": _reduce_sum,
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
}
# Parameters that ONNX passes as constant inputs at this opset, in order.
AS_INPUTS = {
    "Split": ["split"], "Slice": ["starts", "ends", "axes", "steps"], "Unsqueeze": ["axes"], "Squeeze": ["axes"],
    "ReduceSum": ["axes"], "Pad": ["pads", "value"],
}  # fmt: skip


def _model(op: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]]) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(len(shapes))]
    constants = []
    for parameter in AS_INPUTS.get(op, []):
        dtype = np.float32 if parameter == "value" else np.int64
        constants.append(numpy_helper.from_array(np.asarray(attrs[parameter], dtype), parameter))
    outputs = [f"y{i}" for i in range(len(attrs["split"]) if op == "Split" else 1)]
    kept = {name: value for name, value in attrs.items() if name not in AS_INPUTS.get(op, [])}
    node = helper.make_node(op, names + AS_INPUTS.get(op, []), outputs, **kept)
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in zip(names, shapes, strict=True)]
    ranks = [len(t.type.shape or ()) for t in _terms(op, attrs, shapes) if t.type is not None]
    results = [
        helper.make_tensor_value_info(o, TensorProto.FLOAT, [None] * rank)
        for o, rank in zip(outputs, ranks, strict=True)
    ]
    graph = helper.make_graph([node], op, inputs, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def _terms(op: str, attrs: dict[str, Any], shapes: list[tuple[int, ...]]) -> list[Term]:
    term = make(op, [var(f"x{i}", tensor(*shape)) for i, shape in enumerate(shapes)], attrs)
    return [term.out(i) for i in range(len(attrs["split"]))] if op == "Split" else [term]


def _by_definition(op: str, attrs: dict[str, Any], arrays: list[np.ndarray]) -> list[np.ndarray]:
    lookups = {f"x{i}": (lambda place, a=a: float(a[place])) for i, a in enumerate(arrays)}
    meaning = Meaning(Numeric(lookups, {}))
    results = []
    for output in _terms(op, attrs, [a.shape for a in arrays]):
        assert output.type is not None
        shape = output.type.concrete()
        assert shape is not None
        result = np.zeros(shape)
        for place in itertools.product(*map(range, shape)):
            result[place] = meaning.scalar(output, place)
        results.append(result)
    return results


def _check(op: str, seed: int) -> None:
    rng = random.Random(f"{op} {seed}")
    attrs, shapes = CASES[op](rng)
    values = np.random.default_rng(seed)
    arrays = [values.uniform(-2, 2, shape).astype(np.float32) for shape in shapes]
    if op == "BatchNormalization":
        arrays[4] = np.abs(arrays[4])  # a variance
    model = _model(op, attrs, shapes)
    onnx.checker.check_model(model)
    feeds = {f"x{i}": a for i, a in enumerate(arrays)}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    ours = _by_definition(op, attrs, arrays)
    oracles = [session.run(None, feeds)]
    if min(attrs.get("pads", (0,))) >= 0:  # onnx.reference does not implement negative pads
        oracles.append(ReferenceEvaluator(model).run(None, feeds))
    for oracle in oracles:
        for mine, theirs in zip(ours, oracle, strict=True):
            assert mine.shape == theirs.shape, (op, attrs, shapes)
            np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5, err_msg=f"{op} {attrs} {shapes}")


def test_every_operator_of_the_table_has_a_definition_and_cases() -> None:
    closed_form = {"Zeros", "Ones", "Eye", "Dirac"}
    assert set(SEMANTICS) == set(OPS)
    assert set(CASES) == set(OPS) - closed_form


@pytest.mark.parametrize("op", sorted(CASES))
def test_definition_agrees_with_both_oracles(op: str) -> None:
    for seed in range(15):
        _check(op, seed)


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(CASES))
def test_definition_agrees_with_both_oracles_at_length(op: str) -> None:
    for seed in range(15, 215):
        _check(op, seed)


def test_constants_in_closed_form() -> None:
    meaning = Meaning(Numeric({}, {}))

    def array(term: Term) -> np.ndarray:
        assert term.type is not None
        shape = term.type.concrete()
        assert shape is not None
        return np.array([meaning.scalar(term, place) for place in itertools.product(*map(range, shape))]).reshape(shape)

    assert np.array_equal(array(make("Zeros", (), {"shape": (2, 3)})), np.zeros((2, 3)))
    assert np.array_equal(array(make("Ones", (), {"shape": (2,)})), np.ones(2))
    assert np.array_equal(array(make("Eye", (), {"n": 3})), np.eye(3))


@pytest.mark.parametrize(("channels", "group", "kernel"), [(4, 1, 3), (4, 2, 3), (3, 3, 1), (6, 2, 5)])
def test_conv_with_a_dirac_kernel_is_the_identity(channels: int, group: int, kernel: int) -> None:
    shape = (channels, channels // group, kernel, kernel)
    attrs = {"dilations": (1, 1), "group": group, "pads": (kernel // 2,) * 4, "strides": (1, 1)}
    x = np.random.default_rng(0).standard_normal((1, channels, 4, 3))
    term = make("Conv", (var("x", tensor(*x.shape)), make("Dirac", (), {"group": group, "shape": shape})), attrs)
    meaning = Meaning(Numeric({"x": lambda place: float(x[place])}, {}))
    for place in itertools.product(*map(range, x.shape)):
        assert meaning.scalar(term, place) == x[place]


def test_numbers_are_exact_fractions() -> None:
    assert Numeric({}, {}).constant(Fraction(1, 4)) == 0.25
