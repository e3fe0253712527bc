"""The index that a reshape reads: against NumPy at random shapes, and symbolic expressions at random sizes."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping

import numpy as np
import pytest

from superopt.ir.dim import Dim, Size, Sizes, evaluate, floor_div, symbol
from superopt.ops.rearrange import reshaped
from tests.support.semantic_cases.rearrange import factored

A, B, C, D, N = (symbol(name) for name in "abcdn")


def _check(x_shape: Sizes, y_shape: Sizes, env: Mapping[str, Size]) -> None:
    """The index, as an expression in the index of y, against the offset that NumPy counts."""
    before, after = (_at(shape, env) for shape in (x_shape, y_shape))
    assert math.prod(before) == math.prod(after), "not a reshape"
    index = tuple(symbol(f"i{d}") for d in range(len(y_shape)))
    expressions = reshaped(x_shape, y_shape, index)
    offsets = np.arange(math.prod(before)).reshape(before)
    for place, offset in np.ndenumerate(offsets.reshape(after)):
        here = {**env, **{f"i{d}": j for d, j in enumerate(place)}}
        assert offsets[tuple(evaluate(e, here) for e in expressions)] == offset, (x_shape, y_shape, env, place)


def _at(shape: Sizes, env: Mapping[str, Size]) -> tuple[int, ...]:
    sizes = [evaluate(size, env) for size in shape]
    assert all(isinstance(size, int) for size in sizes)
    return tuple(size for size in sizes if isinstance(size, int))


@pytest.mark.parametrize("total", [1, 2, 6, 8, 12, 24, 36, 60, 64, 72])
def test_known_sizes(total: int) -> None:
    rng = random.Random(total)
    for _ in range(40):
        _check(factored(rng, total), factored(rng, total), {})


@pytest.mark.parametrize(
    ("x", "y"),
    [((2, 6), (3, 4)), ((4, 9), (6, 6)), ((5, 2, 6, 7), (5, 3, 4, 7)), ((6, 10, 15), (15, 10, 6)), ((6, 35), (10, 21)),
     ((2, 3, 4), (4, 3, 2)), ((), (1, 1)), ((1,), ()), ((12,), (2, 1, 3, 2)), ((2, 0, 3), (0, 5))],
)  # fmt: skip
def test_sizes_that_do_not_divide_each_other(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    _check(x, y, {})


SYMBOLIC: list[tuple[Sizes, Sizes]] = [
    ((A, B), (A * B,)),
    ((A * B,), (A, B)),
    ((A, B, C), (A * B * C,)),
    ((A * B, C), (A, B * C)),
    ((A, B * C), (A * B, C)),
    ((A, 4 * B, C), (A, 4, B * C)),
    ((A, B, 4, C), (A, 2, 2 * B, C)),
    ((A, B, 6), (A * B, 2, 3)),
    ((A, 1, B), (A, B, 1, 1)),
    ((A, 2, 6, B), (A, 3, 4, B)),
    ((2 * A, 6), (3 * A, 4)),
    ((A, B), (B, A)),
    ((A, B + C, D), (A * D * (B + C),)),
    ((A + 1, B), (B * (A + 1),)),
    ((A * B * C * D,), (A, B, C, D)),
    ((A, B, C, D), (A, C, B, D)),
    ((12 * A,), (3, A, 4)),
]


@pytest.mark.parametrize(("x", "y"), SYMBOLIC)
def test_symbolic_sizes(x: Sizes, y: Sizes) -> None:
    rng = random.Random(f"{x} {y}")
    for _ in range(8):
        env = {name: rng.randint(1, 4) for name in "abcdn"}
        _check(x, y, env)
        _check(y, x, env)


def test_random_symbolic_sizes() -> None:
    """Any way to multiply neighbours of one list of factors together."""
    rng = random.Random(0)
    factors: list[Size] = [A, B, C, 2, 3, 4, 1, A, B + 1]
    for _ in range(60):
        chosen = rng.sample(factors, rng.randint(1, 5))
        x, y = _merged(rng, chosen), _merged(rng, chosen)
        for _ in range(2):
            _check(x, y, {name: rng.randint(1, 3) for name in "abc"})


def _merged(rng: random.Random, factors: list[Size]) -> Sizes:
    """Neighbours multiplied together here and there."""
    shape: list[Size] = [factors[0]]
    for factor in factors[1:]:
        if rng.random() < 0.5:
            shape[-1] = shape[-1] * factor
        else:
            shape.append(factor)
    return tuple(shape)


@pytest.mark.parametrize("swapped", [False, True])
def test_sizes_that_are_quotients(swapped: bool) -> None:
    """(n, c, d) to (n, g, c // g, d): that g divides c is known to typing, and no polynomial says so."""
    part = floor_div(C, 3)
    pair: list[Sizes] = [(N, C, D), (N, 3, part, D)]
    x, y = reversed(pair) if swapped else pair
    for n, c, d in itertools.product((1, 2), (3, 6), (1, 2)):
        _check(x, y, {"n": n, "c": c, "d": d})
    (first, *_, last) = reshaped(x, y, tuple(symbol(f"i{k}") for k in range(len(y))))
    assert (first, last) == (symbol("i0"), symbol(f"i{len(y) - 1}"))  # what is not reshaped stays out of it


def test_indices_are_in_terms_of_digits() -> None:
    """No offset is written down where the shapes have common digits."""
    i, j, k = (symbol(name) for name in "ijk")
    assert reshaped((A * B, C), (A, B, C), (i, j, k)) == (i * B + j, k)
    assert reshaped((A, B, C), (A * B, C), (i, k)) == (floor_div(i, B), i - B * floor_div(i, B), k)
    assert reshaped((A, B, C), (A, B * C), (i, j)) == (i, floor_div(j, C), j - C * floor_div(j, C))
    assert reshaped((A, 1, B), (A, B), (i, j)) == (i, 0, j)


def test_a_reshape_and_back_is_the_identity() -> None:
    """For all indices, by construction of the expressions."""
    i, j = symbol("i"), symbol("j")
    merged = reshaped((A * B,), (A, B), (i, j))
    back = reshaped((A, B), (A * B,), merged)
    for a, b in itertools.product((1, 2, 3), repeat=2):
        for place in itertools.product(range(a), range(b)):
            env: dict[str, Size] = {"a": a, "b": b, "i": place[0], "j": place[1]}
            assert tuple(evaluate(e, env) for e in back) == place
    assert all(isinstance(e, Dim) for e in back)
