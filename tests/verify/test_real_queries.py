"""Facts about real numbers: what a few points satisfy, Z3 does not refute."""

from __future__ import annotations

from fractions import Fraction

import pytest
import z3
from hypothesis import given
from hypothesis import strategies as st

from verify.prove.real_queries import Constraint, Polynomial, RealQuery, has_known_solution, refuted

ONE = Fraction(1)
UNKNOWN: Polynomial = ((ONE, (0,)),)
RELATIONS = st.sampled_from([">", ">=", "==", "!=", "truth"])
NUMBERS = st.fractions(-4, 4, max_denominator=8)
MONOMIALS = st.tuples(NUMBERS, st.lists(st.integers(0, 3), max_size=2).map(tuple))
CONSTRAINTS = st.builds(Constraint, RELATIONS, st.lists(MONOMIALS, max_size=3).map(tuple))


@given(st.lists(CONSTRAINTS, min_size=1, max_size=4))
def test_no_query_with_a_known_solution_is_refuted(constraints: list[Constraint]) -> None:
    query = RealQuery(tuple(constraints))
    assert not (has_known_solution(query) and refuted(query, z3.Context()))


@pytest.mark.parametrize(
    ("constraints", "is_found"),
    [
        ([Constraint(">", UNKNOWN)], True),
        ([Constraint(">", UNKNOWN), Constraint(">", ((-ONE, (0,)),))], False),
        ([Constraint("truth", UNKNOWN), Constraint("!=", UNKNOWN)], True),
        ([Constraint("==", ((ONE, (0, 1)), (-ONE, ()))), Constraint(">", ((-ONE, (0,)), (ONE, ())))], True),  # 1/2 * 2
        ([Constraint("!=", ())], False),  # 0 is 0
        ([Constraint(">", ((Fraction(10**400), (0,)),))], False),  # beyond float64: left to Z3
    ],
)
def test_points_that_satisfy_a_query_are_found(constraints: list[Constraint], is_found: bool) -> None:
    assert has_known_solution(RealQuery(tuple(constraints))) == is_found


def test_rounding_makes_no_solution_of_what_has_none() -> None:
    """0.1 + 0.2 > 0.3 in float64."""
    tenths = tuple((Fraction(n, 10), ()) for n in (1, 2, -3))
    assert not has_known_solution(RealQuery((Constraint(">", tenths),)))
    assert not has_known_solution(RealQuery((Constraint("!=", tenths),)))
