"""Constants that rules may depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest

import superopt.ops  # noqa: F401
from superopt.evaluate import constant, evaluate
from superopt.evaluate.written import is_written


def test_numbers_that_people_write() -> None:
    written = [0.5, 1e-5, 0.044715, 2**0.5, 0.5**0.5, (2 / math.pi) ** 0.5, 64**-0.5, 1 / 3, 6.0, -100.0, 1.702]
    assert all(is_written(float(np.float32(value))) for value in written)
    assert not any(map(is_written, (1.2345678e308, 5.4321987e-200)))
    drawn = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert sum(is_written(float(value)) for value in drawn) < 30


@pytest.mark.parametrize("dtype", ["float", "double", "float16"])
def test_a_single_written_number_has_a_closed_form(dtype: str) -> None:
    kind = {"float": np.float32, "double": np.float64, "float16": np.float16}[dtype]
    filled = [(0.125, "ConstantOfShape"), (-100.0, "ConstantOfShape"), (1.0, "Ones"), (0.0, "Zeros")]
    for number, op in (*filled, (-0.0, "Const"), (math.inf, "Const"), (math.nan, "Const")):
        for shape in ((), (1,), (1, 1)):
            weights: dict[str, np.ndarray] = {}
            term = constant(np.full(shape, number, kind), dtype, weights)
            assert (term.op, term.type and term.type.shape) == (op, shape)
            assert np.array_equal(evaluate([term], {}, weights)[0], np.full(shape, number), equal_nan=True)
    learned = constant(np.array(0.73612529, kind), dtype, {})
    several = constant(np.full(2, 0.125, kind), dtype, {})
    assert (learned.op, several.op) == ("Const", "Const")
