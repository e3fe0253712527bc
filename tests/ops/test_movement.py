"""Data movement, as the kernel reads it from the definitions."""

from __future__ import annotations

import random

import pytest

from superopt.ir.dim import Sizes
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.ops.definition import Operand
from superopt.ops.movement import only_moves, wraps
from tests.support.semantic_cases.terms import example, outputs_of
from verify.prove.floating import rounds_exactly

MOVING = {
    "Concat", "Constant", "ConstantOfShape", "DepthToSpace", "Dirac", "Expand", "Eye", "Flatten", "Gather", "Identity",
    "Lookup", "Ones", "Pad", "PadCopy", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile",
    "Transpose", "Trilu", "Unsqueeze", "Zeros",
}  # fmt: skip
CHOOSING = {"Cast", "Clip", "Max", "MaxPool", "Min", "OneHot", "ReduceMax", "ReduceMin", "Relu", "Where"}
IEEE = {"Abs", "Add", "DequantizeLinear", "Div", "Mul", "Neg", "QuantizeLinear", "Relu", "Sqrt", "Sub", "Where"}
COMPARISONS = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}


def node(op: str, seed: int) -> Term:
    (first, *_) = outputs_of(op, example(op, random.Random(seed)))
    source = first.inputs[0] if first.op == "Out" else first
    assert source is not None
    return source


def _type(term: Term) -> tuple[Sizes, str]:
    type = term.types[0]
    assert type is not None and type.shape is not None
    return type.shape, type.dtype


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_movement_and_ieee_operations_have_one_result(op: str) -> None:
    exact = [rounds_exactly([node(op, seed)]) for seed in range(8)]
    if op in MOVING | IEEE:
        assert all(exact)
    elif op not in {"Cast", "Einsum", "Max", "Min", "Sum", "ReduceProd", "ReduceSum"}:  # of one operand they may move
        assert not any(exact)


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_integers_that_are_chosen_stay_in_their_range(op: str) -> None:
    found = set()
    for seed in range(8):
        term = node(op, seed)
        operands = [None if i is None else Operand(*_type(i), lambda *index: None) for i in term.inputs]
        found.add(wraps(OPERATORS[op], operands, {"index": 0, **dict(term.attrs)}, _type(term)[0]))
    if op in MOVING | CHOOSING | {"ArgMax", "ArgMin", "Mod", "QuantizeLinear", "Sign"}:
        assert found == {False}
    elif op not in COMPARISONS | {"Einsum", "Sum", "ReduceSum", "ReduceProd", "ThresholdedRelu"}:
        assert found == {True}, op


def test_a_conversion_is_no_movement() -> None:
    """float16(x) + float16(y) rounds otherwise than the sum of what they become in float32."""
    x, y = var("x", tensor(3, dtype="float16")), var("y", tensor(3, dtype="float16"))
    assert only_moves(make("Cast", (x,), {"to": "float16"}))
    wide = [make("Cast", (value,), {"to": "float"}) for value in (x, y)]
    assert not only_moves(wide[0]) and not rounds_exactly([make("Add", wide)])
    assert rounds_exactly([make("Add", (x, y))])


def test_zeros_of_two_signs() -> None:
    x = var("x", tensor(3))
    relu, absolute = make("Relu", (x,)), make("Abs", (x,))
    assert rounds_exactly([relu, make("Neg", (x,))]) and not rounds_exactly([relu, absolute])
    assert not rounds_exactly([make("Max", (x, x))])
