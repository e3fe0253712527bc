"""Comparison of arrays: real numbers up to a tolerance, others exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["assert_close"]


def assert_close(got: Sequence[Any], expected: Sequence[np.ndarray], tolerance: float = 2e-5) -> None:
    """Check that both lists have the same shapes, equal integers, and real numbers within `tolerance`."""
    assert len(got) == len(expected)
    for one, other in zip(map(np.asarray, got), expected, strict=True):
        assert one.shape == other.shape
        if other.dtype.kind == "f":
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(one, other)
