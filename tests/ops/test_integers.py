"""Integers at the edges of their types: definitions and folding against ONNX Runtime, optimized and not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import cache

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx.reference import ReferenceEvaluator

from scripts import probe_integers
from superopt.evaluate import constant, evaluate, folded, numpy_dtype
from superopt.ir.infer import make, replace
from superopt.ir.operator import OPERATORS, IllTyped
from superopt.ir.term import CLOSED_FORM, Term, var
from superopt.ir.types import FLOAT_DTYPES, tensor
from superopt.onnx_io import new_model, write_model
from superopt.ops.meaning import Meaning, NoSemantics
from superopt.properties import moves
from tests.support.semantic_cases.case import Array, Case
from tests.support.semantic_cases.integers import EDGES, INTEGERS, draw
from tests.support.semantic_cases.terms import leaves, outputs_of
from verify.diagnose.numeric import Numeric

_SIZES = (1, 33)
_ROWS = [(op, dtype) for op, row in INTEGERS.items() for dtype in row.dtypes]


@cache
def _options(level: ort.GraphOptimizationLevel) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.graph_optimization_level, options.intra_op_num_threads, options.log_severity_level = level, 1, 4
    return options


def _run(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[Array]:
    """Return the first output without and with the runtime's optimizations."""
    levels = ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    sessions = (
        ort.InferenceSession(model.SerializeToString(), _options(level), providers=["CPUExecutionProvider"])
        for level in levels
    )
    return [session.run(None, feeds)[0] for session in sessions]


def _feeds(case: Case) -> dict[str, Array]:
    return {f"x{k}": array for k, array in enumerate(case.arrays) if array is not None}


def _by_definition(output: Term, case: Case) -> Array:
    meaning = Meaning(Numeric({name: lambda place, a=a: a[place].item() for name, a in _feeds(case).items()}, {}))
    assert output.type is not None
    shape = output.type.concrete()
    assert shape is not None
    numbers = [meaning.scalar(output, place) for place in itertools.product(*map(range, shape))]
    return np.array(numbers, object).reshape(shape).astype(numpy_dtype(output.type.dtype))


def _folded(output: Term, case: Case) -> Array | None:
    """Return what folding the operator on constants gives, or None where it is left to the runtime."""
    weights: dict[str, Array] = {}
    constants = {leaf: constant(a, leaf.type.dtype, weights) for leaf, a in leaves(case).items() if leaf.type}
    (term,) = replace([output], constants)
    found = folded([term], weights).get(term)
    return None if found is None else weights[str(found.attr("hash"))] if found.op == "Const" else _filled(found)


def _filled(term: Term) -> Array:
    assert term.type is not None
    value = term.attr("value") if term.op == "ConstantOfShape" else term.op == "Ones"
    return np.full(term.type.concrete() or (), value, numpy_dtype(term.type.dtype))


def _cases(op: str, dtype: str, edges: Sequence[str] = EDGES) -> list[Case]:
    return [INTEGERS[op].case(random.Random(f"{op}{dtype}{n}{e}"), dtype, n, e) for e in edges for n in _SIZES]


def test_every_operator_that_computes_with_integers_has_a_row() -> None:
    def computes(op: str) -> bool:
        spec = OPERATORS[op]
        for dtypes in (["int32"] * max(1, spec.inputs[0]), ["bool", "int32", "int32"]):
            try:
                spec.dtype_rule(dtypes, {**spec.defaults, "to": "float"}, "int32")
            except (IllTyped, IndexError):
                continue
            return True
        return False

    computing = {op for op in OPERATORS.keys() - CLOSED_FORM if computes(op) and not moves(op)}
    assert computing <= INTEGERS.keys()


@pytest.mark.parametrize(("op", "dtype"), [row for row in _ROWS if OPERATORS[row[0]].integers != "floating"])
def test_the_definition_is_what_the_runtime_computes(op: str, dtype: str) -> None:
    for case in _cases(op, dtype):
        (output,) = outputs_of(op, case)
        assert output.type is not None
        expected = _by_definition(output, case) if output.type.dtype not in FLOAT_DTYPES else None
        model = write_model(new_model([output], opset=case.opset))
        for result in _run(model, _feeds(case)):
            if expected is None:  # the runtime's rounding is compared below
                expected = result
            np.testing.assert_array_equal(result, expected, f"{op} of {dtype}: {case}")
        if op not in ("Cast", "MaxPool"):  # onnx.reference rounds in other ways, and pads with NaN
            reference = ReferenceEvaluator(model).run(None, _feeds(case))[0]  # type: ignore[index]
            np.testing.assert_array_equal(reference, expected, f"{op} of {dtype}: {case}")
        (ours,) = evaluate([output], leaves(case), {})
        np.testing.assert_array_equal(ours.astype(result.dtype), expected, f"{op} of {dtype}: {case}")
        constant_result = _folded(output, case)
        assert constant_result is not None
        np.testing.assert_array_equal(constant_result, expected, f"{op} of {dtype}: {case}")


@pytest.mark.parametrize(("op", "dtype"), [row for row in _ROWS if OPERATORS[row[0]].integers == "floating"])
def test_sums_in_floating_point_are_folded_where_they_are_exact(op: str, dtype: str) -> None:
    left = other = 0
    for case in _cases(op, dtype):
        (output,) = outputs_of(op, case)
        with pytest.raises(NoSemantics):
            _by_definition(output, case)
        results, found = _run(write_model(new_model([output], opset=case.opset)), _feeds(case)), _folded(output, case)
        left += found is None
        for result in results:
            if found is not None:
                np.testing.assert_array_equal(found, result, f"{op} of {dtype}: {case}")
            else:
                other += not np.array_equal(evaluate([output], leaves(case), {})[0], result)
    assert left and other
    for case in _cases(op, dtype, ["small"]):
        assert _folded(outputs_of(op, case)[0], case) is not None or op == "ReduceProd"


def _division(x: Array, y: Array) -> Term:
    return make(
        "Div", (var("x0", tensor(*x.shape, dtype=x.dtype.name)), var("x1", tensor(*y.shape, dtype=y.dtype.name)))
    )


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_a_division_that_stops_the_run_is_not_folded(dtype: str) -> None:
    least, ones = np.full(3, np.iinfo(dtype).min, dtype), np.ones(3, dtype)
    pairs = [(ones, np.array([1, 0, 1], dtype)), *([(least, -ones)] if least[0] else [])]
    for x, y in pairs:
        assert _folded(_division(x, y), Case({}, [x, y])) is None
    assert _folded(_division(least, ones), Case({}, [least, ones])) is not None


@pytest.mark.parametrize("to", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint64"])
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
def test_casts_of_real_numbers_are_folded_in_the_range_of_the_integers(source: str, to: str) -> None:
    ends = np.iinfo(to)
    numbers = [0.0, -0.5, 1.5, 127.9, float(ends.min), float(ends.max // 2)]
    most = float(np.finfo(source).max)
    inside = np.array([x for x in numbers if ends.min - 1 < x < ends.max + 1 and abs(x) < most], source)
    name = {"float32": "float", "float64": "double"}.get(source, source)
    term = make("Cast", (var("x0", tensor(len(inside), dtype=name)),), {"to": to})
    (run, _) = _run(write_model(new_model([term], opset=20)), {"x0": inside})
    np.testing.assert_array_equal(_folded(term, Case({}, [inside])), run)
    for outside in (np.nan, np.inf, -np.inf, float(ends.max + 1), float(ends.min) * 2 - 2):
        if abs(outside) < most or not np.isfinite(outside):
            assert _folded(term, Case({}, [np.array([outside, *inside[1:]], source)])) is None


def test_double_is_rounded_to_half_by_way_of_float() -> None:
    x = np.array([1 + 2.0**-11 + 2.0**-30, 1 + 2.0**-11, 65519.999999, 2.0**-25 + 2.0**-60])
    term = make("Cast", (var("x0", tensor(4, dtype="double")),), {"to": "float16"})
    (run, _) = _run(write_model(new_model([term], opset=20)), {"x0": x})
    np.testing.assert_array_equal(_folded(term, Case({}, [x])), run)


@pytest.mark.parametrize(
    ("operator", "dtype", "edge", "expected"),
    [
        ("Add", "int64", "any", "wraps"),
        ("Max", "uint64", "ends", "exact"),
        ("CumSum", "int32", "any", "wraps"),
        ("ReduceSum", "int32", "> 2^53", "saturates"),
        ("ReduceSum", "int64", "> 2^53", "rounds"),
        ("Div by 0", "int8", "small", "fails"),
        ("BitShift left", "int32", "small", "-"),
    ],
)
def test_the_probe_tells_what_the_runtime_does(operator: str, dtype: str, edge: str, expected: str) -> None:
    assert probe_integers.entry(probe_integers.OPERATORS[operator], dtype, edge, 0) == expected


def test_edges_are_in_every_type() -> None:
    for dtype, edge in itertools.product(INTEGERS["Add"].dtypes, EDGES):
        assert draw(random.Random(0), (64,), dtype, edge).dtype == dtype
