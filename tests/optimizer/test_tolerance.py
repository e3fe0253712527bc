"""The tolerance of a model's outputs counts the roundings on the longest path."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.optimizer.tolerance import derive_tolerance
from tests.support.models import lora


def test_derived_depth_and_length() -> None:
    tolerance = derive_tolerance(lora(size=64, rank=16))
    assert tolerance.depth == 5  # two MatMuls, Add, Relu, and the output
    assert 64 + 64 <= tolerance.length <= 64 + 64 + 3


def test_products_in_tf32_are_allowed_a_rounding_of_their_operands() -> None:
    tolerance = derive_tolerance(lora(size=64, rank=16))
    assert tolerance.products == 2
    exact, rounded = (one.stored(np.dtype(np.float32)) for one in (tolerance, tolerance.in_tf32))
    assert rounded - exact == pytest.approx(2**-11 * 2**0.5)
    assert tolerance.in_tf32.largest(np.dtype(np.float32)) == pytest.approx(2**-5.5)  # half of the digits
