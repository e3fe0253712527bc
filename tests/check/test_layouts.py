"""Constants expressed by constants in another layout: the term that is found has the value that was wanted."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.check.layouts import Layouts
from superopt.evaluate import evaluate
from superopt.ir.term import Term
from superopt.ir.types import TensorType

RANDOM = np.random.default_rng(0)


def constant(name: str, array: np.ndarray) -> Term:
    return Term.of("Const", (), {"hash": name}, (TensorType("float", array.shape),))


@pytest.mark.parametrize(
    ("parts", "axis"),
    [([(0, 1, 2)], None), ([(2, 0, 1)], None), ([(0, 1), (1, 0)], 0), ([(1, 0), (0, 1), (1, 0)], 1)],
)
def test_the_expression_has_the_value(parts: list[tuple[int, ...]], axis: int | None) -> None:
    arrays = {f"w{k}": RANDOM.standard_normal((4, 4, 2)[: len(perm)]).astype(np.float32)
              for k, perm in enumerate(parts)}  # fmt: skip
    moved = [arrays[f"w{k}"].transpose(perm) for k, perm in enumerate(parts)]
    whole = np.ascontiguousarray(moved[0] if axis is None else np.concatenate(moved, axis))
    whole = whole[None] if parts == [(0, 1, 2)] else whole  # the constant itself is no expression of it
    weights = {**arrays, "whole": whole}
    layouts = Layouts([constant(name, array) for name, array in arrays.items()], weights)
    wanted = constant("whole", whole)
    found = list(layouts.expressions(wanted))
    assert found
    for term in found:
        np.testing.assert_array_equal(evaluate([term], {}, weights)[0], whole)


def test_the_same_numbers_in_another_order_are_no_layout() -> None:
    array = RANDOM.standard_normal((3, 4)).astype(np.float32)
    weights = {"w": array, "other": array[::-1].copy()}
    layouts = Layouts([constant("w", array)], weights)
    assert not list(layouts.expressions(constant("other", weights["other"])))
