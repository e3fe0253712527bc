"""Literals that stand for other numbers, and literals that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.check.certificate import Certificate
from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import Model, read_simplified
from tests.support.models import model

node = helper.make_node
THIRD = np.float32(1) / np.float32(3)
FACTOR = np.float32(0.5946035385131836)
ROOT = np.float32(1) / np.sqrt(np.float32(8))  # of 1/8, as a tool computes it


def _graph(*nodes: onnx.NodeProto, **values: Any) -> Model:
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3]) for name in ("x", "z")]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 3])
    return read_simplified(model(nodes, inputs, [output], list(values.items())))


def _times(value: np.float32) -> Model:
    return _graph(node("Mul", ["x", "c"], ["y"]), c=np.array(value))


def _hard_sigmoid(alpha: np.float32) -> Model:
    gate = node("HardSigmoid", ["x"], ["h"], alpha=float(alpha), beta=0.5)
    return _graph(gate, node("Mul", ["x", "h"], ["y"]))


def _scaled_operands(*factor: onnx.NodeProto, **values: Any) -> Model:
    scaled = [node("Mul", ["x", "c"], ["a"]), node("Mul", ["z", "c"], ["b"]), node("MatMul", ["a", "b"], ["y"])]
    return _graph(*factor, *scaled, **values)


def _scaled_product(alpha: np.float32) -> Model:
    return _graph(node("FusedMatMul", ["x", "z"], ["y"], domain="com.microsoft", alpha=float(alpha)))


def _quotient(divisor: np.float32) -> Model:
    return _graph(node("MatMul", ["x", "z"], ["a"]), node("Div", ["a", "c"], ["y"]), c=np.array(divisor))


def _root_of_a_size() -> Model:
    """Both operands times 64^(-1/4), computed in the model from the integer 64."""
    parts = [node("Cast", ["k"], ["f"], to=TensorProto.FLOAT), node("Sqrt", ["f"], ["g"])]
    parts += [node("Div", ["one", "g"], ["h"]), node("Sqrt", ["h"], ["c"])]
    return _scaled_operands(*parts, k=np.array([64]), one=np.ones(1, np.float32))


def _next(value: np.float32) -> np.float32:
    return np.float32(np.nextafter(value, np.float32(2)))


EQUAL = {
    "a fraction": (_times(THIRD), _graph(node("Div", ["x", "c"], ["y"]), c=np.array(3, np.float32))),
    "a fraction in an attribute": (_graph(node("HardSwish", ["x"], ["y"])), _hard_sigmoid(np.float32(1 / 6))),
    "a product": (_scaled_operands(c=np.array([FACTOR])), _scaled_product(FACTOR * FACTOR)),
    "a reciprocal": (_quotient(FACTOR), _scaled_product(1 / FACTOR)),
    "a reciprocal of a root": (_quotient(np.sqrt(np.float32(8))), _scaled_product(ROOT)),
    "a product of roots": (_root_of_a_size(), _scaled_product(ROOT * ROOT)),
}
DIFFERENT = {
    "a fraction": (_times(THIRD), _times(_next(THIRD))),
    "another fraction": (_times(_next(THIRD)), EQUAL["a fraction"][1]),
    "an exact number": (_times(np.float32(0.125)), _times(_next(np.float32(0.125)))),
    "an attribute": (_graph(node("HardSwish", ["x"], ["y"])), _hard_sigmoid(_next(np.float32(1 / 6)))),
    "a product": (_scaled_operands(c=np.array([FACTOR])), _scaled_product(_next(_next(FACTOR * FACTOR)))),
    "a reciprocal": (_quotient(FACTOR), _scaled_product(_next(_next(1 / FACTOR)))),
    "a reciprocal of a root": (_quotient(np.sqrt(np.float32(8))), _scaled_product(_next(_next(ROOT)))),
}


@pytest.mark.parametrize("name", EQUAL)
def test_literals_are_read_as_what_they_stand_for(name: str, tmp_path: Path) -> None:
    left, right = joined(*EQUAL[name])
    found = prove_equal(left, right, seconds=20)
    assert found.outputs == (True,) and found.certificate is not None
    assert 0 < max(match.error for match in found.matches) < 2e-7
    found.certificate.write(tmp_path / "proof.json")
    assert Certificate.read(tmp_path / "proof.json").replay(left, right)


@pytest.mark.parametrize("name", DIFFERENT)
def test_literals_that_stand_for_nothing_else_are_compared_exactly(name: str) -> None:
    found = prove_equal(*joined(*DIFFERENT[name]), seconds=20)
    assert found.outputs == (False,) and found.certificate is None


def test_an_exponent_is_the_number_that_it_is() -> None:
    """The next number after 3 as an exponent gives no number for a negative base."""
    a, b = np.float32(0.3), np.float32(10)
    left = _graph(node("Mul", ["a", "b"], ["c"]), node("Pow", ["x", "c"], ["y"]), a=np.array(a), b=np.array(b))

    def power(exponent: np.float32) -> Model:
        return _graph(node("Pow", ["x", "c"], ["y"]), c=np.array(exponent))

    assert prove_equal(*joined(left, power(a * b)), seconds=2).outputs == (True,)
    assert prove_equal(*joined(left, power(np.nextafter(a * b, np.float32(4)))), seconds=2).outputs == (False,)
    assert prove_equal(*joined(left, power(np.nextafter(a * b, np.float32(0)))), seconds=2).outputs == (False,)
