"""Attributes at given sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from superopt.ir.dim import Dim, evaluate
from superopt.ir.term import Attr

__all__ = ["concrete_attrs"]


def concrete_attrs(attrs: Iterable[tuple[str, Attr]], sizes: Mapping[str, int]) -> dict[str, Attr]:
    """Return `attrs` with symbols replaced by `sizes`, also inside tuples."""

    def at(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(at, value))
        return evaluate(value, sizes) if isinstance(value, Dim) else value

    return {name: at(value) for name, value in attrs}
