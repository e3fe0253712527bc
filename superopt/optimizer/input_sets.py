"""Inputs on which a model is compared besides random ones: other scales, around its constants, integers at the edges.

A rewrite that loses digits shows this only where digits cancel or are scarce. Each set is drawn from a random input of
the model, at the same shapes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import ml_dtypes
import numpy as np

from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model
from superopt.optimizer.critical_inputs import critical_inputs
from superopt.runtime import Feeds, unit_roundoff
from superopt.runtime.feeds import Array

__all__ = ["REAL_SETS", "SPECIAL_SETS", "input_sets"]

_AROUND, _OFFSET, _LARGE, _SMALL, _EDGES = "around constants", "offset", "large", "small", "integer edges"
REAL_SETS = frozenset({_AROUND, _OFFSET, _LARGE, _SMALL})
SPECIAL_SETS = REAL_SETS | {_EDGES}

_MAX_CRITICAL = 2  # sets around constants
_LARGE_POWERS = (1.0, 0.5, 0.25)  # of the factor, in the order of trial: the first at which outputs stay finite counts
_EDGE_VALUES = (0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**53 + 1, -(2**53) - 1)


def input_sets(model: Model, feeds: Feeds, seed: int, fixed: Collection[str] = ()) -> Iterator[tuple[str, list[Feeds]]]:
    """Yield names of sets with their inputs; of several inputs of a set, the first that the model takes is meant.

    `feeds` is the random input, `model` has the values of symbolic sizes at its shapes. Inputs whose names are `fixed`
    keep their values. The sets, with u the unit roundoff of an input's element type:

    - around constants: x so that a difference with the model's own constants is near 0;
    - offset: x + 1/sqrt(u), where half of the digits of x are left;
    - large: x / sqrt(u), or a smaller factor;
    - small: x * sqrt(u);
    - integer edges: the least and the greatest number, 0, 1, -1, and those beyond 2^24 and 2^53.
    """
    around: dict[str, list[Array]] = {}
    for name, value in critical_inputs(model, feeds, seed):
        if name not in fixed:
            around.setdefault(name, []).append(_converted(value, feeds[name].dtype))
    for number in range(min(_MAX_CRITICAL, max(map(len, around.values()), default=0))):
        yield _AROUND, [{**feeds, **{n: v[min(number, len(v) - 1)] for n, v in around.items()}}]
    real = [name for name, array in feeds.items() if name not in fixed and _is_real(array)]
    if real:
        yield _OFFSET, [{**feeds, **{name: _scaled(feeds[name], 1, offset=True) for name in real}}]
        yield _LARGE, [{**feeds, **{name: _scaled(feeds[name], power) for name in real}} for power in _LARGE_POWERS]
        yield _SMALL, [{**feeds, **{name: _scaled(feeds[name], -1) for name in real}}]
    counted = [name for name in _quantities(model) if name in feeds and name not in fixed]
    if counted:
        yield _EDGES, [{**feeds, **{name: _edges(feeds[name], seed) for name in counted}}]


def _is_real(array: Array) -> bool:
    return array.dtype.kind == "f" or array.dtype == np.dtype(ml_dtypes.bfloat16)


def _scaled(array: Array, power: float, offset: bool = False) -> Array:
    """Return array * f^power, or array + f if there is an `offset`, for f = 1 / sqrt(u)."""
    factor = unit_roundoff(array.dtype) ** -0.5
    wide = array.astype(np.float64)
    return _converted(wide + factor if offset else wide * factor**power, array.dtype)


def _converted(value: Array, dtype: np.dtype[np.generic]) -> Array:
    """Return a real array in another element type; integers are rounded and clipped to their range."""
    with np.errstate(over="ignore"):
        if np.issubdtype(dtype, np.integer):
            limits = np.iinfo(dtype.name)
            return np.clip(np.rint(value.astype(np.float64)), limits.min, limits.max).astype(dtype)
        return np.asarray(value).astype(dtype)


def _quantities(model: Model) -> list[str]:
    """Return the integer inputs that are computed with: no operator takes one as an index, a size or a divisor."""
    excluded: set[Term] = set()
    for term in reversed(list(topological(model.outputs))):
        divides = term.op in ("Div", "Mod")  # by 0, and of the least number by -1, it ends the process
        if term in excluded or divides or (term.op not in OPERATORS and term.op not in ("Out", "Var", "Const")):
            excluded.update(i for i in term.inputs if i is not None and _is_integer(i))
        elif term.op in OPERATORS:
            excluded.update(i for k in OPERATORS[term.op].index_operands if (i := term.inputs[k]) is not None)
    return [str(term.attr("name")) for term in model.inputs if _is_integer(term) and term not in excluded]


def _is_integer(term: Term) -> bool:
    return term.type is not None and term.type.dtype.removeprefix("u").startswith("int")


def _edges(array: Array, seed: int) -> Array:
    limits = np.iinfo(array.dtype.name)
    edges = [limits.min, limits.max, *(edge for edge in _EDGE_VALUES if limits.min <= edge <= limits.max)]
    return np.random.default_rng(seed).choice(np.array(edges, array.dtype), array.shape)
