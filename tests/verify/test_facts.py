"""Facts about integers: the solver that a proof shares answers as one of its own, and never against the integers."""

from __future__ import annotations

import contextlib
import itertools

import pytest
import z3
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.ir.dim import Size, evaluate, floor_div, symbol
from superopt.ops.algebra import Guard
from verify.prove.facts import Facts, _Scopes

NAMES = ("a", "b", "c")
ATOMS: tuple[Size, ...] = (
    *map(symbol, NAMES),
    symbol("a") * symbol("b"),
    floor_div(symbol("a") + symbol("c"), 3),
    floor_div(symbol("c"), symbol("b") * symbol("b") + 1),
)
POINTS = [dict(zip(NAMES, values, strict=True)) for values in itertools.product(range(-3, 6), repeat=3)]


@st.composite
def guards(draw: st.DrawFn) -> Guard:
    value: Size = draw(st.integers(-4, 4))
    for atom in draw(st.lists(st.sampled_from(ATOMS), min_size=1, max_size=3)):
        value = value + draw(st.integers(-3, 3)) * atom
    return Guard(draw(st.sampled_from(("<=", "=="))), value)


def holds(guard: Guard, point: dict[str, int]) -> bool:
    value = evaluate(guard.value, point)
    assert isinstance(value, int)
    return value == 0 if guard.relation == "==" else value >= 0


def is_linear(guard: Guard) -> bool:
    atoms = () if isinstance(guard.value, int) else guard.value.terms
    return all(len(monomial) < 2 and set(monomial) <= set(NAMES) for monomial, _ in atoms)


# A question: which of the facts it is about, in order, and the goal (None: do they contradict each other?).
questions = st.lists(st.tuples(st.lists(guards(), max_size=3), st.none() | guards()), min_size=1, max_size=6)


def answer(facts: Facts, more: list[Guard], goal: Guard | None) -> bool:
    for guard in more:
        facts = facts.extended([guard])
    return facts.inconsistent() if goal is None else facts.entails(goal)


@settings(max_examples=150, deadline=None)
@given(st.lists(guards(), max_size=2), questions)
def test_what_is_shown_holds_at_every_point(start: list[Guard], asked: list[tuple[list[Guard], Guard | None]]) -> None:
    facts = Facts(start)
    for more, goal in asked:
        if answer(facts, more, goal):
            where = [p for p in POINTS if all(holds(guard, p) for guard in (*start, *more))]
            assert not where if goal is None else all(holds(goal, p) for p in where)


@settings(max_examples=100, deadline=None)
@given(st.lists(guards(), max_size=2), questions)
def test_earlier_questions_change_no_answer(start: list[Guard], asked: list[tuple[list[Guard], Guard | None]]) -> None:
    facts = Facts(start)
    for more, goal in asked:
        linear = all(map(is_linear, (*start, *more, *([goal] if goal else []))))
        found, alone = answer(facts, more, goal), answer(Facts(start), more, goal)
        assert found == alone or not linear  # Z3 may give up on products in one order of questions only


@pytest.mark.parametrize("is_asserted", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_an_interrupt_leaves_no_guard_behind(number: int, is_asserted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof that is given up may be interrupted anywhere. Facts that are asked again then are only their own."""
    a, b, c = map(symbol, NAMES)
    facts = Facts([Guard("<=", a + b + c)])
    calls, assert_formulas = itertools.count(), _Scopes._assert

    def interrupted(scopes: _Scopes, *formulas: z3.BoolRef) -> None:
        is_now = next(calls) == number
        if is_asserted or not is_now:
            assert_formulas(scopes, *formulas)
        if is_now:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        patch.setattr(_Scopes, "_assert", interrupted)
        here = facts.extended([Guard("<=", a - b - c), Guard("<=", b - c)])
        for goal in (a - 2 * c, a - c - b + 1, a - c):
            here.entails(Guard("<=", goal))
    assert next(calls) > number
    assert not facts.entails(Guard("<=", a - b - c))
    assert not facts.extended([Guard("<=", b - c)]).entails(Guard("<=", a - 2 * c))
    assert facts.extended([Guard("<=", a - b - c), Guard("<=", b - c)]).entails(Guard("<=", a - 2 * c))
