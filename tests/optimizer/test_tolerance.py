"""The tolerance of a model's outputs counts the roundings on the longest path."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from superopt.optimizer.source import Source
from superopt.optimizer.tolerance import derive_tolerance
from tests.support.models import floats, lora, model


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


@pytest.mark.parametrize("inner", [TensorProto.FLOAT, TensorProto.FLOAT16])
def test_each_result_is_rounded_to_its_own_type(inner: int) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["in"], to=inner),
        helper.make_node("Exp", ["in"], ["power"]),
        helper.make_node("Tanh", ["power"], ["bounded"]),
        helper.make_node("Cast", ["bounded"], ["y"], to=TensorProto.FLOAT),
    ]
    source = Source(model(nodes, [floats("x", 8)], [floats("y", 8)]))
    tolerance = derive_tolerance(source.proto, source.terms)
    single, half = 2.0**-24, 2.0**-11
    coarse = single if inner == TensorProto.FLOAT else half
    assert tolerance.rounded == pytest.approx((3 * coarse**2 + single**2) ** 0.5)
    stored = tolerance.stored(np.dtype(np.float32))
    assert stored == pytest.approx(single * 5**0.5)  # the least error that a float64 reference allows
    expected = max(stored, tolerance.rounded) + single * tolerance.length**0.5
    assert tolerance.expected(np.dtype(np.float32)) == pytest.approx(expected)
