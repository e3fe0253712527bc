"""Random values of variables of any element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["random_values", "real_type"]


def random_values(rng: np.random.Generator, term: Term, low: float, high: float) -> Any:
    """Return an array of the term's type: reals from `low` to `high`, truth values, or integers from 1 to 4."""
    assert term.type is not None
    shape, dtype = term.type.concrete(), term.type.dtype
    assert shape is not None and dtype is not None
    if dtype in FLOAT_DTYPES:
        return rng.uniform(low, high, shape)
    return rng.integers(0, 2, shape).astype(bool) if dtype == "bool" else rng.integers(1, 5, shape, dtype=dtype)


def real_type(rule: Rule) -> str:
    """Return the type at which to try the rule's reals: double, or float for rules that cast to that type."""
    casts = any(("to", "float") in term.attrs for term in topological(rule.lhs + rule.rhs))
    return "float" if casts else "double"
