"""At which ranks and attributes a rule is proven for shipping: variations of the instance that it was found at.

The list is not exhaustive: a match at another signature is proven when it occurs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from superopt.generate.generalise import ALTERNATIVES, Schema
from superopt.ir.rule import Signature, SignatureValue

__all__ = ["variations"]


def variations(schema: Schema, lifts: str) -> Iterator[Signature]:
    """Signatures worth shipping, the instance's own first; sizes that typing fixes are still symbolic."""
    base = schema.open
    yield base
    if lifts == "conv":
        yield from _conv(schema)
        return
    for attrs in _attribute_choices(schema):
        yield Signature(base.shapes, attrs)
    if lifts == "matrix":
        yield from _lifted(schema, {name: 1 for name, shape in base.shapes if len(shape) > 1})
        first = next((name for name, shape in base.shapes if len(shape) > 1), None)
        if first is not None:
            yield from _lifted(schema, {first: 1})
        yield from _lifted(schema, {name: 2 for name, shape in base.shapes if len(shape) > 1})
        for name, _ in base.shapes:  # a bias is a vector as well as a matrix
            yield from _lifted(schema, {name: -1})
    if lifts == "layout":
        for rank in (-1, 1, 2):
            for lifted in _lifted(schema, {name: rank for name, _ in base.shapes}):
                yield lifted
                for axis in (-2, -3):
                    yield Signature(
                        lifted.shapes, tuple((n, axis if schema.kinds[n] == "axis" else v) for n, v in lifted.attrs)
                    )
    if lifts == "elementwise":
        for rank in (-1, 1, 2):
            yield from _lifted(schema, {name: rank for name, _ in base.shapes})
        if len(base.shapes) > 1:
            for name, _ in base.shapes:
                yield from _lifted(schema, {name: -2})
                yield from _lifted(schema, {name: -1})
    for name, shape in base.shapes:
        if not shape:  # scalars are often stored with one dimension
            yield Signature(tuple((n, (1,) if n == name else s) for n, s in base.shapes), base.attrs)


def _lifted(schema: Schema, by: dict[str, int]) -> Iterator[Signature]:
    """Axes added in front of (or taken from) some variables; permutations leave added axes in place."""
    shapes: list[tuple[str, tuple[int | None, ...]]] = []
    for name, shape in schema.open.shapes:
        more = by.get(name, 0)
        if len(shape) + more < 0:
            return
        shapes.append((name, (None,) * more + shape if more >= 0 else shape[-more:]))
    most = max(by.values(), default=0)
    attrs = []
    for name, value in schema.open.attrs:
        if schema.kinds[name] == "perm" and isinstance(value, tuple):
            if most < 0:
                return
            value = (*range(most), *(most + p for p in value if isinstance(p, int)))
        if schema.kinds[name] == "shape" and isinstance(value, tuple):
            value = (None,) * (len(value) + most) if len(value) + most >= 0 else ()
        attrs.append((name, value))
    yield Signature(tuple(shapes), tuple(attrs))


def _attribute_choices(schema: Schema) -> Iterator[tuple[tuple[str, SignatureValue], ...]]:
    """One attribute at a time at other values."""
    for name, value in schema.open.attrs:
        kind = schema.kinds[name]
        others: tuple[SignatureValue, ...] = ()
        if kind == "perm" and isinstance(value, tuple):
            others = tuple(itertools.permutations(range(len(value))))
        elif kind == "shape" and isinstance(value, tuple):
            others = ((None,) * 2, (None,), ())
        elif kind in ("axis", "axes", "keepdims", "transA", "transB"):
            others = tuple(v for v in ALTERNATIVES[kind])
        for other in others:
            if other != value:
                yield tuple((key, other if key == name else old) for key, old in schema.open.attrs)


def _conv(schema: Schema) -> Iterator[Signature]:
    """Strides, dilations and pads symbolic where that is proven, else at usual values."""
    base = schema.open
    for general in (("strides", "dilations", "pads", "pad"), ("pads", "pad"), ()):
        for strides in ((1, 1), (2, 2)):
            for pads in ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)):
                usual: dict[str, SignatureValue] = {"strides": strides, "pads": pads}
                attrs = []
                for name, value in base.attrs:
                    kind = schema.kinds[name]
                    attrs.append((name, _symbolic(kind, value) if kind in general else usual.get(kind, value)))
                yield Signature(base.shapes, tuple(attrs))


def _symbolic(kind: str, value: SignatureValue) -> SignatureValue:
    if kind in ("strides", "dilations", "pads") and isinstance(value, tuple):
        return (None,) * len(value)
    if kind == "pad":
        return None
    return value
