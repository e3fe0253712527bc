"""What is equal over the reals, where rules are proven, and not in floating point: sides of which only one has values
near the format's largest number. Such rules are not applied, as random inputs seldom show what they do.
"""

from __future__ import annotations

from collections.abc import Collection

from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.search.match.graph_index import MOVING

__all__ = ["exponentiates", "may_overflow", "rescales"]

# The largest power of float32 and bfloat16 is e^88: half of that is left for sums and products.
_LARGEST_SHIFT = 44

_FACTORS = frozenset({"Div", "Mul"})
_SUMS = frozenset({"Conv", "ConvTranspose", "Einsum", "FusedMatMul", "Gemm", "MatMul", "ReduceMean", "ReduceSum"})
_LINEAR = _FACTORS | _SUMS | MOVING | {"Add", "Out", "Sub", "Sum"}


def exponentiates(rule: Rule) -> bool:
    """Whether it left to right exponentiates what the left side does not. What has exponentials in its definition only,
    as Softmax, is computed without large ones by the runtime."""
    return _exponentials(rule.rhs) > _exponentials(rule.lhs)


def _exponentials(terms: tuple[Term, ...]) -> int:
    return sum(term.op == "Exp" for term in topological(terms))


def may_overflow(rule: Rule) -> bool:
    """Whether it exponentiates anew what may be large: e^89 is no float32. A difference from a largest value is not, in
    formats with that range (e^12 is no float16)."""
    if not exponentiates(rule):
        return False
    return not all(_is_bounded(term.inputs[0]) for term in topological(rule.rhs) if term.op == "Exp")


def _is_bounded(exponent: Term | None) -> bool:
    """Whether it is x - ReduceMax(x), or x - (ReduceMax(x) - c) with a number c that leaves room for sums."""
    if exponent is None or exponent.op != "Sub":
        return False
    value, largest = exponent.inputs
    if largest is not None and largest.op == "Sub":
        largest, number = largest.inputs
        floats = None if number is None or number.op != "Constant" else number.attr("value_floats")
        if not isinstance(floats, tuple) or not all(isinstance(c, float) and c <= _LARGEST_SHIFT for c in floats):
            return False
    if largest is None or largest.op != "ReduceMax" or largest.attr("keepdims") != 1:
        return False
    return largest.inputs[0] is value


def rescales(before: Collection[Term], after: Collection[Term]) -> bool:
    """Whether operators become others with factors taken out of the operands of a sum of products, or put there: in
    float16, whose largest number is 65504, models scale queries because q k would overflow, and (q s) k does not. A
    function that takes in all of the sum scales as it sees fit."""
    return any(term.op in _SUMS for term in after) and _factors_inside(before) != _factors_inside(after)


def _factors_inside(terms: Collection[Term]) -> int:
    """How many of these terms are products with a factor that a sum among them adds up, near or far."""
    inside: set[Term] = set()
    stack = [i for term in terms if term.op in _SUMS for i in term.inputs]
    while stack:
        term = stack.pop()
        if term in terms and term is not None and term not in inside and term.op in _LINEAR:
            inside.add(term)
            stack.extend(term.inputs)
    return sum(term.op in _FACTORS for term in inside)
