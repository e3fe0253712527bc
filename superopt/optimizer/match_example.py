"""A small example of a match: its attributes and small sizes as they are, large sizes replaced, and values for it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from superopt.evaluate import can_evaluate, numpy_dtype
from superopt.evaluate.indices import Array
from superopt.ir.dim import Dim
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule
from superopt.ir.term import CLOSED_FORM, Attr, Term, topological, var
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.search.match.split_rule import attribute_parts

__all__ = ["MatchExample", "example_of"]

# Sizes up to this one stay: kernels, steps and offsets. Larger ones, most of them widths and lengths, become small
# unless the rule states them.
_LARGEST_KEPT = 4
_LARGEST_WINDOW = 16  # that the rule may state: the small sizes must be larger
_MOST_ELEMENTS = 4_000_000  # in all tensors of both sides


@dataclass(frozen=True)
class MatchExample:
    """Both sides of a rule at small sizes, and the variables of the rule by name."""

    left: tuple[Term, ...]
    right: tuple[Term, ...]
    variables: Mapping[str, Term]

    @property
    def is_small(self) -> bool:
        """True if both sides can be evaluated, and quickly."""
        total = 0
        for term in topological((*self.left, *self.right)):
            if term.op not in CLOSED_FORM and term.op != "Var" and not can_evaluate(term):
                return False
            for type in term.types:
                total += _elements(type)
        return total <= _MOST_ELEMENTS

    def values(self, draw: int) -> dict[Term, Array]:
        """Return whole numbers for the variables, of both signs for real ones in the first draw, numbered 0.

        In later ones some variables have positive numbers only: a variance, or what a root is taken of, must have them.
        """
        rng = np.random.default_rng(draw)
        found: dict[Term, Array] = {}
        for term in self.variables.values():
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


def example_of(rule: Rule, bindings: Bindings, *, keeps_sizes: bool = False) -> MatchExample:
    """Return an example of a match, with all sizes that are known if `keeps_sizes`.

    Where small sizes do not fit together (two sizes add up to a third), there is only an example that keeps them.
    Raises IllTyped.
    """
    small = _small_sizes(rule, bindings, _MOST_ELEMENTS if keeps_sizes else _LARGEST_KEPT)
    left, right = (instantiate(side, small, small.dtype() or "float") for side in (rule.lhs, rule.rhs))
    return MatchExample(left, right, small.terms)


def _small_sizes(rule: Rule, bindings: Bindings, largest_kept: int) -> Bindings:
    """Return the bindings with the larger sizes replaced by small ones: equal ones by equal, larger ones by larger.

    What the rule itself states, as a number of groups, stays.
    """
    stated = {
        item
        for term in topological((*rule.lhs, *rule.rhs))
        for _, value in term.attrs
        for item in attribute_parts(value)
        if isinstance(item, int)
    }
    types = {name: term.type for name, term in bindings.terms.items()}
    found = {size for type in types.values() if type is not None for size in type.shape or ()}
    attributes = [item for value in bindings.attrs.values() for item in attribute_parts(value)]
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
        terms[name] = var(name, type._replace(shape=shape))
    return Bindings(terms, {name: shrunk(value) for name, value in bindings.attrs.items()})


def _elements(type: TensorType | None) -> int:
    shape = None if type is None else type.concrete()
    return _MOST_ELEMENTS + 1 if shape is None else int(np.prod(shape))
