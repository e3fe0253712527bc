"""The bound on a result's rounding errors: steps at different operators add up theirs, steps on steps multiply."""

from __future__ import annotations

from fractions import Fraction

from superopt.ir.infer import make
from superopt.ir.notation import parse_rule
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, var
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.ir.types import TensorType
from superopt.optimizer.error_bound import error_factor
from verify.proof_book import Book
from verify.stability.classes import UNSTABLE, Stability
from verify.verdict import Unknown, Verdict

_APART = parse_rule("Sub(x, y) = Add(x, Neg(y))")
_TOGETHER = _APART.reversed()
_SIGNATURE = Signature((("x", (None,)), ("y", (None,))))


class _Classes(Book):
    def __init__(self, of: dict[Rule, Stability]) -> None:
        super().__init__()
        self._of = of

    def verdict(self, rule: Rule, signature: Signature) -> Verdict:
        return Unknown("not asked for")

    def stability(self, rule: Rule, signature: Signature) -> Stability:
        return self._of[rule]


def _value(name: str) -> Term:
    return var(name, TensorType("float", (4,)))


def _traced(before: Term, after: Term, *steps: tuple[Rule, Term]) -> Trace:
    made = tuple(Step(rule, _SIGNATURE, (root,)) for rule, root in steps)
    return Trace((Application(Rewrite((before,), made, (after,)), ()),))


def test_steps_at_different_operators_count_once() -> None:
    a, b, c, d = map(_value, "abcd")
    first, second = make("Sub", (a, b)), make("Sub", (c, d))
    apart = [make("Add", (x, make("Neg", (y,)))) for x, y in ((a, b), (c, d))]
    before, between, after = make("Mul", (first, second)), make("Mul", (apart[0], second)), make("Mul", tuple(apart))
    book = _Classes({_APART: Stability("stable", Fraction(3)), _TOGETHER: Stability("stable", Fraction(2))})
    trace = _traced(before, after, (_APART, first), (_APART, second))
    assert error_factor([trace], book) == 3
    assert error_factor([trace, trace], book) == 9  # the second pass begins at operators that the first one made
    again = _traced(before, between, (_APART, first), (_APART, second), (_TOGETHER, apart[1]))
    assert error_factor([again], book) == 6  # the last step replaces what the second one has made


def test_a_step_above_another_keeps_its_factor() -> None:
    a, b, c = map(_value, "abc")
    inner = make("Sub", (a, b))
    apart = make("Add", (a, make("Neg", (b,))))
    outer, moved = make("Sub", (inner, c)), make("Sub", (apart, c))
    after = make("Add", (apart, make("Neg", (c,))))
    book = _Classes({_APART: Stability("normwise", Fraction(5))})
    assert error_factor([_traced(outer, after, (_APART, inner), (_APART, moved))], book) == 5


def test_without_a_class_there_is_no_bound() -> None:
    a, b = map(_value, "ab")
    before, after = make("Sub", (a, b)), make("Add", (a, make("Neg", (b,))))
    assert error_factor([_traced(before, after, (_APART, before))], _Classes({_APART: UNSTABLE})) is None
