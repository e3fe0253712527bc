"""Counterexamples: small sizes that satisfy the facts, random integers in the tensors, both sides evaluated."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping

from superopt.ir.dim import Size, evaluate
from superopt.ir.ops import IllTyped
from superopt.ir.term import AttrVar, Term, topological
from verify.algebra import Numeric
from verify.facts import Facts
from verify.resize import resized
from verify.semantics import Meaning
from verify.verdict import Counterexample

__all__ = ["find_counterexample"]

# (largest, smallest) size, and whether sizes are drawn at random: a solver's own choice is often the same for all.
_TRIES = ((4, 2, False), (4, 1, False), (5, 2, True), (5, 2, True), (4, 1, True), (9, 2, False))
_MOST_ELEMENTS = 400


def find_counterexample(
    left: tuple[Term, ...], right: tuple[Term, ...], env: Mapping[str, Size], facts: Facts, seed: int = 0
) -> Counterexample | None:
    """Sizes and values at which the sides differ, or None where a few tries find none."""
    rng = random.Random(seed)

    def draw(name: str) -> int:
        return rng.randint(1, 4)

    for most, least, drawn in _TRIES:
        model = facts.model(most, least, draw if drawn else None)
        if model is None:
            continue
        sizes = {**{name: evaluate(size, {**model}) for name, size in env.items()}, **model}
        for low in (1, -3):
            try:
                found = _differ(left, right, {n: s for n, s in sizes.items() if isinstance(s, int)}, low, rng)
            except IllTyped:  # a size of the right side is left open: nothing to compare
                return None
            if found is not None:
                return found
    return None


def _differ(
    left: tuple[Term, ...], right: tuple[Term, ...], sizes: dict[str, int], low: int, rng: random.Random
) -> Counterexample | None:
    left = resized(left, sizes)
    try:
        right = resized(right, sizes)
    except IllTyped as error:
        return Counterexample(sizes, {}, {}, 0, (), "well-typed", f"ill-typed ({error})")
    tensors: dict[str, dict[tuple[int, ...], float]] = {}
    reals: dict[str, float] = {}
    for term in topological(left + right):
        if term.op == "Var":
            shape = _shape(term)
            if math.prod(shape) > 4096:
                return None
            elements = itertools.product(*map(range, shape))
            tensors[str(term.attr("name"))] = {place: float(rng.randint(low, 5)) for place in elements}
        for _, value in term.attrs:
            if isinstance(value, AttrVar):
                reals.setdefault(value.name, rng.choice([0.5, 1.5, 2.0, 3.0]))
    meaning = Meaning(Numeric({name: values.__getitem__ for name, values in tensors.items()}, reals))
    for output, (a, b) in enumerate(zip(left, right, strict=True)):
        shape = _shape(a)
        if shape != _shape(b):
            return Counterexample(sizes, {}, {}, output, (), f"shape {list(shape)}", f"shape {list(_shape(b))}")
        places = list(itertools.product(*map(range, shape)))
        for place in places if len(places) <= _MOST_ELEMENTS else rng.sample(places, _MOST_ELEMENTS):
            x, y = meaning.scalar(a, place), meaning.scalar(b, place)
            if math.isfinite(x) and math.isfinite(y) and abs(x - y) > 1e-9 * max(1.0, abs(x), abs(y)):
                nested = {name: _nested(values) for name, values in tensors.items()}
                return Counterexample(sizes, nested, reals, output, place, f"{x:g}", f"{y:g}")
    return None


def _shape(term: Term) -> tuple[int, ...]:
    shape = None if term.type is None else term.type.concrete()
    if shape is None:
        raise IllTyped(f"the shape of {term.op} is not determined by the left side")
    return shape


def _nested(values: dict[tuple[int, ...], float]) -> object:
    """Values by index as nested lists."""
    if () in values:
        return values[()]
    groups: dict[int, dict[tuple[int, ...], float]] = {}
    for place, value in values.items():
        groups.setdefault(place[0], {})[place[1:]] = value
    return [_nested(group) for group in groups.values()]
