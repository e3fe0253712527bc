"""Numbers of a model that rules know by a formula: the float32 number nearest to the root of 2, for instance.

An exporter computes Sqrt(2) and stores the rounded result c = 1.41421354. No equation about the root of 2 holds for c.
But a runtime that computes Sqrt(2) gets the bits of c, because IEEE 754 prescribes them. So a model that computes it in
place of c is the same program, and rules are applied to that one: folding, the other way round. The writer folds what
is left of the formula.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from superopt.evaluate import fold
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["formulas_in", "numbers_by_formula"]


def formulas_in(terms: Sequence[Term]) -> Iterator[Term]:
    """Yield the operators of numbers below terms or patterns, such as Sqrt(2), whose results IEEE 754 prescribes."""
    for term in topological(terms):
        of_numbers = term.inputs and all(i is not None and i.op == "ConstantOfShape" for i in term.inputs)
        if of_numbers and OPERATORS[term.op].ieee:
            yield term


def numbers_by_formula(outputs: Sequence[Term], formulas: Iterable[Term]) -> dict[Term, Term]:
    """Return the formula for each number below `outputs` that one of the `formulas` gives, bit for bit."""
    numbers = list(filter(_is_number, topological(outputs)))
    known = dict.fromkeys(formulas) if numbers else {}  # to look through all rules takes 0.04 s
    found: dict[Term, Term] = {}
    for number in numbers:
        forms = (_like(formula, number) for formula in known)
        form = next((one for one in forms if fold((one,), {}) == (number,)), None)
        if form is not None:
            found[number] = form
    return found


def _is_number(term: Term) -> bool:
    """Return True for a real number, in the form of a weight too: of float16, no digits tell that it is written."""
    type = term.type
    if term.op not in ("Const", "ConstantOfShape") or term.inputs or type is None or type.dtype not in FLOAT_DTYPES:
        return False
    return math.prod(type.shape or ()) == 1


def _like(formula: Term, number: Term) -> Term:
    """Return the formula with the number's shape and type."""
    assert number.type is not None
    shape = number.type.shape or ()
    parts = (
        Term.of(i.op, (), {**dict(i.attrs), "shape": shape}, number.types) for i in formula.inputs if i is not None
    )
    return make(formula.op, parts, dict(formula.attrs))
