"""An operator's definition against ONNX Runtime, onnx.reference, and the function body of `onnx.defs`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from superopt.evaluate import can_evaluate, evaluate
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io import new_model, write_model
from superopt.ops.meaning import Meaning, NoSemantics
from tests.support.function_bodies import with_bodies
from tests.support.semantic_cases import CASES, Case
from tests.support.semantic_cases.terms import leaves, outputs_of
from verify.diagnose.numeric import Numeric

__all__ = ["check_definition"]

Place: TypeAlias = tuple[int, ...]


def _by_definition(outputs: Sequence[Term], case: Case, places: Sequence[Sequence[Place]]) -> list[np.ndarray]:
    """The elements of each output at its `places`."""
    lookups = {f"x{k}": (lambda place, a=a: a[place].item()) for k, a in enumerate(case.arrays) if a is not None}
    meaning = Meaning(Numeric(lookups, {}))
    return [
        np.array([meaning.scalar(output, place) for place in chosen], float)
        for output, chosen in zip(outputs, places, strict=True)
    ]


def _places(shape: Sequence[int], most: int | None, rng: random.Random) -> list[Place]:
    """All places of a tensor, or `most` of them: the first, the last and others at random."""
    found = list(itertools.product(*map(range, shape)))
    if most is None or len(found) <= most:
        return found
    return [found[0], found[-1], *rng.sample(found[1:-1], most - 2)]


def _elements(array: np.ndarray, places: Sequence[Place]) -> np.ndarray:
    return np.array([array[place] for place in places])


def _shape(term: Term) -> tuple[int, ...]:
    assert term.type is not None
    shape = term.type.concrete()
    assert shape is not None
    return shape


def _body_applies(op: str, case: Case) -> bool:
    """Return False where the function body of ONNX does less than the operator's page says."""
    x, *parameters = case.arrays
    assert x is not None
    if op == "LayerNormalization":  # it has no broadcasting of scale and bias
        return all(p is None or p.shape == x.shape[case.attrs["axis"] :] for p in parameters)
    return op != "Celu" or x.ndim > 0  # it gives a scalar an axis


def check_definition(op: str, seed: int, most: int | None = None) -> None:
    """Compare an operator's definition with its oracles, at the attributes, shapes and values of one case.

    With `most`, at this many elements of each output at most: the oracles compute tensors, the definition one element.
    """
    rng = random.Random(f"{op} {seed}")
    case = CASES[op](rng)
    outputs = outputs_of(op, case)
    if op == "Split" and len(outputs) == 1:  # its definition is that of a part, also where there is one only
        outputs = (outputs[0].out(0),)
    written = write_model(new_model(outputs, opset=case.opset, extra_opsets={"com.microsoft": 1}))
    feeds = {f"x{k}": a for k, a in enumerate(case.arrays) if a is not None}
    results = []
    if "onnxruntime" in case.oracles:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(written.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results.append(session.run(None, feeds))
    if "reference" in case.oracles:
        results.append(ReferenceEvaluator(written).run(None, feeds))
    by_body = with_bodies(written, op) if OPERATORS[op].equations and _body_applies(op, case) else None
    if by_body is not None:
        results.append(ReferenceEvaluator(by_body).run(None, feeds))
    if all(can_evaluate(output) for output in outputs):  # what folds weights means the same
        results.append(evaluate(outputs, leaves(case), {}))
    assert results, "nobody was asked"
    places = [_places(_shape(output), most, rng) for output in outputs]
    if OPERATORS[op].integers == "floating" and any(a is not None and a.dtype.kind in "iu" for a in case.arrays):
        with pytest.raises(NoSemantics):
            _by_definition(outputs, case, places)
        mine = [_elements(array, chosen) for array, chosen in zip(results.pop(), places, strict=True)]
    else:
        mine = _by_definition(outputs, case, places)
    for oracle in results:
        for output, chosen, ours, theirs in zip(outputs, places, mine, oracle, strict=True):
            said = f"{op} {case.attrs} {[None if a is None else a.shape for a in case.arrays]}"
            assert _shape(output) == np.shape(theirs), said
            at_places = _elements(theirs, chosen)
            assert output.type is not None
            if output.type.dtype in FLOAT_DTYPES:
                np.testing.assert_allclose(ours, at_places, rtol=case.tolerance, atol=case.tolerance, err_msg=said)
            else:
                np.testing.assert_array_equal(ours, at_places, err_msg=said)
