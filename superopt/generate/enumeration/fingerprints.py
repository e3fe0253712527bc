"""Fingerprints: 62-bit keys of tensors over Z_P, and the value of any term on one fixed random sample.

A key is two random linear functionals of all elements, f(v) = sum of c[k] v[k] modulo P. Two different tensors have the
same key with probability P^-2, below 2^-61. With the values of `superopt.evaluate.modular` on `SAMPLES` samples, two
different polynomials of degree d have the same key with probability at most (d / P)^SAMPLES + P^-2, below 1e-16 for the
degrees that occur. Equal keys only make a conjecture: the prover decides. Keys are linear functions of the values,
which makes the enumeration fast (see `linear_fingerprints`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from superopt.evaluate.modular import compute
from superopt.evaluate.residues import Array, P, Shape, random_residues, small_residues
from superopt.generate.enumeration.modular_matmul import product
from superopt.ir.term import CLOSED_FORM, Term, topological

__all__ = ["SAMPLES", "Evaluator", "Hasher", "packed"]

SAMPLES = 4


class Hasher:
    """Keys of stacks of tensors. The functionals depend on the seed and the tensor's shape only."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._functionals: dict[Shape, Array] = {}

    def functional(self, shape: Shape) -> Array:
        """Return the two functionals of a shape: [SAMPLES, elements, 2]."""
        if shape not in self._functionals:
            rng = np.random.default_rng([self.seed, 1, len(shape), *shape])
            elements = int(np.prod(shape, dtype=np.int64))
            self._functionals[shape] = random_residues(rng, (SAMPLES, elements, 2))
        return self._functionals[shape]

    def keys(self, values: Array, shape: Shape) -> npt.NDArray[np.uint64]:
        """Return the keys of `values` [graphs, SAMPLES, *shape]: [graphs]."""
        functional = self.functional(shape)
        flat = np.ascontiguousarray(values).reshape(len(values), functional.shape[0] * functional.shape[1])
        halves = product(flat, functional.reshape(-1, 2))
        return packed(halves[:, 0], halves[:, 1])


def packed(first: Array, second: Array) -> npt.NDArray[np.uint64]:
    """Pack two residues into one key."""
    result: npt.NDArray[np.uint64] = (first << np.uint64(31)) | second
    return result


class Evaluator:
    """Values of typed terms of known sizes, `SAMPLES` samples at once. The value of a variable depends on its name."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.hasher = Hasher(seed)
        self._values: dict[Term, Array] = {}

    def variable(self, name: str, shape: Shape) -> Array:
        """Return the sample of a variable: [SAMPLES, *shape], with elements that are negative as often as positive."""
        rng = np.random.default_rng([self.seed, 2, zlib.crc32(name.encode()), *shape])
        order = np.arange(SAMPLES).reshape(-1, *(1 for _ in shape))
        signs = np.broadcast_to(order % 2 == 1, (SAMPLES, *shape))
        values = small_residues(rng, (SAMPLES, *shape))
        negative = rng.permuted(signs, axis=0) != (values > P // 2)
        return np.where(negative, (P - values) % P, values).astype(np.uint64)

    def value(self, term: Term) -> Array:
        """Return the value of a term: [SAMPLES, *shape]. Raises KeyError for an unknown operator."""
        for node in topological((term,)):
            if node not in self._values and (len(node.types) == 1 or node.op == "Out"):
                self._values[node] = self._compute(node)
        return self._values[term]

    def key(self, term: Term) -> tuple[Shape, int]:
        """Return a term's shape and fingerprint."""
        shape = _shape(term)
        return shape, int(self.hasher.keys(self.value(term)[None], shape)[0])

    def forget(self) -> None:
        """Drop all values computed so far."""
        self._values.clear()

    def _compute(self, term: Term) -> Array:
        shape = _shape(term)
        if term.op == "Var":
            return self.variable(str(term.attr("name")), shape)
        if 0 in shape:
            return np.zeros((SAMPLES, *shape), np.uint64)
        attrs: Mapping[str, Any] = dict(term.attrs)
        if term.op in CLOSED_FORM:
            return np.broadcast_to(compute(term.op, [], [], attrs, shape), (SAMPLES, *shape))
        node = term
        if term.op == "Out":
            (inner,) = term.inputs
            assert inner is not None
            node, attrs = inner, {**dict(inner.attrs), **attrs}
        inputs = [None if i is None else self._values[i] for i in node.inputs]
        shapes = [None if i is None else _shape(i) for i in node.inputs]
        result = compute(node.op, inputs, shapes, attrs, shape)
        return np.broadcast_to(result, (SAMPLES, *shape))


def _shape(term: Term) -> Shape:
    shape = None if term.type is None else term.type.concrete()
    assert shape is not None, f"{term.op} has no known sizes"
    return shape
