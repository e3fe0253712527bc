"""Each operator's definition in the kernel against ONNX Runtime and onnx.reference, at random attributes and shapes.

Equations of composite operators are compared with the function bodies of `onnx.defs`, too.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import CLOSED_FORM, Term, var
from superopt.ir.types import tensor
from superopt.ops.meaning import Meaning
from tests.support.definition_check import check_definition
from tests.support.semantic_cases import CASES
from verify.diagnose.numeric import Numeric


def test_every_operator_of_the_table_has_a_definition_and_cases() -> None:
    assert set(CASES) == set(OPERATORS) - CLOSED_FORM


@pytest.mark.parametrize("op", sorted(CASES))
def test_definition_agrees_with_the_oracles(op: str) -> None:
    for seed in range(15):
        check_definition(op, seed)


@pytest.mark.slow
@pytest.mark.parametrize("op", sorted(CASES))
def test_definition_agrees_with_the_oracles_at_length(op: str, request: pytest.FixtureRequest) -> None:
    for seed in (*range(15, 115), *(range(115, 215) if request.config.getoption("--long") else ())):
        check_definition(op, seed, most=12)


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
