"""Sizes that are certain: numbers, and polynomials of sizes of the model's inputs."""

from __future__ import annotations

from collections.abc import Iterable

from superopt.ir.dim import Size, Sizes, symbols_of
from superopt.ir.types import TensorType

__all__ = ["CertainSizes"]


class CertainSizes:
    """Tells the certain sizes from others, given the shapes of a model's inputs."""

    def __init__(self, shapes: Iterable[Sizes]) -> None:
        self._symbols = frozenset(name for shape in shapes for size in shape for name in symbols_of(size))

    def has(self, size: Size) -> bool:
        """Return True if the size is a number, or a polynomial of sizes of the inputs."""
        return symbols_of(size) <= self._symbols

    def better(self, ours: Sizes | None, theirs: Sizes | None) -> Sizes | None:
        """Return one of two proven shapes of a tensor, with the certain sizes of both."""
        if ours is None or theirs is None or len(ours) != len(theirs):
            return theirs if ours is None else ours
        return tuple(
            t if self.has(t) and not isinstance(o, int) and not self.has(o) else o
            for o, t in zip(ours, theirs, strict=True)
        )

    def refined(self, type: TensorType | None, proven: Sizes | None) -> TensorType | None:
        """Return a type with the proven sizes that are certain."""
        if type is None or proven is None:
            return type
        if type.shape is None or len(type.shape) != len(proven):
            return TensorType(type.dtype, proven) if all(map(self.has, proven)) else type
        return TensorType(type.dtype, tuple(p if self.has(p) else t for p, t in zip(proven, type.shape, strict=True)))
