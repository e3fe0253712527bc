"""Rules that hold over the real numbers but may overflow in floating point.

Rules are proven over the reals. For some rules, only one side has intermediate values near the format's largest number.
Such rules are not applied: tests on random inputs rarely reach the values at which the sides differ.
"""

from __future__ import annotations

from collections.abc import Collection

from superopt.ir.operator import OPERATORS
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.properties import adds_up, is_scaling, linear_operands, lists_numbers, uses_function

__all__ = ["adds_exponentials", "may_overflow", "moves_factors_across_sums"]

# e^88 is the largest power of e in float32 and bfloat16. Half of the exponent is left for sums and products.
_MAX_SHIFT = 44


def adds_exponentials(rule: Rule) -> bool:
    """Return True if the right side has more Exp operators than the left side.

    Operators defined by exponentials, such as Softmax, do not count: the runtime avoids large exponentials in them.
    """
    return _count_exponentials(rule.rhs) > _count_exponentials(rule.lhs)


def _count_exponentials(terms: tuple[Term, ...]) -> int:
    return sum(_is_exponential(term) for term in topological(terms))


def _is_exponential(term: Term) -> bool:
    return uses_function(term.op, "exp")


def may_overflow(rule: Rule) -> bool:
    """Return True if the right side exponentiates a value that may be large and that the left side does not.

    e^89 exceeds float32. Exponentials of x - max(x) are allowed, because that difference is at most 0. In float16 e^12
    overflows; the matcher excludes float16 (see `Occurrence.match`).
    """
    if not adds_exponentials(rule):
        return False
    return not all(_is_bounded(term.inputs[0]) for term in topological(rule.rhs) if _is_exponential(term))


def _is_bounded(exponent: Term | None) -> bool:
    """Return True for x - ReduceMax(x), and for x - (ReduceMax(x) - c) with a number c <= _MAX_SHIFT."""
    if exponent is None or exponent.op != "Sub":
        return False
    value, largest = exponent.inputs
    if largest is not None and largest.op == "Sub":
        largest, number = largest.inputs
        floats = None if number is None or not lists_numbers(number.op) else number.attr("value_floats")
        if not isinstance(floats, tuple) or not all(isinstance(c, float) and c <= _MAX_SHIFT for c in floats):
            return False
    if largest is None or largest.op != "ReduceMax" or largest.attr("keepdims") != 1:
        return False
    return largest.inputs[0] is value


def moves_factors_across_sums(before: Collection[Term], after: Collection[Term]) -> bool:
    """Return True if a rewrite moves factors into or out of the operands of a sum of products.

    This matters in float16, whose largest number is 65504: models scale queries by s because q k would overflow where
    (q s) k does not.
    """
    return any(adds_up(term.op) for term in after) and _factors_inside(before) != _factors_inside(after)


def _factors_inside(terms: Collection[Term]) -> int:
    """Count the Muls and Divs in `terms` whose value reaches a sum in `terms` through linear operators of `terms`."""
    inside: set[Term] = set()
    stack = [used for term in terms if adds_up(term.op) for used in term.inputs]
    while stack:
        term = stack.pop()
        if term in terms and term is not None and term not in inside and (linear := _linear_inputs(term)):
            inside.add(term)
            stack.extend(linear)
    return sum(is_scaling(term.op) for term in inside)


def _linear_inputs(term: Term) -> list[Term | None]:
    """Return the operands in which the term is linear: a factor of such an operand is a factor of the term."""
    if term.op == "Out":
        return list(term.inputs)
    linear = linear_operands(term.op)
    # A variadic operator is linear in all operands if it is linear in one.
    variadic = OPERATORS[term.op].inputs[1] is None if term.op in OPERATORS else False
    return [used for k, used in enumerate(term.inputs) if k in linear or (variadic and linear)]
