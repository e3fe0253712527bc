"""Show what ONNX Runtime's CPU provider computes with integers at the edges of their types.

    python scripts/probe_integers.py [--seed N] [OPERATOR ...]

Prints one line for each operator and element type. A column is a kind of integers (see `EDGES`), and its entry says how
all results relate to the exact integers, at several sizes, along several axes, with and without optimizations:

    exact       equal
    wraps       equal modulo the range of the type
    saturates   the nearest integer of the type
    rounds      none of these: computed in floating point
    fails       an error message, or the end of the process
    differs     with and without optimizations, or from run to run
    -           no kernel for this type
The entries `integers` of operators in `superopt/ops` say the same in one word.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

Array: TypeAlias = Any
TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
# Largest magnitudes: small; beyond what float and double hold exactly; the least and greatest of the type; all of it.
EDGES = {"small": 3, "> 2^24": 1 << 26, "> 2^53": 1 << 56, "ends": 0, "any": 1 << 64}
LEVELS = (ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
_SIZES = (1, 7, 8, 63, 4099)


@dataclass(frozen=True)
class OperatorUse:
    """A node on some inputs, and the exact results as Python integers."""

    node: onnx.NodeProto
    feeds: dict[str, Array]
    exact: Array
    weights: dict[str, Array]


Fill: TypeAlias = Callable[..., Array]
Uses: TypeAlias = Callable[[Fill], Iterator[OperatorUse]]


def drawn(rng: random.Random, shape: Sequence[int], dtype: str, edge: str) -> Array:
    """Return integers of the type, of the kind `edge`."""
    ends = np.iinfo(dtype)
    low, high, bound = int(ends.min), int(ends.max), EDGES[edge]
    near = [low, low + 1, low // 2, max(low, -1), 0, 1, 2, high // 2, high // 2 + 1, high - 1, high]
    numbers = [
        rng.randint(max(low, -bound), min(high, bound)) if bound else rng.choice(near)
        for _ in range(int(np.prod(shape)))
    ]
    return np.array(numbers, object).astype(dtype).reshape(shape)


def _use(
    op: str, arrays: Sequence[Array], exact: Array, weights: dict[str, Array] | None = None, **attrs: Any
) -> OperatorUse:
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    weights = weights or {}
    return OperatorUse(
        helper.make_node(op, [*feeds, *weights], ["y"], **attrs), feeds, np.asarray(exact, object), weights
    )


def _each(function: Callable[..., Any], *arrays: Array) -> Array:
    return np.frompyfunc(function, len(arrays), 1)(*(array.astype(object) for array in arrays))


def elementwise(op: str, function: Callable[..., Any], operands: int, **attrs: Any) -> Uses:
    """An operator on operands of one shape, and on operands that broadcast."""

    def uses(fill: Fill) -> Iterator[OperatorUse]:
        cases: list[Sequence[tuple[int, ...]]] = [[(n,)] * operands for n in _SIZES]
        cases += [[(37, 5), (5,), (), (37, 1)][:operands]] if operands > 1 else []
        for shapes in cases:
            arrays = [fill(*shape) for shape in shapes]
            yield _use(op, arrays, _each(function, *arrays), **attrs)

    return uses


def divided(op: str, function: Callable[[int, int], int], **attrs: Any) -> Uses:
    """A division without a divisor of 0, and without the least integer by -1 (see `failing`)."""

    def uses(fill: Fill) -> Iterator[OperatorUse]:
        for n in _SIZES:
            x, y = fill(n), fill(n)
            y[(y == 0) | ((y == -1) if y.dtype.kind == "i" else False)] = 3
            yield _use(op, [x, y], _each(function, x, y), **attrs)

    return uses


def failing(op: str, least: bool, **attrs: Any) -> Uses:
    """A division by 0, or (`least`) of the least integer by -1, which is one more than the greatest."""

    def uses(fill: Fill) -> Iterator[OperatorUse]:
        dtype = fill(1).dtype
        ends = np.iinfo(dtype)
        if least and not ends.min:
            return
        for n in (1, 8, 63):
            x, y = np.full(n, ends.min if least else 5, dtype), np.full(n, -1 if least else 0, dtype)
            yield _use(op, [x, y], np.full(n, ends.max + 1 if op == "Div" else 0, object), **attrs)

    return uses


def _truncated(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def reduction(op: str, function: Callable[[list[int]], int]) -> Uses:
    """A reduction of all, of the last, of the first and of two axes."""

    def uses(fill: Fill) -> Iterator[OperatorUse]:
        shapes = [((n,), (0,)) for n in (*_SIZES, 65536)] + [((3, 1), (1,)), ((4, 300), (1,)), ((300, 4), (0,))]
        for shape, axes in [*shapes, ((4, 33, 6), (1,)), ((4, 33, 6), (0, 2))]:
            x = fill(*shape)
            rest = [d for d in range(x.ndim) if d not in axes]
            rows = x.astype(object).transpose(*rest, *axes).reshape(*(x.shape[d] for d in rest), -1)
            exact = np.apply_along_axis(lambda row: np.array(function(list(row)), object), -1, rows)
            yield _use(op, [x], exact, {"axes": np.array(axes, np.int64)}, keepdims=0)

    return uses


def _product(numbers: list[int]) -> int:
    return reduce(lambda a, b: a * b, numbers)


def matmul(fill: Fill) -> Iterator[OperatorUse]:
    for m, k, n in ((1, 1, 1), (3, 7, 5), (16, 64, 16), (1, 4096, 3)):
        a, b = fill(m, k), fill(k, n)
        yield _use("MatMul", [a, b], a.astype(object) @ b.astype(object))


def einsum(fill: Fill) -> Iterator[OperatorUse]:
    a, b = fill(5, 333), fill(333)
    yield _use("Einsum", [a, b], a.astype(object) @ b.astype(object), equation="ab,b->a")
    yield _use("Einsum", [a], a.astype(object).sum(axis=1), equation="ab->a")


def cumsum(fill: Fill) -> Iterator[OperatorUse]:
    for shape in ((1,), (333,), (5, 70)):
        x = fill(*shape)
        yield _use("CumSum", [x], np.cumsum(x.astype(object), axis=-1), {"axis": np.array(-1, np.int64)})


def clip(fill: Fill) -> Iterator[OperatorUse]:
    x = fill(63)
    ends = np.iinfo(x.dtype)
    for low, high in ((1, 5), (5, 1), (int(ends.min) + 1, int(ends.max) - 1), (int(ends.max) - 1, int(ends.max))):
        bounds = {"low": np.array(low, x.dtype), "high": np.array(high, x.dtype)}
        yield _use("Clip", [x], _each(lambda v, low=low, high=high: min(high, max(v, low)), x), bounds)


def shift(direction: str) -> Uses:
    """A shift by fewer bits than the type has, and by as many or more."""

    def uses(fill: Fill) -> Iterator[OperatorUse]:
        for n in (1, 8, 63):
            x = fill(n)
            bits = np.arange(n) % (2 * np.iinfo(x.dtype).bits)
            exact = _each((lambda a, b: a << b) if direction == "LEFT" else (lambda a, b: a >> b), x, bits)
            yield _use("BitShift", [x, bits.astype(x.dtype)], exact, direction=direction)

    return uses


def cast(to: str) -> Uses:
    def uses(fill: Fill) -> Iterator[OperatorUse]:
        for n in _SIZES:
            x = fill(n)
            yield _use("Cast", [x], x, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))

    return uses


OPERATORS: dict[str, Uses] = {
    "Add": elementwise("Add", lambda a, b: a + b, 2),
    "Sub": elementwise("Sub", lambda a, b: a - b, 2),
    "Mul": elementwise("Mul", lambda a, b: a * b, 2),
    "Max": elementwise("Max", max, 4),
    "Min": elementwise("Min", min, 4),
    **{op: elementwise(op, function, 2) for op, function in {
        "Equal": lambda a, b: a == b, "Less": lambda a, b: a < b, "LessOrEqual": lambda a, b: a <= b,
        "Greater": lambda a, b: a > b, "GreaterOrEqual": lambda a, b: a >= b, "BitwiseAnd": lambda a, b: a & b,
        "BitwiseOr": lambda a, b: a | b, "BitwiseXor": lambda a, b: a ^ b,
    }.items()},
    "BitwiseNot": elementwise("BitwiseNot", lambda a: ~a, 1),
    "Neg": elementwise("Neg", lambda a: -a, 1),
    "Abs": elementwise("Abs", abs, 1),
    "Sign": elementwise("Sign", lambda a: (a > 0) - (a < 0), 1),
    "Relu": elementwise("Relu", lambda a: max(a, 0), 1),
    "Clip": clip,
    "Div": divided("Div", _truncated),
    "Div by 0": failing("Div", False),
    "Div of least by -1": failing("Div", True),
    "Mod": divided("Mod", lambda a, b: a - b * (a // b)),
    "Mod fmod=1": divided("Mod", lambda a, b: a - b * _truncated(a, b), fmod=1),
    "Mod by 0": failing("Mod", False),
    "Mod of least by -1": failing("Mod", True),
    "BitShift left": shift("LEFT"),
    "BitShift right": shift("RIGHT"),
    "ReduceSum": reduction("ReduceSum", sum),
    "ReduceProd": reduction("ReduceProd", _product),
    "ReduceL1": reduction("ReduceL1", lambda row: sum(map(abs, row))),
    "ReduceSumSquare": reduction("ReduceSumSquare", lambda row: sum(a * a for a in row)),
    "ReduceMean": reduction("ReduceMean", lambda row: _truncated(sum(row), len(row))),
    "ReduceMax": reduction("ReduceMax", max),
    "ReduceMin": reduction("ReduceMin", min),
    "MatMul": matmul,
    "Einsum": einsum,
    "CumSum": cumsum,
    **{f"Cast to {to}": cast(to) for to in TYPES},
}  # fmt: skip


def relation(result: Array, exact: Array) -> str:
    """Return how the result relates to the exact integers: exact, wraps, saturates or rounds."""
    if result.dtype == bool:
        return "exact" if np.array_equal(result, exact.astype(bool)) else "rounds"
    ends, found = np.iinfo(result.dtype), result.astype(object)
    low, high = int(ends.min), int(ends.max)
    if np.array_equal(found, exact):
        return "exact"
    if np.array_equal(found, (exact - low) % (high - low + 1) + low):
        return "wraps"
    return "saturates" if np.array_equal(found, np.clip(exact, low, high)) else "rounds"


def _model(use: OperatorUse) -> bytes:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in use.feeds.items()
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in use.weights.items()]
    graph = helper.make_graph([use.node], "probe", inputs, [onnx.ValueInfoProto(name="y")], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    return bytes(model.SerializeToString())


def _results(use: OperatorUse) -> list[Array]:
    """Return the results at both levels, twice each. Raises the runtime's errors."""
    found = []
    for level in LEVELS:
        options = ort.SessionOptions()
        options.graph_optimization_level, options.log_severity_level = level, 4
        session = ort.InferenceSession(_model(use), options, providers=["CPUExecutionProvider"])
        found += [session.run(None, use.feeds)[0] for _ in range(2)]
    return found


def entry(uses: Uses, dtype: str, edge: str, seed: int) -> str:
    """Return the entry of the table for one operator, element type and kind of integers."""
    rng, found = random.Random(f"{seed} {dtype} {edge}"), set[str]()
    for use in uses(lambda *shape: drawn(rng, shape, dtype, edge)):
        try:
            results = _results(use)
        except (ort.capi.onnxruntime_pybind11_state.NotImplemented, ort.capi.onnxruntime_pybind11_state.InvalidGraph):
            return "-"
        except ort.capi.onnxruntime_pybind11_state.Fail:
            found.add("fails")
            continue
        same = all(np.array_equal(result, results[0]) for result in results)
        found.add(relation(results[0], use.exact) if same else "differs")
    worst = found - {"exact"}
    return "/".join(sorted(worst)) if worst else "exact" if found else "-"


def _put(operator: str, dtype: str, edge: str, seed: int, answers: Any) -> None:
    answers.put(entry(OPERATORS[operator], dtype, edge, seed))


def guarded(operator: str, dtype: str, edge: str, seed: int) -> str:
    """Return `entry`, computed in a process of its own, which a division may end."""
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=_put, args=(operator, dtype, edge, seed, answers))
    process.start()
    process.join()
    return answers.get() if process.exitcode == 0 else "fails"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="seed of the random integers (default: 0)")
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help=f"of: {', '.join(OPERATORS)} (default: all)")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.operators if name not in OPERATORS]
    if unknown:
        parser.error(f"no operator {unknown[0]!r}; choose from {', '.join(OPERATORS)}")
    print(f"{'operator':20} {'type':7}" + "".join(f" {edge:16}" for edge in EDGES))
    for operator, dtype in itertools.product(arguments.operators or OPERATORS, TYPES):
        row = [guarded(operator, dtype, edge, arguments.seed) for edge in EDGES]
        print(f"{operator:20} {dtype:7}" + "".join(f" {cell:16}" for cell in row), flush=True)


if __name__ == "__main__":
    main()
