"""Operators that are said to be sums of linear parts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from superopt.evaluate.modular import compute
from superopt.evaluate.residues import Array, P, Shape
from superopt.generate.enumeration.linear_parts import Parts, parts
from superopt.generate.families import FAMILIES
from superopt.ir.operator import OPERATORS
from superopt.ir.term import CLOSED_FORM, Term
from tests.support.modular_nodes import NODES, operation, sizes_of

_LINEAR = {
    "Add", "AveragePool", "Concat", "Conv", "ConvTranspose", "CumSum", "DepthToSpace", "Einsum", "Expand", "Flatten",
    "FusedMatMul", "Gather", "Gemm", "GlobalAveragePool", "Identity", "MatMul", "Mul", "Neg", "Pad", "PadCopy",
    "ReduceMean", "ReduceSum", "Reshape", "Resize", "ResizeLinear", "RotaryEmbedding", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu", "Unsqueeze",
}  # fmt: skip


def _parts(term: Term) -> Parts | None:
    op, operands, attrs = operation(term)
    return parts(op, [sizes_of(i) for i in operands if i is not None], attrs)


@pytest.mark.parametrize("op", sorted(NODES))
def test_parts_are_linear_in_their_operands(op: str) -> None:
    rng = np.random.default_rng(0)
    assert (op in _LINEAR) == any(_parts(t) is not None for t in NODES[op])
    for term in NODES[op]:
        _, operands, attrs = operation(term)
        shapes, out = [sizes_of(i) for i in operands if i is not None], sizes_of(term)
        found = _parts(term)
        if found is None:
            continue
        assert {k for part in found for k in part} == set(range(len(operands)))

        def value(xs: list[Array], shapes: list[Shape] = shapes, attrs: Any = attrs, out: Shape = out) -> Array:
            return compute(op, xs, shapes, attrs, out)

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
    assert parts("Pad", [(3,)], {"pads": (1, 0), "value": 1.0}) is None
    assert parts("Pad", [(3,)], {"pads": (1, 0), "value": 0.0}) == ((0,),)
    assert parts("Relu", [(3,)], {}) is None


def test_families_are_made_of_operators_with_a_value() -> None:
    for family in FAMILIES:
        known = set(OPERATORS) if family.reals else set(NODES)  # without or with a value modulo a prime
        assert {use.op for use in family.uses} <= known, family.name
        assert {op for op, _ in family.constants} <= CLOSED_FORM, family.name
