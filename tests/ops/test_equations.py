"""Composite operators: their equations are well-formed, and unfold into primitive operators."""

from __future__ import annotations

import random

import onnx
import pytest

from superopt.ir.infer import make
from superopt.ir.notation import NotationError, parse_terms, show_term
from superopt.ir.operator import OPERATORS
from superopt.ir.term import AttrVar, Term, node_of, topological, var
from superopt.ir.types import TensorType, tensor
from superopt.ops.definition import NoSemantics
from superopt.ops.equation import equations_of, unfold
from tests.support.function_bodies import has_body
from tests.support.semantic_cases import CASES
from tests.support.semantic_cases.terms import example, outputs_of
from verify.prove.floating import rounds_exactly

COMPOSITE = sorted(name for name, operator in OPERATORS.items() if operator.equations)
composite = pytest.mark.parametrize("op", COMPOSITE)


def unfolded(term: Term) -> Term:
    """The primitive operators that a term means."""
    while OPERATORS[node_of(term).op].equations:
        term = unfold(term)
    return term


def test_an_operator_has_a_meaning_or_equations() -> None:
    assert all((operator.meaning is None) == bool(operator.equations) for operator in OPERATORS.values())


@composite
def test_equations_name_their_operands_and_attributes(op: str) -> None:
    operator = OPERATORS[op]
    least, most = operator.inputs
    assert most is not None
    for equation in equations_of(op):
        names = [name for name in equation.operands if name is not None]
        assert least <= len(names) <= len(equation.operands) == most
        assert len(set(names)) == len(names)
        assert not set(names) & set(operator.attrs)
        used = {str(term.attr("name")) for term in topological(equation.right) if term.op == "Var"}
        assert used == set(names)
        assert len(equation.right) == operator.outputs(operator.defaults)


@composite
def test_unfolding_has_the_type_of_the_operator(op: str) -> None:
    for seed in range(15):
        for term in outputs_of(op, example(op, random.Random(f"{op} {seed}"))):
            assert unfold(term).types == term.types
            inputs = {x for x in node_of(term).inputs if x is not None}
            for below in topological([unfolded(term)]):
                assert below in inputs or below.op == "Out" or below.op in OPERATORS


@composite
def test_no_composite_operator_is_determined_by_ieee_754(op: str) -> None:
    """A runtime may evaluate it in another way than by its equation."""
    term = outputs_of(op, example(op, random.Random(0)))[0]
    assert not rounds_exactly([term])


@composite
def test_function_bodies_are_compared(op: str) -> None:
    """`test_semantics` meets an opset with the function body of each operator that has one."""
    if not OPERATORS[op].domain and has_body(op, onnx.defs.onnx_opset_version()):
        assert any(has_body(op, CASES[op](random.Random(f"{op} {seed}")).opset) for seed in range(15))


def test_absent_operands() -> None:
    x, skip = (var(name, tensor(2, 3, 4)) for name in ("x", "skip"))
    gamma, bias = var("gamma", tensor(4)), var("bias", tensor(4))
    attrs = {"epsilon": 0.5}
    short = unfold(make("SkipLayerNormalization", (x, skip, gamma), attrs).out(0))
    assert show_term(short) == "LayerNormalization[axis=-1, epsilon=0.5](Add(x, skip), gamma, _)"
    full = unfold(make("SkipLayerNormalization", (x, skip, gamma, None, bias), attrs).out(0))
    assert show_term(full) == "LayerNormalization[axis=-1, epsilon=0.5](Sum(x, skip, bias), gamma, _)"
    assert show_term(unfold(short)).startswith("RMSNormalization[")


def test_an_operator_of_several_outputs_is_unfolded_output_by_output() -> None:
    x, skip = (var(name, tensor(2, 3, 4)) for name in ("x", "skip"))
    node = make("SkipLayerNormalization", (x, skip, var("gamma", tensor(4))), {"epsilon": 0.5})
    assert unfold(node.out(1)) is make("Add", (x, skip))
    for one in (node, node.out(2)):
        with pytest.raises(NoSemantics, match="one output of several"):
            unfold(one)


def test_axes_count_from_either_end() -> None:
    x, scale = var("x", tensor(2, 3, 4)), var("scale", tensor(4))
    front, back = (make("RMSNormalization", (x, scale), {"axis": axis, "epsilon": 0.5}) for axis in (1, -2))
    assert unfold(front) is unfold(back)
    assert "ReduceMean[axes=[-2, -1], keepdims=1]" in show_term(unfold(back))


def test_numbers_are_exact_and_have_the_element_type() -> None:
    product = unfold(make("HardSwish", (var("x", tensor(2, dtype="float16")),)))
    assert show_term(product) == "Mul(x, HardSigmoid[alpha=1/6, beta=0.5](x))"
    operands = [var(name, tensor(4, dtype="float16")) for name in ("x", "scale")]
    small = make("RMSNormalization", operands, {"axis": -1, "epsilon": 1e-12})  # which is 0 as a float16 number
    constants = [t for t in topological([unfold(small)]) if t.op == "ConstantOfShape"]
    assert constants and all(t.type == TensorType("float16", ()) for t in constants)


def test_a_symbolic_attribute_selects_no_equation() -> None:
    a, b = (var(name, tensor(4, 4)) for name in "ab")
    term = Term.of("FusedMatMul", (a, b), {"alpha": 1.0, "transA": AttrVar("t"), "transB": 0}, (tensor(4, 4),))
    with pytest.raises(NoSemantics):
        unfold(term)


def test_rules_have_no_numbers_as_operands() -> None:
    for text in ("Mul(x, 2)", "Mul(x, 1/6)", "Reshape[shape=[range(0, 2)]](x)"):
        with pytest.raises(NotationError):
            parse_terms(text)
