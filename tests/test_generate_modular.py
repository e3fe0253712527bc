"""Arithmetic modulo P: the operators agree with `superopt.evaluate` on integers, and fingerprints respect laws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.evaluate import evaluate
from superopt.generate.families import FAMILIES
from superopt.generate.fingerprints import SAMPLES, Evaluator, Hasher
from superopt.generate.modular import KERNELS, P, closed_form, residue
from superopt.ir.ops import OPS, make
from superopt.ir.term import CLOSED_FORM, Term, topological, var
from superopt.ir.text import parse_terms
from superopt.ir.types import TensorType, tensor

# Random-looking functions: they agree with nothing but themselves.
_UNINTERPRETED = {"Sigmoid", "Tanh", "BatchNormalization"}

_CONV = "Conv[dilations=[1, 2], group={group}, pads=[1, 0, 2, 1], strides=[2, 1]]"
_CASES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "MatMul(a, b)": {"a": (2, 3), "b": (3, 4)},
    "MatMul(a, c)": {"a": (5, 1, 2, 3), "c": (4, 3, 2)},
    "MatMul(v, b)": {"v": (3,), "b": (3, 4)},
    "MatMul(b, w)": {"b": (3, 4), "w": (4,)},
    "MatMul(v, v)": {"v": (3,)},
    "Gemm[alpha=3.0, beta=2.0, transA=1, transB=1](a, b, c)": {"a": (3, 2), "b": (4, 3), "c": (4,)},
    "Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](a, b)": {"a": (2, 3), "b": (3, 4)},
    "Add(a, b)": {"a": (2, 3), "b": (2, 1, 3)},
    "Sub(a, b)": {"a": (2, 3), "b": ()},
    "Mul(a, b)": {"a": (2, 1), "b": (3,)},
    "Sum(a, b, a)": {"a": (2, 3), "b": (3,)},
    "Neg(a)": {"a": (2, 3)},
    "Identity(a)": {"a": (2, 3)},
    "Relu(a)": {"a": (2, 3)},
    "Concat[axis=-2](a, b)": {"a": (2, 3), "b": (4, 3)},
    "Split[axis=-1, split=[1, 2, 3]](a).1": {"a": (2, 6)},
    "Slice[axes=[-2, -1], ends=[3, 6], starts=[1, 0], steps=[1, 2]](a)": {"a": (3, 6)},
    "Slice[axes=[-2, -1], ends=[-1, 0], starts=[2, 5], steps=[-1, -2]](a)": {"a": (3, 6)},
    "Transpose[perm=[2, 0, 1]](a)": {"a": (2, 3, 4)},
    "Pad[pads=[1, 0, 2, -1], value=5.0](a)": {"a": (2, 3)},
    "Unsqueeze[axes=[-3, -1]](a)": {"a": (2, 3)},
    "Squeeze[axes=[-2]](a)": {"a": (2, 1, 3)},
    "ReduceSum[axes=[-2], keepdims=1](a)": {"a": (2, 3)},
    "ReduceSum[axes=[-3, -1], keepdims=0](a)": {"a": (2, 3, 4)},
    _CONV.format(group=1) + "(x, w, b)": {"x": (2, 3, 5, 6), "w": (4, 3, 2, 3), "b": (4,)},
    _CONV.format(group=2) + "(x, w)": {"x": (1, 4, 5, 6), "w": (6, 2, 3, 2)},
    "Conv[dilations=[2], group=3, pads=[1, 1], strides=[1]](x, w)": {"x": (2, 3, 7), "w": (3, 1, 3)},
    "MatMul(a, Eye[n=3])": {"a": (2, 3)},
    "Add(a, Ones[shape=[2, 3]])": {"a": (2, 3)},
    "Mul(a, Zeros[shape=[]])": {"a": (2, 3)},
    "Add(a, ConstantOfShape[shape=[2, 3], value=-4.0])": {"a": (2, 3)},
    "Mul(a, Range[delta=-2.0, n=3, start=3.0])": {"a": (2, 3)},
    "Conv[dilations=[1, 1], group=2, pads=[1, 1, 1, 1], strides=[1, 1]](x, Dirac[group=2, shape=[4, 2, 3, 3]])": {
        "x": (1, 4, 3, 3)
    },
}


def _typed(text: str, shapes: Mapping[str, tuple[int, ...]]) -> tuple[Term, ...]:
    return parse_terms(text, {name: tensor(*shape) for name, shape in shapes.items()})


@pytest.mark.parametrize("text", _CASES)
def test_operators_agree_with_evaluate_on_integers(text: str) -> None:
    shapes = _CASES[text]
    terms = _typed(text, shapes)
    rng = np.random.default_rng(0)
    stacked = {name: rng.integers(-9, 10, size=(7, *shape)) for name, shape in shapes.items()}
    values: dict[Term, Any] = {}
    for term in topological(terms):
        if len(term.types) > 1:
            continue  # Split itself: its outputs are computed from its input
        assert term.type is not None
        shape = term.type.concrete()
        assert shape is not None
        if term.op == "Var":
            values[term] = (stacked[str(term.attr("name"))] % P).astype(np.uint64)
        elif not term.inputs:
            values[term] = closed_form(term.op, dict(term.attrs), shape)[None]
        else:
            node = term.inputs[0] if term.op == "Out" else term
            assert node is not None
            operands = [i for i in node.inputs if i is not None]
            sizes = [i.type.concrete() or () for i in operands if i.type is not None]
            attrs = {**dict(node.attrs), **dict(term.attrs)}
            values[term] = KERNELS[node.op]([values[i] for i in operands], sizes, attrs, shape)
    for k in range(7):
        env = {t: stacked[str(t.attr("name"))][k].astype(np.float64) for t in topological(terms) if t.op == "Var"}
        (expected,) = evaluate(terms, env, {})
        assert np.array_equal(np.broadcast_to(values[terms[0]], (7, *expected.shape))[k], expected.astype(np.int64) % P)


def test_every_operator_is_compared_or_uninterpreted() -> None:
    compared = {t.op for text, shapes in _CASES.items() for t in topological(_typed(text, shapes))} - {"Var", "Out"}
    assert set(OPS) >= compared | _UNINTERPRETED == set(KERNELS) | CLOSED_FORM
    assert not compared & _UNINTERPRETED


def test_families_are_made_of_operators_that_are_here() -> None:
    for family in FAMILIES:
        assert {use.op for use in family.uses} <= set(KERNELS), family.name
        assert {op for op, _ in family.constants} <= CLOSED_FORM, family.name


def test_real_attributes_become_residues() -> None:
    assert residue(1.0) == 1
    assert residue(-2.0) == P - 2
    assert residue(1e-5) == residue(1e-5) != residue(1e-6)


_LAWS = [
    ("MatMul(MatMul(a, b), a)", "MatMul(a, MatMul(b, a))"),
    ("MatMul(a, Add(b, c))", "Add(MatMul(a, b), MatMul(a, c))"),
    ("Transpose[perm=[1, 0]](MatMul(a, b))", "MatMul(Transpose[perm=[1, 0]](b), Transpose[perm=[1, 0]](a))"),
    ("Relu(Relu(a))", "Relu(a)"),
    ("Relu(Concat[axis=-1](a, b))", "Concat[axis=-1](Relu(a), Relu(b))"),
    ("Sigmoid(Transpose[perm=[1, 0]](a))", "Transpose[perm=[1, 0]](Sigmoid(a))"),
    ("Sub(Relu(a), Relu(Neg(a)))", "a"),
]
_NO_LAWS = [
    ("MatMul(a, b)", "MatMul(b, a)"),
    ("Sub(a, b)", "Sub(b, a)"),
    ("Relu(Add(a, b))", "Add(Relu(a), Relu(b))"),
    ("Sigmoid(a)", "Tanh(a)"),
    ("Sigmoid(Neg(a))", "Neg(Sigmoid(a))"),
    ("MatMul(a, Mul(b, c))", "Mul(MatMul(a, b), c)"),
    ("Concat[axis=-1](a, b)", "Concat[axis=-1](b, a)"),
]
_SQUARES = dict.fromkeys("abc", (2, 2))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right"), _LAWS)
def test_equal_terms_have_equal_fingerprints(left: str, right: str, seed: int) -> None:
    evaluator = Evaluator(seed)
    assert evaluator.key(_typed(left, _SQUARES)[0]) == evaluator.key(_typed(right, _SQUARES)[0])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right"), _NO_LAWS)
def test_different_terms_have_different_fingerprints(left: str, right: str, seed: int) -> None:
    evaluator = Evaluator(seed)
    assert evaluator.key(_typed(left, _SQUARES)[0]) != evaluator.key(_typed(right, _SQUARES)[0])


def test_batch_normalization_is_affine_in_its_input() -> None:
    norm = "BatchNormalization[epsilon=1e-05]({}, s, o, m, v)"
    shapes = {"x": (1, 2, 2, 2), "y": (1, 2, 2, 2), **dict.fromkeys("somv", (2,))}
    zeros = f"BatchNormalization[epsilon=1e-05](y, s, {'Zeros[shape=[2]]'}, {'Zeros[shape=[2]]'}, v)"
    evaluator = Evaluator(0)
    left = _typed(norm.format("Add(x, y)"), shapes)[0]
    right = _typed(f"Add({norm.format('x')}, {zeros})", shapes)[0]
    assert evaluator.key(left) == evaluator.key(right)
    other = _typed(norm.format("Add(x, y)").replace("1e-05", "1e-03"), shapes)[0]
    assert evaluator.key(left) != evaluator.key(other)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, P - 1), min_size=4, max_size=4), st.integers(0, 3), st.integers(1, P - 1))
def test_one_changed_element_changes_the_key(elements: list[int], place: int, change: int) -> None:
    value = np.array([elements] * SAMPLES, dtype=np.uint64).reshape(1, SAMPLES, 2, 2)
    other = value.copy()
    other.reshape(-1)[place] = (other.reshape(-1)[place] + np.uint64(change)) % np.uint64(P)
    hasher = Hasher(3)
    assert hasher.keys(value, (2, 2))[0] == hasher.keys(value.copy(), (2, 2))[0]
    assert hasher.keys(value, (2, 2))[0] != hasher.keys(other, (2, 2))[0]


def test_keys_of_many_random_values_are_distinct() -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2, size=(200_000, SAMPLES, 5, 5), dtype=np.uint64)  # the hardest case: small differences
    keys = Hasher(0).keys(values, (5, 5))
    assert len(np.unique(keys)) == len(np.unique(values.reshape(len(values), -1), axis=0))


def test_a_variable_depends_on_its_name_shape_and_seed_only() -> None:
    a = make("Neg", (var("a", TensorType("float", (2, 2))),))
    assert Evaluator(0).key(a) == Evaluator(0).key(a)
    assert Evaluator(0).key(a) != Evaluator(1).key(a)
