"""The tolerance of a model's outputs counts the roundings on the longest path."""

from __future__ import annotations

from superopt.optimizer.tolerance import derive_tolerance
from tests.support.models import lora


def test_derived_depth_and_length() -> None:
    tolerance = derive_tolerance(lora(size=64, rank=16))
    assert tolerance.depth == 5  # two MatMuls, Add, Relu, and the output
    assert 64 + 64 <= tolerance.length <= 64 + 64 + 3
