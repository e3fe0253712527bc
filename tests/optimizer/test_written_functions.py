"""Functions that exporters write out are found by the shipped rules, and by their own numbers only."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from onnx import helper

from superopt.optimizer import Result, optimize
from tests.support.models import floats, model

OUTER, CUBIC = (np.float32(number) for number in (math.sqrt(2 / math.pi), 0.044715))


def gelu(outer: np.float32, cubic: np.float32, opset: int, *, cube_by_pow: bool = True) -> onnx.ModelProto:
    """Return x/2 * (1 + tanh(outer * (x + cubic * x^3))), as GPT-2 has it."""
    cube = [("Pow", "x three", "c")] if cube_by_pow else [("Mul", "x x", "q"), ("Mul", "q x", "c")]
    parts = [
        *cube, ("Mul", "c cubic", "d"), ("Add", "x d", "e"), ("Mul", "e outer", "f"), ("Tanh", "f", "t"),
        ("Add", "t one", "g"), ("Mul", "x half", "h"), ("Mul", "h g", "y"),
    ]  # fmt: skip
    nodes = [helper.make_node(op, inputs.split(), [output]) for op, inputs, output in parts]
    numbers = {"three": 3.0, "cubic": cubic, "outer": outer, "one": 1.0, "half": 0.5}
    constants = [(name, np.array(value, np.float32)) for name, value in numbers.items()]
    return model(nodes, [floats("x", 2, 8, 64)], [floats("y", 2, 8, 64)], constants, opset=opset)


def optimized(source: onnx.ModelProto) -> Result:
    return optimize(source, ep="cpu", cost="analytic", device="cuda_h200", target_absent=True, budget=30.0)


@pytest.mark.parametrize(
    ("opset", "cube_by_pow", "function"), [(17, True, "com.microsoft::FastGelu"), (20, False, "Gelu")]
)
def test_gelu_by_tanh(opset: int, cube_by_pow: bool, function: str) -> None:
    result = optimized(gelu(OUTER, CUBIC, opset, cube_by_pow=cube_by_pow))
    assert result.operators_after == {function: 1}


@pytest.mark.parametrize("place", [0, 1])
def test_a_number_beside_that_of_gelu(place: int) -> None:
    numbers = [OUTER, CUBIC]
    numbers[place] = np.nextafter(numbers[place], np.float32(1))
    assert "Tanh" in optimized(gelu(*numbers, 17)).operators_after
