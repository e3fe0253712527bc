"""Functions of numbers in the search for counterexamples: undefined values are NaN and never an exception."""

from __future__ import annotations

import math

import pytest

from verify.diagnose.functions import FUNCTIONS


@pytest.mark.parametrize("divisor", [0, 0.25, -0.5])
def test_quotients_of_integers_by_less_than_one_are_undefined(divisor: float) -> None:
    """A rule has the number of an attribute, which may be any real number, at a type of integers as well."""
    assert math.isnan(FUNCTIONS["truncated_quotient"](7, divisor))


def test_quotients_of_integers_are_rounded_towards_zero() -> None:
    quotient = FUNCTIONS["truncated_quotient"]
    assert [quotient(7, 2), quotient(-7, 2), quotient(7, -2), quotient(-7, -2)] == [3, -3, -3, 3]


@pytest.mark.parametrize("name", ["to_float16", "to_float", "to_double"])
def test_integers_beyond_the_largest_float_are_rounded_to_infinity(name: str) -> None:
    assert [FUNCTIONS[name](sign * 10**400) for sign in (1, -1)] == [math.inf, -math.inf]
    assert FUNCTIONS[name](3) == 3.0
