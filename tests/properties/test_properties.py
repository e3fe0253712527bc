"""Properties that are read off the definitions, against what is known of the operators."""

from __future__ import annotations

from typing import Any

import pytest

from superopt.ir.operator import OPERATORS
from superopt.ops.definition import at_rank
from superopt.properties import (
    adds_up,
    changes_shape_only,
    contracts,
    expression,
    is_matrix_product,
    is_polynomial,
    is_scaling,
    joins,
    jumps,
    linear_operands,
    moves,
    rearranges,
    reduces,
    rounds_at_most_once,
    uses_function,
)
from superopt.properties.examples import example
from superopt.properties.recorder import Expression

CONSTANTS = {"Constant", "ConstantOfShape", "Dirac", "Eye", "Ones", "Zeros"}
PLACES = {
    "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "Lookup", "PadCopy", "Reshape", "Resize",
    "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip
COMPARISONS = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}
MEANS = {"AveragePool", "CumSum", "GlobalAveragePool", "ReduceMean", "ReduceSum", "ResizeLinear"}
PRODUCTS = {"Conv", "ConvTranspose", "Einsum", "FusedMatMul", "Gemm", "MatMul"}


def having(property: Any) -> set[str]:
    return {op for op in OPERATORS if property(op)}


def test_data_movement() -> None:
    assert having(rearranges) == PLACES
    assert having(joins) == {"Concat"}
    assert having(moves) == PLACES | CONSTANTS | {"Pad", "Trilu", "Where"}
    assert having(changes_shape_only) == {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"}


def test_sums() -> None:
    """Hand-kept lists of these left out pooling and CumSum."""
    assert having(adds_up) == MEANS | PRODUCTS
    assert having(contracts) == PRODUCTS | {
        "Attention",
        "ConvInteger",
        "FusedConv",
        "FusedGemm",
        "GRU",
        "LSTM",
        "MatMulInteger",
        "MultiHeadAttention",
    }
    assert having(is_matrix_product) == {"Einsum", "FusedMatMul", "Gemm", "MatMul"}
    assert having(reduces) >= having(contracts) | having(adds_up) | {"Softmax", "MaxPool", "ReduceProd"}


def test_every_operator_has_an_example() -> None:
    """Else a name in `superopt.properties.examples` lacks a value, and the operator counts as one of no properties."""
    assert all(example(op) for op in OPERATORS) and example("Unheard") is None


def test_linearity() -> None:
    expected = {
        "Add": {0, 1}, "Div": {0}, "Mul": {0, 1}, "Expand": {0}, "Pad": {0}, "Where": {1, 2}, "Conv": {0, 1, 2},
        "LayerNormalization": {1, 2}, "BatchNormalization": {0, 1, 2, 3}, "MultiHeadAttention": {2}, "Relu": set(),
        "Softmax": set(), "ReduceSumSquare": set(), "FusedGemm": set(), "Unheard": set(),
    }  # fmt: skip
    assert {op: set(linear_operands(op)) for op in expected} == expected
    assert having(is_scaling) == {"And", "DequantizeLinear", "Div", "Mul"}  # And is a product of truth values


def test_rounding() -> None:
    discontinuous = {
        "ArgMax",
        "ArgMin",
        "Ceil",
        "Floor",
        "LpNormalization",
        "Mod",
        "OneHot",
        "Pow",
        "QuantizeLinear",
        "Round",
        "Sign",
        "ThresholdedRelu",
    }
    assert having(jumps) == discontinuous | COMPARISONS
    ieee = {op for op, operator in OPERATORS.items() if operator.ieee}
    exact = {"Cast", "Ceil", "Floor", "Round", "ThresholdedRelu", "Trilu", "Pad"} | PLACES | CONSTANTS | COMPARISONS
    assert having(rounds_at_most_once) == ieee | exact
    assert having(lambda op: uses_function(op, "exp")) == {"Exp"}
    assert having(lambda op: uses_function(op, "power")) == {"Pow"}
    assert {"Add", "Mul", "Neg", "ReduceProd", "Concat"} < having(is_polynomial)
    assert having(is_polynomial).isdisjoint({"Div", "Max", "ReduceMean", "Where", "Equal"})


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_what_entries_say_of_themselves(op: str) -> None:
    """Elementwise operators read their operands at the output's index; commutative ones are symmetric."""
    at = example(op)
    root = expression(op)
    assert at is not None and root is not None
    accesses = [node.detail for node in parts_of(root) if node.head == "access"]
    if OPERATORS[op].elementwise:
        assert all(index == at_rank(at.shapes[int(k)], at.index) for k, index in accesses)
    symmetric = len(at.shapes) > 1 and shown(root, {}) == shown(root, {"0": "1", "1": "0"})
    if op == "Equal":
        assert not symmetric  # a - b = 0 says what b - a = 0 says
    elif not op.startswith(("BiasGelu", "FastGelu", "Skip")):  # whose second operand may have fewer axes
        assert OPERATORS[op].commutative == symmetric


def parts_of(root: Expression) -> list[Expression]:
    found = {id(root): root}
    for arg in root.args:
        found.update((id(node), node) for node in parts_of(arg))
    return list(found.values())


def shown(node: Expression, names: dict[str, str]) -> str:
    """The expression, with operands renamed, and with summands, factors and the like in alphabetical order."""
    args = [shown(arg, names) for arg in node.args]
    detail: Any = node.detail
    if node.head == "access":
        detail = names.get(detail[0], detail[0]), detail[1]
    if node.head in ("add", "multiply", "maximum"):
        args.sort()
    return f"{node.head}({', '.join(args)} {detail})"
