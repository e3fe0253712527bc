"""Fingerprints: equal terms have equal ones, different terms do not; they depend on names, shapes and seeds only."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.evaluate.residues import P
from superopt.generate.enumeration.fingerprints import SAMPLES, Evaluator, Hasher
from superopt.ir.infer import make
from superopt.ir.term import var
from superopt.ir.types import TensorType
from tests.support.modular_cases import Shapes, typed
from tests.support.modular_laws import NO_LAWS

_SQUARES = dict.fromkeys("abc", (2, 2))
_LAWS = [
    ("MatMul(MatMul(a, b), a)", "MatMul(a, MatMul(b, a))"),
    ("MatMul(a, Add(b, c))", "Add(MatMul(a, b), MatMul(a, c))"),
    ("Transpose[perm=[1, 0]](MatMul(a, b))", "MatMul(Transpose[perm=[1, 0]](b), Transpose[perm=[1, 0]](a))"),
    ("Relu(Relu(a))", "Relu(a)"),
    ("Relu(Concat[axis=-1](a, b))", "Concat[axis=-1](Relu(a), Relu(b))"),
    ("Sigmoid(Transpose[perm=[1, 0]](a))", "Transpose[perm=[1, 0]](Sigmoid(a))"),
    ("Sub(Relu(a), Relu(Neg(a)))", "a"),
]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right"), _LAWS)
def test_equal_terms_have_equal_fingerprints(left: str, right: str, seed: int) -> None:
    evaluator = Evaluator(seed)
    assert evaluator.key(typed(left, _SQUARES)[0]) == evaluator.key(typed(right, _SQUARES)[0])


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right", "shapes"), NO_LAWS)
def test_different_terms_have_different_fingerprints(left: str, right: str, shapes: Shapes, seed: int) -> None:
    evaluator = Evaluator(seed)
    assert evaluator.key(typed(left, shapes)[0]) != evaluator.key(typed(right, shapes)[0])


def test_batch_normalization_is_affine_in_its_input() -> None:
    norm = "BatchNormalization[epsilon=1e-05]({}, s, o, m, v)"
    shapes = {"x": (1, 2, 2, 2), "y": (1, 2, 2, 2), **dict.fromkeys("somv", (2,))}
    zeros = f"BatchNormalization[epsilon=1e-05](y, s, {'Zeros[shape=[2]]'}, {'Zeros[shape=[2]]'}, v)"
    evaluator = Evaluator(0)
    left = typed(norm.format("Add(x, y)"), shapes)[0]
    right = typed(f"Add({norm.format('x')}, {zeros})", shapes)[0]
    assert evaluator.key(left) == evaluator.key(right)
    other = typed(norm.format("Add(x, y)").replace("1e-05", "1e-03"), shapes)[0]
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


def test_a_part_without_elements_is_computed_without_its_definition() -> None:
    """Tile reads places modulo the size of its operand, here 0."""
    x = var("x", TensorType("float", (2, 3)))
    empty = make("Slice", (x,), {"axes": (1,), "starts": (1,), "ends": (1,), "steps": (1,)})
    assert Evaluator(0).value(make("Tile", (empty,), {"repeats": (1, 2)})).shape == (SAMPLES, 2, 0)
