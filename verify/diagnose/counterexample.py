"""Search for counterexamples: evaluate both sides on random tensors, at small sizes that satisfy the facts."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Mapping

from superopt.ir.dim import Size, evaluate
from superopt.ir.infer import IllTyped
from superopt.ir.term import AttrVar, Term, topological
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.meaning import Meaning
from verify.diagnose.functions import FUNCTIONS
from verify.diagnose.numeric import Numeric
from verify.prove.facts import FindModel
from verify.prove.specialize import resized
from verify.verdict import Counterexample

__all__ = ["differ", "distinct_texts", "find_counterexample"]

# (largest size, smallest size, draw at random): left to itself the solver often gives all sizes the same value.
_TRIES = ((4, 2, False), (4, 1, False), (5, 2, True), (5, 2, True), (4, 1, True), (9, 2, False))
_MOST_ELEMENTS = 400

# Ways to fill tensors: first whole numbers, for which both sides are exact; then values that show rounding, range and
# domain.
_REALS: tuple[Callable[[random.Random], float], ...] = (
    lambda rng: float(rng.randint(1, 5)),
    lambda rng: float(rng.randint(-3, 5)),
    lambda rng: rng.randint(-10, 10) / 4,
    lambda rng: rng.choice([-1, 1]) * (rng.randint(8192, 81920) + 0.125),
)
_INTEGERS: tuple[Callable[[random.Random], float], ...] = (
    lambda rng: rng.randint(1, 5),
    lambda rng: rng.randint(-7, 7),
    lambda rng: rng.randint(-300, 300),
    lambda rng: rng.randint(-(1 << 63), 1 << 63),
)


def find_counterexample(
    left: tuple[Term, ...], right: tuple[Term, ...], env: Mapping[str, Size], model_of: FindModel, seed: int = 0
) -> Counterexample | None:
    """Return sizes and values at which the sides differ, or None if a few tries find none.

    This is a `verify.prove.prover.Refuter`.
    """
    rng = random.Random(seed)

    def draw(name: str) -> tuple[int]:
        return (rng.randint(1, 4),)

    for most, least, drawn in _TRIES:
        model = model_of(most, least, draw if drawn else None)
        if model is None:
            continue
        sizes = {**{name: evaluate(size, {**model}) for name, size in env.items()}, **model}
        for style in range(len(_REALS)):
            try:
                found = differ(left, right, {n: s for n, s in sizes.items() if isinstance(s, int)}, style, rng)
            except IllTyped:  # the left side does not determine a size of the right side: nothing to compare
                return None
            if found is not None:
                return found
    return None


def differ(
    left: tuple[Term, ...], right: tuple[Term, ...], sizes: dict[str, int], style: int, rng: random.Random
) -> Counterexample | None:
    """Return the largest difference of the sides at given sizes, with tensors filled in style `style`, or None.

    Raises IllTyped if a size is not determined.
    """
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
            draw = _draw(term, style)
            tensors[str(term.attr("name"))] = {place: draw(rng) for place in elements}
        for _, value in term.attrs:
            if isinstance(value, AttrVar):
                reals.setdefault(value.name, rng.choice([0.5, 1.5, 2.0, 3.0] if style < 2 else [-2.0, -0.5, 0.0, 1.5]))
    meaning = Meaning(Numeric({name: values.__getitem__ for name, values in tensors.items()}, reals))
    # Under a cast, a sum that is rounded earlier or later may differ a little; that does not refute a rule.
    tolerance = 1e-6 if any(t.op == "Cast" for t in topological(left + right)) else 1e-9
    worst, found = tolerance, None
    for output, (a, b) in enumerate(zip(left, right, strict=True)):
        if a.type is not None and b.type is not None and a.type.dtype != b.type.dtype:
            return Counterexample(sizes, {}, {}, output, (), f"type {a.type}", f"type {b.type}")
        shape = _shape(a)
        if shape != _shape(b):
            return Counterexample(sizes, {}, {}, output, (), f"shape {list(shape)}", f"shape {list(_shape(b))}")
        places = list(itertools.product(*map(range, shape)))
        for place in places if len(places) <= _MOST_ELEMENTS else rng.sample(places, _MOST_ELEMENTS):
            x, y = meaning.scalar(a, place), meaning.scalar(b, place)
            if math.isnan(x):
                return None  # the left side is undefined: the rule claims nothing here
            distance = _distance(x, y)
            if distance > worst:
                nested = {name: _nested(values) for name, values in tensors.items()}
                worst = distance
                found = Counterexample(sizes, nested, reals, output, place, *distinct_texts(x, y))
    return found


def _distance(left: float, right: float) -> float:
    """Return the difference relative to the larger side.

    It is 0 if a side is too large for a float (the rule claims nothing there), infinite if the right side is undefined.
    """
    if isinstance(left, int) and isinstance(right, int):
        return math.inf if left != right else 0.0
    if math.isinf(left) or math.isinf(right):
        return 0.0
    return math.inf if math.isnan(right) else abs(left - right) / max(1.0, abs(left), abs(right))


def _draw(term: Term, style: int) -> Callable[[random.Random], float]:
    dtype = "float" if term.type is None else term.type.dtype
    if dtype in FLOAT_DTYPES:
        return _REALS[style]
    if dtype == "bool":
        return lambda rng: rng.randint(0, 1)
    wrap = FUNCTIONS[f"to_{dtype}"]
    return lambda rng: wrap(_INTEGERS[style](rng))


def _shape(term: Term) -> tuple[int, ...]:
    shape = None if term.type is None else term.type.concrete()
    if shape is None:
        raise IllTyped(f"the shape of {term.op} is not determined by the left side")
    return shape


def _nested(values: dict[tuple[int, ...], float]) -> object:
    """Return values by index as nested lists."""
    if () in values:
        return values[()]
    groups: dict[int, dict[tuple[int, ...], float]] = {}
    for place, value in values.items():
        groups.setdefault(place[0], {})[place[1:]] = value
    return [_nested(group) for group in groups.values()]


def distinct_texts(x: float, y: float) -> tuple[str, str]:
    """Return both numbers with six digits, or with all if only those tell them apart."""
    short = f"{x:g}", f"{y:g}"
    return short if short[0] != short[1] or x == y else (repr(x), repr(y))
