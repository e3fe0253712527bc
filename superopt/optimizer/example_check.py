"""A test of a rule at a match, in numbers: one that fails there need not be proven for it.

A refuted rule takes the prover 1 to 4 seconds where it sums over windows, this test milliseconds. It can only keep a
rule from being applied.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from superopt.evaluate import can_evaluate, evaluate, numpy_dtype
from superopt.evaluate.indices import Array
from superopt.ir.dim import Dim
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Attr, Term, topological, var
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["fails_at_example"]

# Sizes up to this one stay: kernels, steps and offsets. Larger ones, most of them widths and lengths, become small
# unless the rule states them.
_LARGEST_KEPT = 4
_LARGEST_WINDOW = 16  # that the rule may state: the small sizes must be larger
_MOST_ELEMENTS = 4_000_000  # in all tensors of both sides
_TOLERANCE = 1e-6  # relative; the numbers are whole and small, so most results are exact in float64
# Draws of numbers where the left side is not a number in the first one: at most, and with numbers on the left side.
_DRAWS, _KNOWN_DRAWS = 12, 4


def fails_at_example(rule: Rule, bindings: Bindings, tolerance: float = _TOLERANCE) -> bool:
    """Return True if both sides differ at one example with the match's attributes and small sizes like the match's.

    Returns False if no example can be made or evaluated. `tolerance` is relative. Where small sizes do not fit together
    (two sizes add up to a third), only the free sizes are small.
    """
    found = _fails(rule, bindings, tolerance, _LARGEST_KEPT)
    return bool(_fails(rule, bindings, tolerance, _MOST_ELEMENTS) if found is None else found)


def _fails(rule: Rule, bindings: Bindings, tolerance: float, largest_kept: int) -> bool | None:
    """Return True if the sides differ at an example where sizes up to `largest_kept` stay, or None if there is none."""
    try:
        example = _example(rule, bindings, largest_kept)
        sides = [instantiate(side, example, example.dtype() or "float") for side in (rule.lhs, rule.rhs)]
        if not _is_small((*sides[0], *sides[1])):
            return False
        left_known = 0
        for draw in range(_DRAWS):
            env = _values(example, draw)
            left, right = (evaluate(side, env, {}) for side in sides)
            if any(_differ(a, b, tolerance) for a, b in zip(left, right, strict=True)):
                return True
            finite = [np.isfinite(one) for one in left if one.dtype.kind == "f"]
            left_known += all(one.any() for one in finite)
            if left_known == _KNOWN_DRAWS or (not draw and all(one.all() for one in finite)):
                break
    except IllTyped:
        return None
    except (ArithmeticError, LookupError, NotImplementedError, TypeError, ValueError):
        pass
    return False


def _example(rule: Rule, bindings: Bindings, largest_kept: int) -> Bindings:
    """Return the bindings with the larger sizes replaced by small ones: equal ones by equal, larger ones by larger.

    What the rule itself states, as a number of groups, stays.
    """
    stated = {
        item
        for term in topological((*rule.lhs, *rule.rhs))
        for _, value in term.attrs
        for item in _numbers(value)
        if isinstance(item, int)
    }
    types = {name: term.type for name, term in bindings.terms.items()}
    found = {size for type in types.values() if type is not None for size in type.shape or ()}
    attributes = [item for value in bindings.attrs.values() for item in _numbers(value)]
    numbers = {size for size in (*found, *attributes) if isinstance(size, int) and size > largest_kept}
    symbols = sorted({size for size in (*found, *attributes) if isinstance(size, Dim)}, key=str)
    kept = numbers & stated
    counts = itertools.count(1 + max((size for size in kept if size <= _LARGEST_WINDOW), default=_LARGEST_KEPT))
    small: dict[object, int] = {size: size for size in kept}
    small.update(zip((*sorted(numbers - kept), *symbols), (size for size in counts if size not in kept), strict=False))

    def shrunk(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(shrunk, value))
        return small.get(value, value) if isinstance(value, (int, Dim)) else value

    terms = {}
    for name, type in types.items():
        if type is None or type.shape is None:
            raise IllTyped(f"{name} has no shape")
        shape = tuple(small.get(size, size) for size in type.shape)
        terms[name] = var(name, replace(type, shape=shape))
    return Bindings(terms, {name: shrunk(value) for name, value in bindings.attrs.items()})


def _numbers(value: Attr) -> list[Attr]:
    return [item for one in value for item in _numbers(one)] if isinstance(value, tuple) else [value]


def _values(example: Bindings, draw: int) -> Mapping[Term, Array]:
    """Return whole numbers for the variables, of both signs for real ones in the first draw, numbered 0.

    In later ones some variables have positive numbers only: a variance, or what a root is taken of, must have them.
    """
    rng = np.random.default_rng(draw)
    found = {}
    for term in example.terms.values():
        shape = None if term.type is None else term.type.concrete()
        if term.type is None or shape is None:
            raise IllTyped("an example without sizes")
        dtype = term.type.dtype
        if dtype == "bool":
            found[term] = rng.integers(0, 2, shape).astype(bool)
        elif dtype in FLOAT_DTYPES:
            least = 1 if draw and rng.random() < 0.5 else -3
            found[term] = rng.integers(least, 6, shape).astype(np.float64)
        else:
            found[term] = rng.integers(0, 4, shape).astype(numpy_dtype(dtype))
    return found


def _is_small(outputs: tuple[Term, ...]) -> bool:
    total = 0
    for term in topological(outputs):
        if term.op not in CLOSED_FORM and term.op != "Var" and not can_evaluate(term):
            return False
        for type in term.types:
            total += _elements(type)
    return total <= _MOST_ELEMENTS


def _elements(type: TensorType | None) -> int:
    shape = None if type is None else type.concrete()
    return _MOST_ELEMENTS + 1 if shape is None else int(np.prod(shape))


def _differ(left: Array, right: Array, tolerance: float) -> bool:
    """Return True if the sides differ where the left one is a finite number."""
    if left.shape != right.shape:
        return True
    if left.dtype.kind != "f":
        return bool((left != right).any())
    known = np.isfinite(left)
    scale = np.maximum(1.0, np.abs(left[known]))
    with np.errstate(all="ignore"):
        return not bool((np.abs(left[known] - right[known]) <= tolerance * scale).all())
