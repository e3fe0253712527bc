"""Inputs on which two models are compared: random ones of several sizes and scales, edges, values at their constants.

Every value depends on the seed, the number of the round, the sizes and the name of the input only.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from superopt.evaluate import can_evaluate, evaluate
from superopt.ir.term import CLOSED_FORM, Term, topological
from superopt.onnx_io import Model
from superopt.optimizer.input_sets import input_sets
from superopt.optimizer.input_sizes import InputSizes
from superopt.runtime import Feeds, InputShapes, InputSpec, feed_candidates, with_specials
from superopt.runtime.feeds import Array

__all__ = ["NOT_A_NUMBER", "candidate_shapes", "free_sizes", "inputs_at", "token_bounds"]

NOT_A_NUMBER = "NaN and infinities"  # the kind of inputs that are no proof of a difference

# Sizes of dynamic dimensions, as (the k-th first axis, the k-th other one): distinct primes tell dimensions apart.
# First axes are often one batch under several names, so they are equal but twice.
_SIZES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((2,), (3, 5, 7, 11)),
    ((1,), (1,)),
    ((2, 3, 5), (7, 11, 13)),
    ((2, 1), (3, 1)),  # for operands that may be broadcast
    ((1,), (8,)),
    ((2,), (16,)),
    ((3,), (32,)),
    ((1,), (64,)),
    ((2,), (224,)),
)
# The smallest ones are silence to a model of sounds: what was added against a logarithm of 0 counts there.
_SCALES = (10.0, 100.0, 0.1, 1000.0, 1e-4, 1e-8)
# Each input by one of its own: silence may matter only beside a large bound of frequencies.
_MIXED_SCALES, _MIXTURES = (0.0, 1e-8, 1e-4, 1.0, 1000.0), 6
# Powers of 10 along one axis: a clamp relative to the largest element, as of a spectrum in decibels, acts on them only.
_RISING_POWERS = (-8.0, 3.0)
_MAX_CONSTANT_ELEMENTS = 64
_MAX_CONSTANTS = 256


def candidate_shapes(sizes: InputSizes) -> Iterator[InputShapes]:
    """Yield shapes of all inputs: the ends of given ranges, and small sizes for dimensions that are not given."""
    ends = [{d: getattr(r, end) for d, r in sizes.ranges.items()} for end in ("low", "high")]
    seen: list[InputShapes] = []
    for free in free_sizes(sizes.open):
        for end in ends if sizes.ranges else ends[:1]:
            shapes = sizes.shapes({**end, **free})
            if shapes not in seen:
                seen.append(shapes)
                yield shapes


def free_sizes(dimensions: Mapping[str, bool]) -> Iterator[dict[str, int]]:
    """Yield sizes of dynamic dimensions, small and different ones first.

    `dimensions` says of each if it is the first axis of an input: that is often a batch, which some models want small.
    """
    for firsts, others in _SIZES:
        kinds = {True: itertools.cycle(firsts), False: itertools.cycle(others)}
        yield {dimension: next(kinds[is_first]) for dimension, is_first in dimensions.items()}


def token_bounds(
    specs: Sequence[InputSpec], shapes: InputShapes, tables: Sequence[int], runs: Callable[[Feeds], bool]
) -> Mapping[str, int]:
    """Return the exclusive upper bound of each integer input that is an index, such as token numbers.

    `tables` are the lengths of the model's tables. An input is an index if the model runs on a number within a table
    and not on one beyond all tables.
    """
    found: dict[str, int] = {}
    if not tables:
        return found
    base = next(iter(feed_candidates(specs, shapes, 0, 0)))
    for name, array in base.items():
        if array.dtype.kind not in "iu" or not array.size:
            continue
        if runs({**base, name: np.full_like(array, max(tables) + 7)}):
            continue
        for size in sorted(set(tables), reverse=True):
            if size > 2 and runs({**base, name: np.full_like(array, size - 1)}):
                found[name] = size
                break
    return found


def _large(dtype: np.dtype[Any]) -> Array:
    """Return integers near the ends and the halves of the type's range: their sums and multiples wrap around."""
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return np.array(sorted({least + 1, least // 2 - 1 if least else 1, most // 2 + 1, most - 1, most}), dtype)


def inputs_at(
    specs: Sequence[InputSpec],
    shapes: InputShapes,
    models: Sequence[Model],
    fixed: Feeds,
    bounds: Mapping[str, int],
    seed: int,
    first: Callable[[Iterator[Feeds]], Feeds | None],
) -> Iterator[tuple[str, Feeds]]:
    """Yield kinds of inputs and the inputs at one size; `models` have the values of symbolic sizes there.

    Inputs that are `fixed` keep their values, `bounds` are those of `token_bounds`. `first` returns the first of
    several inputs on which the left model runs.
    """

    def drawn(index: int) -> Iterator[Feeds]:
        return (
            {**feeds, **_tokens(feeds, bounds, seed + index), **fixed}
            for feeds in feed_candidates(specs, shapes, seed, index)
        )

    base = first(drawn(0))
    if base is None:
        return
    yield "random", base
    free = [name for name in base if name not in fixed]
    real = [name for name in free if base[name].dtype.kind == "f" or base[name].dtype == np.dtype(ml_dtypes.bfloat16)]
    whole = [name for name in free if base[name].dtype.kind in "iu" and name not in bounds]
    mixing = np.random.default_rng([seed, zlib.crc32(repr(sorted(shapes.items())).encode())])
    constants = sorted({float(value) for model in models for value in _small_constants(model)})[:_MAX_CONSTANTS]

    def changed(names: Sequence[str], change: Callable[[Array, Any], Any]) -> Feeds:
        found = dict(base)
        for name in names:
            rng = np.random.default_rng([seed, zlib.crc32(name.encode()), len(names)])
            with np.errstate(all="ignore"):
                found[name] = np.asarray(change(base[name], rng)).astype(base[name].dtype)
        return found

    def scaled(scales: Mapping[str, float]) -> Feeds:
        made = {name: base[name].astype(np.float64) * scale for name, scale in scales.items()}
        return {**base, **{name: np.asarray(array, base[name].dtype) for name, array in made.items()}}

    again = first(drawn(1))
    if again is not None and (real or whole or bounds):
        yield "random in [0, 1)", again
    if whole:
        yield "positive integers", changed(whole, lambda x, rng: rng.integers(1, 10, x.shape))
        yield "small integers", changed(whole, lambda x, rng: rng.choice([-7, -3, -2, -1, 1, 2, 5, 9], x.shape))
        yield "zeros", changed(whole, lambda x, rng: np.zeros(x.shape))
        yield "large integers", changed(whole, lambda x, rng: rng.choice(_large(x.dtype), x.shape))
    if real:
        yield "zeros", changed(real, lambda x, rng: np.zeros(x.shape))
        for scale in _SCALES:
            yield f"scaled by {scale:g}", scaled(dict.fromkeys(real, scale))
        for _ in range(_MIXTURES if len(real) > 1 else 0):
            yield "mixed scales", scaled({name: mixing.choice(_MIXED_SCALES) for name in real})
        yield "rising scales", changed(real, lambda x, rng: x.astype(np.float64) * _rising_scales(x.shape))
        yield "halves", changed(real, lambda x, rng: rng.integers(-8, 9, x.shape) / 2)
        if constants:
            yield "at constants", changed(real, lambda x, rng: rng.choice(constants, x.shape))
    for number, model in enumerate(models):
        for kind, candidates in input_sets(model, base, seed, fixed.keys()):
            if not number or kind == "around constants":  # the others depend on the input alone
                found = first(iter(candidates))
                if found is not None:
                    yield kind, found
    if real:
        yield NOT_A_NUMBER, {**with_specials(base, seed), **fixed}


def _rising_scales(shape: Sequence[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return factors that rise along the longest axis of `shape` and are equal along the others."""
    if not shape:
        return np.array(1.0)
    axis = int(np.argmax(shape))
    powers = np.linspace(*_RISING_POWERS, shape[axis])
    factors: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = 10.0**powers
    return factors.reshape([-1 if k == axis else 1 for k in range(len(shape))])


def _tokens(feeds: Feeds, bounds: Mapping[str, int], seed: int) -> Feeds:
    rng = np.random.default_rng(seed)
    return {
        n: rng.integers(0, bound, feeds[n].shape).astype(feeds[n].dtype) for n, bound in bounds.items() if n in feeds
    }


def _small_constants(model: Model) -> Iterator[Any]:
    """Yield the finite numbers in the small constants of a model."""
    for term in topological(model.outputs):
        if (term.op == "Const" or term.op in CLOSED_FORM) and _is_small(term) and can_evaluate(term):
            values = evaluate([term], {}, model.weights)[0]
            if np.asarray(values).dtype.kind in "fiu":
                yield from (value for value in np.unique(values) if np.isfinite(value))


def _is_small(term: Term) -> bool:
    shape = None if term.type is None else term.type.concrete()
    return shape is not None and int(np.prod(shape, dtype=object)) <= _MAX_CONSTANT_ELEMENTS
