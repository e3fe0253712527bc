"""Indices of a grid: their arithmetic, and operands that are read at them as views."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from superopt.evaluate.indices import GridVariable, Index, OutOfBounds, index_of, read
from superopt.ir.dim import floor_div


def _grid(*sizes: int) -> list[Any]:
    return [index_of(GridVariable(len(sizes) - d, size)) for d, size in enumerate(sizes)]


def test_arithmetic_is_that_of_the_numbers() -> None:
    i, j = _grid(4, 5)
    for expression in (
        lambda i, j: 3 * i - j + 2,
        lambda i, j: floor_div(6 * i + 3 * j + 1, 3),
        lambda i, j: floor_div(i * 5 + j, 3),
        lambda i, j: i * 5 + j - 4 * floor_div(i * 5 + j, 4),
        lambda i, j: 7 - floor_div(i, 2) * 2,
    ):
        index = expression(i, j)
        expected = np.array([[expression(a, b) for b in range(5)] for a in range(4)])
        assert np.array_equal(np.broadcast_to(index.numbers(), (4, 5)), expected)
        low, high = index.bounds()
        assert low <= expected.min() and expected.max() <= high


def test_what_cancels_is_a_number_and_digits_add_up() -> None:
    (i,) = _grid(12)
    assert i - i == 0 and not isinstance(i - i, Index)
    assert floor_div(i, 12) == 0
    row = floor_div(i, 4)
    whole = row * 4 + (i - row * 4)
    assert isinstance(whole, Index) and list(whole.terms.values()) == [1]


@pytest.mark.parametrize("stacked", [0, 2])
def test_affine_reads_copy_nothing(stacked: int) -> None:
    x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)[:, :, ::-1]
    if stacked == 0:
        x = x[1, 2]
    i, j = _grid(2, 4)
    found = read(x, (4, 5), (1 + 2 * i, 4 - j), 2, stacked, False)
    assert np.array_equal(found, x[..., 1::2, :0:-1]) and np.shares_memory(found, x)


@pytest.mark.parametrize(
    "name", ["bfloat16", "int4", "float8_e8m0fnu", "float8_e4m3fn", "float8_e5m2", "float8_e5m2fnuz"]
)
def test_types_that_numpy_does_not_know_are_read_as_views(name: str) -> None:
    x = np.array([[1, 2, 4], [1, 1, 2]], getattr(ml_dtypes, name))
    i, j = _grid(3, 2)
    found = read(x, (2, 3), (j, i), 2, 0, False)
    assert found.dtype == x.dtype and np.shares_memory(found, x)
    assert np.array_equal(found.astype(np.float32), x.astype(np.float32).T)


def test_other_reads_gather() -> None:
    x = np.arange(20).reshape(4, 5)
    i, j = _grid(8, 5)
    assert np.array_equal(read(x, (4, 5), (floor_div(i, 2), j), 2, 0, False), np.repeat(x, 2, axis=0))


def test_nothing_is_read_out_of_bounds() -> None:
    x = np.arange(20).reshape(4, 5)
    i, j = _grid(4, 5)
    with pytest.raises(OutOfBounds):
        read(x, (4, 5), (i + 1, j), 2, 0, False)
    masked = read(x, (4, 5), (i + 1, j), 2, 0, True)  # of which the last row is not used
    assert np.array_equal(masked[:3], x[1:])
    assert set(masked[3].tolist()) <= set(x.reshape(-1).tolist())


def test_bound_variables_are_axes_in_front() -> None:
    x = np.arange(2 * 6).reshape(2, 6)  # one stacked axis
    (i,) = _grid(4)
    k = index_of(GridVariable(3, 3))
    windows = read(x, (6,), (i + k,), 1, 1, False)
    assert windows.shape == (3, 2, 4)
    for at, stack, place in itertools.product(range(3), range(2), range(4)):
        assert windows[at, stack, place] == x[stack, place + at]
