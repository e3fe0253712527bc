"""Fingerprints of all graphs of a block by matrix products, mostly without computing the graphs' values.

A fingerprint is a linear functional f of the output. If an operator is a sum of parts that are linear in their
operands, then f of its output is a sum of linear and bilinear forms in the operands' elements. With the unit tensors
e_k, a linear part has f(op(x)) = <a, x> with a[k] = f(op(e_k)), and a bilinear part has f(op(x, y)) = x^T M y with
(M y)[k] = f(op(e_k, y)). So the fingerprints of all pairs of operands are one matrix product, which takes about ten
nanoseconds per graph for any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.evaluate.modular import compute
from superopt.evaluate.residues import Array, Shape
from superopt.generate.enumeration.blocks import Block
from superopt.generate.enumeration.classes import Classes, Ids
from superopt.generate.enumeration.fingerprints import SAMPLES, Hasher, packed
from superopt.generate.enumeration.linear_parts import parts
from superopt.generate.enumeration.modular_matmul import add, product

__all__ = ["BlockFingerprints", "Keys"]

_CHUNK = 1 << 18  # graphs at once: small enough for the caches, large enough to hide the overhead of Python
_ELEMENTS = 1 << 20  # elements computed at once
Keys = npt.NDArray[np.uint64]
# One half of the fingerprints of one part, for a piece of each operand's set; broadcasts to the pieces' sizes.
_Form: TypeAlias = Callable[[int, list[slice]], Array]


class BlockFingerprints:
    """Fingerprints and values of the graphs of blocks."""

    def __init__(self, classes: Classes, hasher: Hasher) -> None:
        self.classes, self.hasher = classes, hasher
        self._linear: dict[tuple[int, tuple[Shape, ...], int], Array] = {}

    def keys(self, block: Block) -> Iterator[tuple[npt.NDArray[np.int64], Keys]]:
        """Yield the number in the block's product and the fingerprint of every graph, in order, in chunks."""
        shapes = self._shapes(block)
        attrs = self.classes.family.uses[block.use].attributes(shapes)
        split = parts(self._op(block), shapes, attrs)
        if split is None or any(len(part) > 2 for part in split):
            yield from self._computed(block)
            return
        forms = [self._form(block, shapes, attrs, part) for part in split]
        sizes = block.sizes
        rest = int(np.prod(sizes[1:], dtype=np.int64))
        step = max(1, _CHUNK // max(1, rest))
        for start in range(0, sizes[0], step):
            stop = min(sizes[0], start + step)
            yield from self._chunk(block, forms, start, stop, rest)

    def values(self, block: Block, flat: npt.NDArray[np.int64]) -> Iterator[Array]:
        """Yield the values [graphs, SAMPLES, *out] of the graphs with numbers `flat`, in chunks."""
        shapes = self._shapes(block)
        use = self.classes.family.uses[block.use]
        attrs = use.attributes(shapes)
        step = max(1, _ELEMENTS // (SAMPLES * int(np.prod(block.out, dtype=np.int64))))
        for start in range(0, len(flat), step):
            places = np.unravel_index(flat[start : start + step], block.sizes)
            operands = [self.classes.value(ids[p]) for ids, p in zip(block.operands, places, strict=True)]
            value = compute(use.op, use.placed(operands), use.placed(shapes), attrs, block.out)
            yield np.broadcast_to(value, (len(places[0]), SAMPLES, *block.out))

    def _op(self, block: Block) -> str:
        return self.classes.family.uses[block.use].op

    def _shapes(self, block: Block) -> tuple[Shape, ...]:
        return tuple(self.classes.shapes[self.classes.shape[ids[0]]] for ids in block.operands)

    def _computed(self, block: Block) -> Iterator[tuple[npt.NDArray[np.int64], Keys]]:
        """Yield the same numbers and fingerprints as `keys`, computed from the graphs' values.

        For operators that are not sums of linear and bilinear parts.
        """
        total = int(np.prod(block.sizes, dtype=np.int64))
        for start in range(0, total, _CHUNK):
            flat = np.arange(start, min(total, start + _CHUNK), dtype=np.int64)
            if block.unordered:
                flat = flat[_ordered(block, flat)]
            keys = [self.hasher.keys(value, block.out) for value in self.values(block, flat)]
            if keys:
                yield flat, np.concatenate(keys)

    def _chunk(
        self, block: Block, forms: list[_Form], start: int, stop: int, rest: int
    ) -> Iterator[tuple[npt.NDArray[np.int64], Keys]]:
        if rest > 4 * _CHUNK:  # the second set is also cut into pieces
            inner = rest // block.sizes[1]
            step = max(1, _CHUNK // inner)
            columns = [slice(k, min(block.sizes[1], k + step)) for k in range(0, block.sizes[1], step)]
        else:
            columns = [slice(start if block.unordered else 0, block.sizes[1] if len(block.sizes) > 1 else 1)]
        for column in columns:
            pieces: list[slice] = [slice(start, stop), column, *(slice(0, n) for n in block.sizes[2:])]
            pieces = pieces[: len(block.sizes)]
            halves = []
            for half in (0, 1):
                total: Array | None = None
                for form in forms:
                    part = form(half, pieces)
                    total = part if total is None else add(total, part)
                assert total is not None
                shape = tuple(piece.stop - piece.start for piece in pieces)
                halves.append(np.broadcast_to(total, shape).reshape(-1))
            flat = _numbers(block.sizes, pieces)
            keys = packed(halves[0], halves[1])
            if block.unordered:
                keep = _ordered(block, flat)
                flat, keys = flat[keep], keys[keep]
            yield flat, keys

    def _form(self, block: Block, shapes: tuple[Shape, ...], attrs: dict[str, Any], part: tuple[int, ...]) -> _Form:
        """Return the form of one part of an operator."""
        if len(part) == 1:
            return self._linear_form(block, shapes, attrs, part[0])
        first, second = part
        # Unit tensors replace the operand with more graphs.
        units, others = (
            (first, second) if len(block.operands[first]) >= len(block.operands[second]) else (second, first)
        )
        matrix = self._contracted(block, shapes, attrs, units, others)  # [2, elements of units, others]
        values = self._flat(block.operands[units])

        def form(half: int, pieces: list[slice]) -> Array:
            a, b = values[pieces[units]].astype(np.uint64), matrix[half][:, pieces[others]]
            result = product(a, b) if units == first else product(b.T, a.T)
            shape = [1] * len(pieces)
            shape[first], shape[second] = result.shape
            return result.reshape(shape)

        return form

    def _linear_form(self, block: Block, shapes: tuple[Shape, ...], attrs: dict[str, Any], slot: int) -> _Form:
        """Return the form of a part that is linear in operand `slot`."""
        known = (block.use, shapes, slot)
        if known not in self._linear:
            unit = _units(shapes[slot])[:, None]
            operands = [np.zeros((1, 1, *shape), np.uint64) for shape in shapes]
            operands[slot] = unit
            out = compute(self._op(block), operands, shapes, attrs, block.out)
            flat = np.broadcast_to(out, (len(unit), 1, *block.out)).reshape(len(unit), -1)
            sample = self.hasher.functional(block.out)  # [SAMPLES, elements, 2]
            self._linear[known] = np.concatenate([product(flat, sample[s]) for s in range(SAMPLES)])
        functional = self._linear[known]
        values = product(self._flat(block.operands[slot]).astype(np.uint64), functional)

        def form(half: int, pieces: list[slice]) -> Array:
            shape = [1] * len(pieces)
            shape[slot] = -1
            return values[pieces[slot], half].reshape(shape)

        return form

    def _contracted(
        self, block: Block, shapes: tuple[Shape, ...], attrs: dict[str, Any], units: int, others: int
    ) -> Array:
        """Return f(op(e_k, y)) for all unit tensors e_k as operand `units` and all y as operand `others`."""
        unit = _units(shapes[units])
        ids = block.operands[others]
        sample = self.hasher.functional(block.out)
        elements = int(np.prod(block.out, dtype=np.int64))
        step = max(1, _ELEMENTS // (len(unit) * SAMPLES * elements))
        found = []
        for start in range(0, len(ids), step):
            some = self.classes.value(ids[start : start + step])
            operands = [np.zeros((1,) * 3 + shape, np.uint64) for shape in shapes]
            operands[units], operands[others] = unit[:, None, None], some[None]
            out = compute(self._op(block), operands, shapes, attrs, block.out)
            out = np.broadcast_to(out, (len(unit), len(some), SAMPLES, *block.out))
            rows = [out[:, :, s].reshape(-1, elements) for s in range(SAMPLES)]
            part = np.stack([product(row, sample[s]) for s, row in enumerate(rows)])
            found.append(part.reshape(SAMPLES * len(unit), len(some), 2).transpose(2, 0, 1))
        return np.concatenate(found, axis=2)

    def _flat(self, ids: Ids) -> npt.NDArray[np.uint32]:
        """Return the values of classes of one shape: [classes, SAMPLES * elements]."""
        values = self.classes.values[int(self.classes.shape[ids[0]])][self.classes.place[ids]]
        return values.reshape(len(ids), -1)


def _units(shape: Shape) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    return np.eye(count, dtype=np.uint64).reshape(count, *shape)


def _numbers(sizes: tuple[int, ...], pieces: list[slice]) -> npt.NDArray[np.int64]:
    """Return the numbers, in a product of `sizes`, of the graphs in a piece of it."""
    total = np.zeros((1,) * len(sizes), np.int64)
    for slot, piece in enumerate(pieces):
        shape = [1] * len(sizes)
        shape[slot] = -1
        total = total * sizes[slot] + np.arange(piece.start, piece.stop, dtype=np.int64).reshape(shape)
    return total.reshape(-1)


def _ordered(block: Block, flat: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return True for each graph whose first operand's number is not larger than the second's."""
    first, second, *_ = np.unravel_index(flat, block.sizes)
    return np.asarray(first <= second)
