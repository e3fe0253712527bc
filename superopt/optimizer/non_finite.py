"""A test of a rule at a match, at NaN and infinity: does it keep what guards a model against them?

A proof speaks of real numbers. Over these Where(x == x, x, 0) is x, so a rule may well say so; but the left side is 0
where x is NaN, and models are exported with such guards. The test evaluates both sides with NaN and with each infinity
in all elements of a variable. Single elements are left to the comparison of outputs: where products with 0 are added
to a sum, as minimal filtering adds them, NaN reaches a few more elements, in the libraries of the runtimes too.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from superopt.evaluate import evaluate
from superopt.evaluate.indices import Array
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES
from superopt.optimizer.example_check import differ
from superopt.optimizer.match_example import MatchExample, example_of

__all__ = ["loses_guard"]

_DRAWS = 2  # of the numbers in the other variables
_TOLERANCE = 1e-6  # relative; the numbers are whole and small
_LARGE = 1e6
_MOST_OPERATORS = 1000  # in all tests of a rule: one for a chain of 100 steps of a layer has 100 variables alike


def loses_guard(rule: Rule, bindings: Bindings) -> bool:
    """Return True if, with NaN or an infinity in a variable, the right side is worse than the left one somewhere.

    It is worse where the left side has a finite number, an integer or a truth value and the right side another one, and
    where NaN in the variable makes the left side NaN and the right side a number (a later guard would not see it). An
    infinity counts where the left side is defined at a large number of its sign. Variables that stand for constants of
    the model keep finite numbers. Returns False if no example can be made or evaluated.
    """
    for keeps_sizes in (False, True):
        try:
            return _loses(example_of(rule, bindings, keeps_sizes=keeps_sizes), bindings)
        except IllTyped:
            continue
        except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError):
            return False
    return False


def _loses(example: MatchExample, bindings: Bindings) -> bool:
    if not example.is_small:
        return False
    real = [
        term
        for name, term in example.variables.items()
        if not bindings.terms[name].is_constant and term.type is not None and term.type.dtype in FLOAT_DTYPES
    ]
    operators = sum(1 for _ in topological((*example.left, *example.right)))
    tests = itertools.product(range(_DRAWS), real, (np.nan, np.inf, -np.inf))
    with np.errstate(all="ignore"):
        return any(
            _is_worse_at(example, {**values, term: np.full_like(values[term], special)}, term, special)
            for draw, term, special in itertools.islice(tests, max(3, _MOST_OPERATORS // operators))
            for values in (example.values(draw),)
        )


def _is_worse_at(example: MatchExample, values: Mapping[Term, Array], term: Term, special: float) -> bool:
    left, right = (evaluate(side, values, {}) for side in (example.left, example.right))
    large = left
    if np.isinf(special):
        # 1 / sqrt(-infinity) says nothing: the left side is defined at no number near it.
        large = evaluate(example.left, {**values, term: np.full_like(values[term], np.copysign(_LARGE, special))}, {})
    return any(_is_worse(*each, special) for each in zip(left, right, large, strict=True))


def _is_worse(left: Array, right: Array, large: Array, special: float) -> bool:
    if left.dtype.kind != "f":
        return differ(left, right, _TOLERANCE)
    if differ(np.where(np.isfinite(large), left, np.nan), right, _TOLERANCE):
        return True
    return np.isnan(special) and bool(np.isfinite(right[np.isnan(left)]).any())
