"""Arithmetic modulo P: operators agree with `superopt.evaluate` where that is exact, and with their laws elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from superopt.evaluate import evaluate
from superopt.generate.families import FAMILIES
from superopt.generate.field import KERNELS, Array, P, Shape, closed_form, parts, residue, small_residues
from superopt.generate.field.arithmetic import inverse
from superopt.generate.field.functions import PRIMITIVE_ROOT, exp, log
from superopt.ir.infer import OPERATORS
from superopt.ir.term import CLOSED_FORM, Term, topological
from tests.support.field_cases import EXACT, LAWS, NO_LAWS, TRUTHS, Shapes, typed


def _sizes(term: Term) -> Shape:
    assert term.type is not None
    shape = term.type.concrete()
    assert shape is not None
    return shape


def _operands(term: Term) -> tuple[str, list[Term], Mapping[str, Any]]:
    """The operator, its operands and attributes; an output of several belongs to its operator."""
    node = term.inputs[0] if term.op == "Out" else term
    assert node is not None
    return node.op, [i for i in node.inputs if i is not None], {**dict(node.attrs), **dict(term.attrs)}


def _values(terms: tuple[Term, ...], variables: Mapping[str, Array]) -> list[Array]:
    """Values of terms; variables are stacks."""
    values: dict[Term, Array] = {}
    for term in topological(terms):
        if term.op == "Var":
            values[term] = variables[str(term.attr("name"))]
        elif len(term.types) > 1 and term.op != "Out":
            continue  # Split itself: its outputs are computed from its input
        elif not term.inputs:
            values[term] = closed_form(term.op, dict(term.attrs), _sizes(term))
        else:
            op, operands, attrs = _operands(term)
            stacks = [values[i] for i in operands]
            values[term] = KERNELS[op](stacks, [_sizes(i) for i in operands], attrs, _sizes(term))
    return [values[term] for term in terms]


def _integers(name: str, shape: Shape, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    if name in TRUTHS:
        return rng.integers(0, 2, size=shape)
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
                env[leaf] = stacked[name][k].astype(bool if name in TRUTHS else np.float64)
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
    assert _sizes(terms[0]) == _sizes(terms[1])
    return bool((a == b).all())


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right", "shapes"), LAWS)
def test_laws_hold(left: str, right: str, shapes: Shapes, seed: int) -> None:
    assert _equal(left, right, shapes, seed)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("left", "right", "shapes"), NO_LAWS)
def test_nothing_else_holds(left: str, right: str, shapes: Shapes, seed: int) -> None:
    assert not _equal(left, right, shapes, seed)


def _nodes() -> dict[str, list[Term]]:
    """Terms by operator, as they occur in the tables."""
    found: dict[str, dict[Term, None]] = {}
    texts = [*EXACT.items(), *((side, shapes) for left, right, shapes in LAWS for side in (left, right))]
    for text, shapes in texts:
        for term in topological(typed(text, shapes)):
            if term.op != "Var" and (len(term.types) == 1 or term.op == "Out"):
                found.setdefault(_operands(term)[0] if term.op == "Out" else term.op, {})[term] = None
    return {op: list(terms) for op, terms in found.items()}


_NODES = _nodes()


def test_every_operator_is_in_the_tables() -> None:
    assert _NODES.keys() == KERNELS.keys() | CLOSED_FORM
    assert set(OPERATORS) - _NODES.keys() == {"Cast"}  # what it does depends on the type that it is given


@pytest.mark.parametrize("op", sorted(KERNELS))
def test_stacks_are_computed_one_by_one(op: str) -> None:
    rng = np.random.default_rng(0)
    for term in _NODES[op]:
        _, operands, attrs = _operands(term)
        shapes, out = [_sizes(i) for i in operands], _sizes(term)
        stacks = [(3, 1), (2,), (3, 2)]
        xs = [small_residues(rng, (*stacks[k % 3], *shape)) for k, shape in enumerate(shapes)]
        before = [x.copy() for x in xs]
        stacked = KERNELS[op](xs, shapes, attrs, out)
        assert stacked.dtype == np.uint64 and (stacked < P).all()
        assert all(np.array_equal(x, y) for x, y in zip(xs, before, strict=True))
        assert stacked.shape[stacked.ndim - len(out) :] == out
        stacked = np.broadcast_to(stacked, (3, 2, *out))
        for place in np.ndindex(3, 2):
            one = [np.broadcast_to(x, (3, 2, *s))[place] for x, s in zip(xs, shapes, strict=True)]
            assert np.array_equal(stacked[place], KERNELS[op](one, shapes, attrs, out))


_LINEAR = {
    "Add", "AveragePool", "Concat", "Conv", "ConvTranspose", "CumSum", "DepthToSpace", "Einsum", "Expand", "Flatten",
    "FusedMatMul", "Gather", "Gemm", "GlobalAveragePool", "Identity", "MatMul", "Mul", "Neg", "Pad", "ReduceMean",
    "ReduceSum", "Reshape", "Resize", "Slice", "SpaceToDepth", "Split", "Squeeze", "Sub", "Sum", "Tile", "Transpose",
    "Trilu", "Unsqueeze",
}  # fmt: skip


@pytest.mark.parametrize("op", sorted(KERNELS))
def test_parts_are_linear_in_their_operands(op: str) -> None:
    rng = np.random.default_rng(0)
    assert (op in _LINEAR) == any(parts(op, len(_operands(t)[1]), _operands(t)[2]) is not None for t in _NODES[op])
    for term in _NODES[op]:
        _, operands, attrs = _operands(term)
        shapes, out = [_sizes(i) for i in operands], _sizes(term)
        found = parts(op, len(operands), attrs)
        if found is None:
            continue
        assert sorted(k for part in found for k in part) == list(range(len(operands)))

        def value(xs: list[Array], shapes: list[Shape] = shapes, attrs: Any = attrs, out: Shape = out) -> Array:
            return KERNELS[op](xs, shapes, attrs, out)

        xs = [rng.integers(0, P, size=shape, dtype=np.uint64) for shape in shapes]
        total = np.zeros(out, dtype=np.uint64)
        for part in found:
            own = [x if k in part else np.zeros_like(x) for k, x in enumerate(xs)]
            total = (total + value(own)) % P
            for k in part:
                more, factor = rng.integers(0, P, size=shapes[k], dtype=np.uint64), np.uint64(123456789)
                both = [*own[:k], (own[k] * factor + more) % P, *own[k + 1 :]]
                expected = (value(own) * factor + value([*own[:k], more, *own[k + 1 :]])) % P
                assert np.array_equal(value(both), expected)
        assert np.array_equal(value(xs), total)


def test_a_pad_with_a_value_is_not_linear() -> None:
    assert parts("Pad", 1, {"pads": (1, 0), "value": 1.0}) is None
    assert parts("Pad", 1, {"pads": (1, 0), "value": 0.0}) == ((0,),)
    assert parts("Relu", 1, {}) is None


def test_families_are_made_of_operators_that_are_here() -> None:
    for family in FAMILIES:
        assert {use.op for use in family.uses} <= set(KERNELS), family.name
        assert {op for op, _ in family.constants} <= CLOSED_FORM, family.name


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
