"""Equations of graphs that are compared at real numbers and truth values, and constants that derivations fold."""

from __future__ import annotations

import pytest

from superopt.generate.conjectures.reals import enumerate_reals
from superopt.generate.derive import normal
from superopt.generate.grammar import Family, Use, binary, inputs, unary
from superopt.ir.notation import parse_terms, show_terms
from superopt.ir.term import Term
from superopt.ir.types import tensor

_TRUTH, _REAL = inputs("c d", (4, 6), dtype="bool"), inputs("x y", (4, 6))


def found(variables: tuple[object, ...], uses: tuple[Use, ...], runtime: int = 2) -> set[str]:
    family = Family("test", variables, uses, runtime, reals=True)  # type: ignore[arg-type]
    equations, _ = enumerate_reals(family, 0, runtime)
    return {f"{show_terms(e.lhs)} = {show_terms(e.rhs)}" for e in equations}


def test_truth_values() -> None:
    equations = found(_TRUTH, (*unary("Not"), *binary("And Or")))
    assert {"And(c, c) = c", "Not(Not(c)) = c"} <= equations
    assert not any(equation.startswith("And(c, d) = ") for equation in equations)


def test_signs_of_products_and_undefined_values() -> None:
    equations = found(_REAL[:1], (*unary("Abs Sqrt Exp Log Relu"), *binary("Mul")))
    assert {"Sqrt(Mul(x, x)) = Abs(x)", "Exp(Log(x)) = x", "Mul(Abs(x), Abs(x)) = Mul(x, x)"} - equations <= {
        "Mul(Abs(x), Abs(x)) = Mul(x, x)"  # three operators
    }
    assert not {"Abs(x) = x", "Relu(x) = x"} & equations


def test_a_constant_is_an_operand_of_a_commutative_operator_in_its_slot() -> None:
    constants = tuple(("ConstantOfShape", {"shape": (), "value": float(k)}) for k in range(2, 8))
    uses = binary("Mul", slots=("x", "ConstantOfShape"))
    family = Family("test", _REAL[:1], uses, 1, constants=constants, reals=True)
    _, levels = enumerate_reals(family, 0, 1)
    assert levels[0].graphs == len(constants)


def test_each_law_is_found_once_whatever_the_order_of_its_variables() -> None:
    family = Family("test", inputs("x y z", (4, 6)), binary("Add Max"), 3, reals=True)
    equations, _ = enumerate_reals(family, 0, 3)
    assert sum(distributes(e.lhs[0]) for e in equations) == 1


def distributes(term: Term) -> bool:
    """Return True for Max(Add(a, b), Add(a, c)), with any three variables."""
    operands = [i for i in term.inputs if i is not None]
    return (
        term.op == "Max"
        and [i.op for i in operands] == ["Add", "Add"]
        and len({v for i in operands for v in i.inputs}) == 3
        and all(v is not None and v.op == "Var" for i in operands for v in i.inputs)
    )


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ("Mul(ConstantOfShape[shape=[], value=2.0], ConstantOfShape[shape=[], value=0.5])", "Ones[shape=[]]"),
        ("Div(Ones[shape=[]], ConstantOfShape[shape=[], value=4.0])", "ConstantOfShape[shape=[], value=0.25]"),
        ("Div(Ones[shape=[]], ConstantOfShape[shape=[], value=3.0])", None),  # no exact value
        ("Div(Ones[shape=[]], Zeros[shape=[]])", None),
        ("Unsqueeze[axes=[0]](ConstantOfShape[shape=[], value=2.0])", "ConstantOfShape[shape=[1], value=2.0]"),
        (
            "ReduceSum[axes=[-1], keepdims=1](ConstantOfShape[shape=[2, 6], value=0.5])",
            "ConstantOfShape[shape=[2, 1], value=3.0]",
        ),
        ("ReduceMean[axes=[-2, -1], keepdims=0](Ones[shape=[4, 6]])", "Ones[shape=[]]"),
        ("ReduceProd[axes=[-1], keepdims=0](ConstantOfShape[shape=[9], value=2.0])", None),  # computed up to 2^8 only
        ("ReduceSum[axes=[1, 0], keepdims=0](x)", "ReduceSum[axes=[-2, -1], keepdims=0](x)"),
        (
            "Slice[axes=[1], ends=[6], starts=[4], steps=[1]](x)",
            "Slice[axes=[-1], ends=[6], starts=[4], steps=[1]](x)",
        ),
    ],
)
def test_normal_form(term: str, expected: str | None) -> None:
    terms = parse_terms(term, {"x": tensor(4, 6)})
    assert show_terms(normal(terms)) == (term if expected is None else expected)
