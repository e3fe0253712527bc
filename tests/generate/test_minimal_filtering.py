"""Minimal filtering: its matrices, the rules that they give, and the sums over tables of numbers that prove them."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.generate.conjectures.minimal_filtering import filtering_conjectures, minimal_filtering
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.families.filtering import FILTERING
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.ir.dim import evaluate, symbol
from superopt.ir.rule import Rule
from superopt.ir.term import Term, map_terms
from superopt.ops.algebra import Table, at_least, below
from verify.diagnose.decide import decide
from verify.prove.sums import ONE, Access, Entry, Product
from verify.prove.symbolic import Symbolic
from verify.prove.tables import without_tables
from verify.verdict import Proved


@pytest.mark.parametrize(("m", "r"), [(1, 1), (1, 3), (2, 3), (3, 2), (4, 3), (2, 5), (5, 4)])
def test_the_matrices_compute_a_filter(m: int, r: int) -> None:
    f, rng = minimal_filtering(m, r), random.Random(f"{m} {r}")
    for row in (*f.outputs, *f.inputs, *f.filters):  # floating point holds the numbers exactly
        assert [Fraction(float(value)) for value in row] == list(row)
    x = [rng.randint(-9, 9) for _ in range(m + r - 1)]
    w = [rng.randint(-9, 9) for _ in range(r)]
    values = [sum(b * v for b, v in zip(row, x, strict=True)) for row in f.inputs]
    weights = [sum(g * v for g, v in zip(row, w, strict=True)) for row in f.filters]
    for a in range(m):
        total = sum(row[a] * v * u for row, v, u in zip(f.outputs, values, weights, strict=True))
        assert Fraction(total, f.divisor) == sum(w[u] * x[a + u] for u in range(r))


def test_too_many_points_are_refused() -> None:
    with pytest.raises(ValueError, match="too many points"):
        minimal_filtering(6, 5)


def _smallest(*, has_bias: bool = True) -> Rule:
    (family,) = FILTERING
    found = list(filtering_conjectures(replace(family, tiles=((2, 2),))))
    schema, equation = found[not has_bias]
    assert len(found) == 2 and len(equation.lhs[0].inputs) == 2 + has_bias
    assert equation.lhs[0].type == equation.rhs[0].type
    assert SamplingCheck(Evaluator(0), 0).holds(schema.rule, schema.base)
    return replace(schema.rule, signatures=(schema.base,))


@pytest.mark.parametrize("has_bias", [True, False])
def test_the_smallest_tile_is_proven_for_all_sizes_and_pads(has_bias: bool) -> None:
    rule = _smallest(has_bias=has_bias)
    proof = decide(rule, rule.signatures[0])
    assert isinstance(proof, Proved) and proof.numerics == "real-only" and not proof.guards


@pytest.mark.parametrize("position", [0, 3, 7])
def test_a_changed_coefficient_is_refuted(position: int) -> None:
    """Both fingerprints and the prover refuse it."""
    rule = _smallest()
    seen: list[Term] = []

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs = dict(old.attrs)
        if old.op == "Constant":
            seen.append(old)
            if len(seen) == 1:
                numbers = attrs["value_floats"]
                assert isinstance(numbers, tuple)
                changed = [float(v) + (k == position) for k, v in enumerate(numbers) if isinstance(v, (int, float))]
                attrs["value_floats"] = tuple(changed)
        return Term.of(old.op, inputs, attrs, old.types)

    false = Rule(rule.lhs, map_terms(rule.rhs, build), rule.signatures)
    assert false.rhs != rule.rhs
    assert not SamplingCheck(Evaluator(0), 0).holds(false, false.signatures[0])
    assert not isinstance(decide(false, false.signatures[0]), Proved)


NUMBERS = st.integers(-3, 3).map(Fraction)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_sums_over_tables_are_sums_of_numbers(data: st.DataObject) -> None:
    """sum over k, i of s[k, 1] * t[i, k] * x[i] is the sum over i of x[i] times a number."""
    n, m = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    s = Table((n, 2), tuple(data.draw(NUMBERS) for _ in range(n * 2)))
    t = Table((m, n), tuple(data.draw(NUMBERS) for _ in range(m * n)))
    k, i = symbol("k!k"), symbol("k!i")
    bounds = (at_least(k, 0), below(k, n), at_least(i, 0), below(i, m))
    product = Product(ONE, (Entry(s, (k, 1)), Entry(t, (i, k)), Access("x", (i,))), ("k!k", "k!i"), bounds)
    algebra, left, found = Symbolic(tabulated=True), [product], {j: Fraction(0) for j in range(m)}
    while left:
        one = left.pop()
        if any(isinstance(factor, Entry) for factor in one.factors):
            left += without_tables(algebra, one) or ()
            continue
        assert one.factors == (Access("x", (i,)),) and "k!i" in one.binders
        for j in range(m):
            if all(evaluate(g.value, {"k!i": j}) == 0 for g in one.guards if g.relation == "=="):
                found[j] += one.coefficient
    assert found == {j: sum(s[k, 1] * t[j, k] for k in range(n)) for j in range(m)}
