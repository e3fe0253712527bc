"""Constants of one model that hold constants of the other in another layout: transposed, reshaped, or side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from superopt.evaluate.indices import Array
from superopt.ir.infer import make
from superopt.ir.term import Term

__all__ = ["Layouts"]

_MAX_RANK = 4  # of a transposed constant


class Layouts:
    """Bare constants of one model, indexed by content, to express other constants by them."""

    def __init__(self, constants: Iterable[Term], weights: Mapping[str, Array]) -> None:
        self._weights = weights
        self._whole: dict[tuple[object, ...], list[Term]] = {}  # by element type and content in any order
        # Constants and an axis of each, by element type, and sizes and content, in any order, of the first slice.
        self._first: dict[tuple[object, ...], list[tuple[Term, int]]] = {}
        for term in sorted((t for t in constants if t.op == "Const"), key=lambda t: t.digest):
            array = self._array(term)
            if array is None or term.type is None or not array.size:
                continue
            self._whole.setdefault((term.type.dtype, array.size, _unordered(array)), []).append(term)
            for axis in range(array.ndim):
                self._first.setdefault(_key(term.type.dtype, array, axis), []).append((term, axis))

    def expressions(self, wanted: Term) -> Iterator[Term]:
        """Yield terms over the indexed constants that have the value of the bare constant `wanted`."""
        array = self._array(wanted)
        if array is None or wanted.type is None or array.size < 2:
            return
        dtype = wanted.type.dtype
        for source in self._whole.get((dtype, array.size, _unordered(array)), ()):
            if source is wanted:
                continue
            content = self._weights[str(source.attr("hash"))].tobytes()
            for perm in _permutations(array.ndim):
                if array.transpose(perm).tobytes() == content:
                    shape = tuple(array.shape[axis] for axis in perm)
                    found = make("Reshape", (source,), {"shape": shape, "allowzero": 0})
                    found = source if source.type is not None and source.type.shape == shape else found
                    yield _transposed(found, tuple(perm.index(axis) for axis in range(array.ndim)))
        for axis in range(array.ndim):
            parts = self._parts(dtype, array, axis)
            if parts:
                yield make("Concat", parts, {"axis": axis - array.ndim})

    def _parts(self, dtype: str, array: Array, axis: int) -> list[Term]:
        """Return the constants, transposed as they need it, that lie in `array` one after the other along `axis`.

        The list is empty if they do not fill it.
        """
        parts: list[Term] = []
        rest = np.moveaxis(array, axis, 0)
        while len(rest):
            key = _key(dtype, rest, 0)
            for term, perm in ((t, p) for t, own in self._first.get(key, ()) for p in _moving(array.ndim, own, axis)):
                one = np.moveaxis(np.transpose(self._weights[str(term.attr("hash"))], perm), axis, 0)
                fits = len(one) <= len(rest) and one.shape[1:] == rest.shape[1:]
                if fits and one.tobytes() == rest[: len(one)].tobytes():
                    parts.append(_transposed(term, perm))
                    rest = rest[len(one) :]
                    break
            else:
                return []
        return parts if len(parts) > 1 else []

    def _array(self, term: Term) -> Array | None:
        array = self._weights.get(str(term.attr("hash"))) if term.op == "Const" else None
        return None if array is None or array.dtype == object else np.asarray(array)


def _permutations(rank: int) -> Iterator[tuple[int, ...]]:
    """Yield the permutations to try, the identity first."""
    yield from itertools.permutations(range(rank)) if rank <= _MAX_RANK else (tuple(range(rank)),)


def _moving(rank: int, own: int, axis: int) -> Iterator[tuple[int, ...]]:
    """Yield the permutations of constants of this rank that move the axis `own` to the place of `axis`."""
    return (perm for perm in _permutations(rank) if perm[axis] == own)


def _transposed(term: Term, perm: tuple[int, ...]) -> Term:
    return term if perm == tuple(sorted(perm)) else make("Transpose", (term,), {"perm": perm})


def _key(dtype: str, array: Array, axis: int) -> tuple[object, ...]:
    first = array[(slice(None),) * axis + (0,)]
    return dtype, array.ndim, tuple(sorted(first.shape)), _unordered(first)


def _unordered(array: Array) -> int:
    """Return a number that depends on the bits of the elements, and not on their order: the sum of them."""
    return int(array.view(np.dtype(f"u{array.dtype.itemsize}")).sum(dtype=np.uint64))
