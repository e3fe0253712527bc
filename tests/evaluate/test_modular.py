"""The reading modulo P: it agrees with `superopt.evaluate` where that is exact, and with its equations elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from superopt.evaluate import evaluate
from superopt.evaluate.modular import by_definition, compute
from superopt.evaluate.modular_fast import PRODUCTS
from superopt.evaluate.residue_functions import PRIMITIVE_ROOT, exp, log
from superopt.evaluate.residues import Array, P, Shape, inverse, random_residues, residue, small_residues
from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term, topological
from tests.support.modular_cases import EXACT, TRUTHS, Shapes, typed
from tests.support.modular_laws import LAWS, NO_LAWS
from tests.support.modular_nodes import NODES, operation, sizes_of


def _values(terms: tuple[Term, ...], variables: Mapping[str, Array]) -> list[Array]:
    """Values of terms; variables are stacks."""
    values: dict[Term, Array] = {}
    for term in topological(terms):
        if term.op == "Var":
            values[term] = variables[str(term.attr("name"))]
        elif len(term.types) > 1 and term.op != "Out":
            continue  # Split itself: its outputs are computed from its input
        else:
            op, operands, attrs = operation(term)
            stacks = [i and values[i] for i in operands]
            values[term] = compute(op, stacks, [i and sizes_of(i) for i in operands], attrs, sizes_of(term))
    return [values[term] for term in terms]


def _integers(name: str, shape: Shape, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    if name in TRUTHS:
        return rng.integers(0, 2, size=shape)
    if name == "rows":
        return rng.integers(-3, 3, size=shape)
    found = rng.integers(-9, 10, size=shape)
    return np.where(found == 0, 1, found) if name == "n" else found


@pytest.mark.parametrize("text", EXACT)
def test_operators_agree_with_evaluate_on_integers(text: str) -> None:
    shapes = EXACT[text]
    terms = typed(text, shapes)
    rng = np.random.default_rng(0)
    stacked = {name: _integers(name, (7, *shape), rng) for name, shape in shapes.items()}
    (found,) = _values(terms, {name: (value % P).astype(np.uint64) for name, value in stacked.items()})
    for k in range(7):
        env: dict[Term, Any] = {}
        for leaf in topological(terms):
            if leaf.op == "Var":
                name = str(leaf.attr("name"))
                dtype = np.int64 if name == "rows" else bool if name in TRUTHS else np.float64
                env[leaf] = stacked[name][k].astype(dtype)
        (expected,) = evaluate(terms, env, {})
        residues = np.vectorize(lambda x: residue(float(x)), otypes=[np.uint64])(expected)
        assert np.array_equal(np.broadcast_to(found, (7, *expected.shape))[k], residues)


@pytest.mark.parametrize("op", ["Floor", "Ceil", "Round"])
def test_rounding_is_of_thirds(op: str) -> None:
    x = np.arange(-20, 21)
    (term,) = typed(f"{op}(x)", {"x": x.shape})
    (expected,) = evaluate([term], {term.inputs[0]: x / 3}, {})  # type: ignore[dict-item]
    (found,) = _values((term,), {"x": (x % P).astype(np.uint64)})
    assert np.array_equal(found, (3 * expected.astype(np.int64)) % P)


def _samples(shapes: Shapes, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {name: small_residues(rng, (2, *shape)) for name, shape in shapes.items()}


def _equal(left: str, right: str, shapes: Shapes, seed: int) -> bool:
    terms = (*typed(left, shapes), *typed(right, shapes))
    a, b = _values(terms, _samples(shapes, seed))
    assert sizes_of(terms[0]) == sizes_of(terms[1])
    return bool((a == b).all())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right", "shapes"), LAWS)
def test_laws_hold(left: str, right: str, shapes: Shapes, seed: int) -> None:
    assert _equal(left, right, shapes, seed)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right", "shapes"), NO_LAWS)
def test_nothing_else_holds(left: str, right: str, shapes: Shapes, seed: int) -> None:
    assert not _equal(left, right, shapes, seed)


def test_every_operator_is_in_the_tables() -> None:
    assert set(OPERATORS) - NODES.keys() == {
        "Cast",
        "ConvInteger",
        "MatMulInteger",
    }  # a cast depends on the type that it is given


@pytest.mark.parametrize("op", sorted(NODES))
def test_stacks_are_computed_one_by_one(op: str) -> None:
    rng = np.random.default_rng(0)
    for term in NODES[op]:
        _, operands, attrs = operation(term)
        shapes, out = [i and sizes_of(i) for i in operands], sizes_of(term)
        stacks = [(3, 1), (2,), (3, 2)]
        xs = [None if s is None else small_residues(rng, (*stacks[k % 3], *s)) for k, s in enumerate(shapes)]
        before = [None if x is None else x.copy() for x in xs]
        stacked = compute(op, xs, shapes, attrs, out)
        assert stacked.dtype == np.uint64 and (stacked < P).all()
        assert all(x is None or np.array_equal(x, y) for x, y in zip(xs, before, strict=True))
        assert stacked.shape[stacked.ndim - len(out) :] == out
        stacked = np.broadcast_to(stacked, (3, 2, *out))
        for place in np.ndindex(3, 2):
            one = [
                None if x is None or s is None else np.broadcast_to(x, (3, 2, *s))[place]
                for x, s in zip(xs, shapes, strict=True)
            ]
            assert np.array_equal(stacked[place], compute(op, one, shapes, attrs, out))


@pytest.mark.parametrize("op", sorted(PRODUCTS))
def test_kernels_agree_with_the_definition(op: str) -> None:
    rng = np.random.default_rng(0)
    for term in NODES[op]:
        _, operands, attrs = operation(term)
        shapes, out = [i and sizes_of(i) for i in operands], sizes_of(term)
        stacks = [(3, 1), (2,), (3, 2)]
        xs = [None if s is None else random_residues(rng, (*stacks[k % 3], *s)) for k, s in enumerate(shapes)]
        by_hand, defined = PRODUCTS[op](xs, shapes, attrs, out), by_definition(op, xs, shapes, attrs, out)
        assert np.array_equal(*np.broadcast_arrays(by_hand, defined))


def test_real_attributes_become_residues() -> None:
    assert residue(1.0) == 1
    assert residue(-2.0) == P - 2
    assert residue(0.5) * 2 % P == 1
    assert residue(-2.25) * 4 % P == P - 9
    assert residue(1 / 9) * 9 % P == residue(float(np.float32(1 / 9))) * 9 % P == 1
    assert residue(1e-5) == residue(1e-5) != residue(1e-6)
    assert residue(-0.1234567) == P - residue(0.1234567)
    assert residue(1 / 65) != pow(65, -1, P)


def test_small_residues_are_small() -> None:
    x = small_residues(np.random.default_rng(0), (1000,)).astype(np.int64)
    signed = np.where(x > P // 2, x - P, x)
    assert abs(signed).max() <= 2**28 and signed.min() < 0 < signed.max()


def test_inverses() -> None:
    for count in (0, 1, 15, 16, 17, 1001):
        x = np.arange(count, dtype=np.uint64) * np.uint64(2**20 + 7) % np.uint64(P)
        assert np.array_equal(x * inverse(x) % P, (x != 0).astype(np.uint64))


def test_the_base_of_exponents_is_a_primitive_root() -> None:
    factors = (2, 3, 7, 11, 31, 151, 331)
    assert P - 1 == 2 * 3**2 * 7 * 11 * 31 * 151 * 331
    assert all(pow(PRIMITIVE_ROOT, (P - 1) // q, P) != 1 for q in factors)
    x = np.array([0, 1, 5, P - 1, P - 2], dtype=np.uint64)
    assert exp(x).tolist() == [1, 7, 7**5, pow(7, -1, P), pow(7, -2, P)]
    every = np.random.default_rng(0).integers(1, P, size=1000, dtype=np.uint64)
    assert np.array_equal(exp(log(every)), every)
