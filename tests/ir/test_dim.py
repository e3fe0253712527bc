"""Symbolic sizes compute as integers do, whatever the integers."""

from __future__ import annotations

import operator
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from superopt.ir.dim import Size, ceil_div, evaluate, floor_div, symbol, symbols_of
from superopt.ir.notation import parse_terms, show_terms
from superopt.ir.types import TensorType, tensor

NAMES = ("n", "h", "x.shape[0]", "k")
ENVS = st.fixed_dictionaries({name: st.integers(1, 40) for name in NAMES})

# An expression is computed twice: over symbols, and over the integers of an environment.
Expression: TypeAlias = Callable[[dict[str, Size]], Size]


def _leaf() -> st.SearchStrategy[Expression]:
    names = st.sampled_from(NAMES).map(lambda name: lambda env: env[name])
    return names | st.integers(-9, 9).map(lambda value: lambda env: value)


def _positive() -> st.SearchStrategy[Expression]:
    """Denominators: products and sums of symbols and positive numbers."""
    factor = st.sampled_from(NAMES).map(lambda name: lambda env: env[name]) | st.integers(1, 6).map(
        lambda value: lambda env: value
    )
    return st.recursive(
        factor,
        lambda inner: st.builds(
            lambda op, a, b: lambda env: op(a(env), b(env)), st.sampled_from([operator.add, operator.mul]), inner, inner
        ),
        max_leaves=3,
    )


def _compound(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    rings = st.sampled_from([operator.add, operator.sub, operator.mul])
    divisions = st.sampled_from([floor_div, ceil_div, operator.floordiv, operator.mod])

    def joined(op: Callable[[Size, Size], Size], a: Expression, b: Expression) -> Expression:
        return lambda env: op(a(env), b(env))

    return st.builds(joined, rings, inner, inner) | st.builds(joined, divisions, inner, _positive())


EXPRESSIONS = st.recursive(_leaf(), _compound, max_leaves=8)
SYMBOLS: dict[str, Size] = {name: symbol(name) for name in NAMES}


@given(EXPRESSIONS, ENVS)
def test_arithmetic_is_that_of_integers(expression: Expression, env: dict[str, int]) -> None:
    assert evaluate(expression(SYMBOLS), dict(env)) == expression(dict(env))


@given(EXPRESSIONS, ENVS, st.sampled_from(NAMES))
def test_replacing_symbols_in_two_steps(expression: Expression, env: dict[str, int], first: str) -> None:
    value = expression(SYMBOLS)
    half = evaluate(value, {first: env[first]})
    assert first not in symbols_of(half)
    assert evaluate(half, dict(env)) == evaluate(value, dict(env))


@given(EXPRESSIONS, EXPRESSIONS, EXPRESSIONS)
def test_laws_hold_by_equality(left: Expression, middle: Expression, right: Expression) -> None:
    a, b, c = left(SYMBOLS), middle(SYMBOLS), right(SYMBOLS)
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == 0
    assert hash(a + b) == hash(b + a)


@given(EXPRESSIONS, _positive())
def test_exact_parts_leave_the_floor(expression: Expression, denominator: Expression) -> None:
    value, by = expression(SYMBOLS), denominator(SYMBOLS)
    rest = value - by * floor_div(value, by)
    assert value % by == rest
    if isinstance(by, int) or len(by.terms) == 1:
        assert floor_div(value * by, by) == value


@given(EXPRESSIONS)
def test_a_value_is_an_integer_or_mentions_a_symbol(expression: Expression) -> None:
    value = expression(SYMBOLS)
    assert isinstance(value, int) or symbols_of(value)


@given(EXPRESSIONS)
def test_text_is_read_back(expression: Expression) -> None:
    terms = parse_terms(f"Tile[repeats=[0, {expression(SYMBOLS) * 2}]](x)")  # a name by itself would be an attribute
    assert terms[0].attr("repeats") == (0, expression(SYMBOLS) * 2)
    assert parse_terms(show_terms(terms)) == terms


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (symbol("n") + 1, "n + 1"),
        (2 * symbol("n") * symbol("h") - symbol("n"), "2*h*n - n"),
        (-symbol("n"), "-n"),
        (floor_div(symbol("n") + 1, 2), "((n + 1) // (2))"),
        (floor_div(6 * symbol("n") + 4, 3), "2*n + 1"),
        (floor_div(symbol("n") * symbol("h"), symbol("h")), "n"),
        (floor_div(symbol("n") + symbol("h"), symbol("n") + symbol("h")), "1"),
        (symbol("n") % 1, "0"),
        (3 - symbol("n") - 3 + symbol("n"), "0"),
    ],
)
def test_normal_forms(value: Size, shown: str) -> None:
    assert str(value) == shown


def test_types_with_sizes() -> None:
    type = tensor(symbol("n"), 3, symbol("n") * 2)
    assert str(type) == "float[n, 3, 2*n]"
    assert type.concrete() is None
    assert type.with_sizes({"n": 4}).concrete() == (4, 3, 8)
    assert TensorType("int64", None).rank is None
    assert TensorType("int64", None).with_sizes({"n": 4}) == TensorType("int64", None)


def test_a_size_can_be_sent_to_another_process() -> None:
    """Strings have another hash there, so a size must not take its own along."""
    program = "import pickle, sys; from superopt.ir.dim import symbol; n = symbol('n') * 3 + 1; hash(n); "
    program += "sys.stdout.buffer.write(pickle.dumps({n: 7}))"
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    sent = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, env=environment).stdout
    assert pickle.loads(sent) == {symbol("n") * 3 + 1: 7}
