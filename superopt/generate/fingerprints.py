"""Fingerprints: 64-bit keys of tensors over Z_P, and the value of any term on one fixed random sample.

Two tensors that differ get the same key with probability about 2^-64: two random linear hashes modulo 2^64, of
which each collides with probability at most 2^-33, are mixed into one key. Together with `modular`, polynomials of
degree d that differ are told apart on `SAMPLES` samples up to a probability of (d / P)^SAMPLES + 2^-64, below 1e-16 for
the degrees that occur. An equal key is only a conjecture in any case: the prover decides.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from superopt.generate.modular import KERNELS, Array, Shape, closed_form, random_residues
from superopt.ir.term import CLOSED_FORM, Term, topological

__all__ = ["SAMPLES", "Evaluator", "Hasher"]

SAMPLES = 2


class Hasher:
    """Keys of stacks of tensors; the coefficients depend on the seed and the tensor's shape only."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._coefficients: dict[Shape, npt.NDArray[np.uint64]] = {}

    def keys(self, values: Array, shape: Shape) -> npt.NDArray[np.uint64]:
        """Keys of `values` [graphs, SAMPLES, *shape]: [graphs]."""
        count = values.shape[0]
        found = self._coefficients.get(shape)
        if found is None:
            rng = np.random.default_rng([self.seed, 1, len(shape), *shape])
            elements = SAMPLES * int(np.prod(shape, dtype=np.int64))
            found = rng.integers(0, 2**64, size=(elements, 2), dtype=np.uint64) | np.uint64(1)
            self._coefficients[shape] = found
        sums = values.reshape(count, -1) @ found
        second = sums[:, 1]
        second = (second ^ (second >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
        key: npt.NDArray[np.uint64] = sums[:, 0] ^ second ^ (second >> np.uint64(32))
        return key


class Evaluator:
    """Values of typed terms of known sizes, `SAMPLES` samples at once; each variable's value depends on its name."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.hasher = Hasher(seed)
        self._values: dict[Term, Array] = {}

    def variable(self, name: str, shape: Shape) -> Array:
        """The sample of the variable called `name`: [SAMPLES, *shape]."""
        rng = np.random.default_rng([self.seed, 2, zlib.crc32(name.encode()), *shape])
        return random_residues(rng, (SAMPLES, *shape))

    def value(self, term: Term) -> Array:
        """[SAMPLES, *shape]. Raises KeyError for an operator without a kernel."""
        for node in topological((term,)):
            if node not in self._values and (len(node.types) == 1 or node.op == "Out"):
                self._values[node] = self._compute(node)
        return self._values[term]

    def key(self, term: Term) -> tuple[Shape, int]:
        """Shape and fingerprint."""
        shape = _shape(term)
        return shape, int(self.hasher.keys(self.value(term)[None], shape)[0])

    def forget(self) -> None:
        """Drops all values computed so far."""
        self._values.clear()

    def _compute(self, term: Term) -> Array:
        shape = _shape(term)
        if term.op == "Var":
            return self.variable(str(term.attr("name")), shape)
        attrs: Mapping[str, Any] = dict(term.attrs)
        if term.op in CLOSED_FORM:
            return np.broadcast_to(closed_form(term.op, attrs, shape), (SAMPLES, *shape))
        node = term
        if term.op == "Out":
            (inner,) = term.inputs
            assert inner is not None
            node, attrs = inner, {**dict(inner.attrs), **attrs}
        inputs = [i for i in node.inputs if i is not None]
        result = KERNELS[node.op]([self._values[i] for i in inputs], [_shape(i) for i in inputs], attrs, shape)
        return np.broadcast_to(result, (SAMPLES, *shape))


def _shape(term: Term) -> Shape:
    shape = None if term.type is None else term.type.concrete()
    assert shape is not None, f"{term.op} has no known sizes"
    return shape
