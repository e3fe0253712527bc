"""At which ranks and attributes a rule is proven for shipping: variations of the instance that it was found at.

The list is not exhaustive: a match at another signature is proven when it occurs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from superopt.generate.generalise.attributes import ALTERNATIVES
from superopt.ir.rule import Signature, SignatureValue
from superopt.ir.term import AttrVar
from superopt.rulebook.variadic import Schema

__all__ = ["variations"]


_RANK = 4  # most axes of what is reduced or normalised
_BOUNDS = ((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0))  # of Clip, as models have them


def variations(schema: Schema, variation: str) -> Iterator[Signature]:
    """Signatures worth shipping, the instance's own first; sizes that typing fixes are still symbolic."""
    schema = _anywhere(schema)
    base = schema.open
    yield base
    if variation == "conv":
        yield from _conv(schema)
        return
    for attrs in _attribute_choices(schema, fixed=("axis",) if variation == "rows" else ()):
        yield Signature(base.shapes, attrs)
    if variation in ("axes", "rows"):
        yield from _everywhere(schema, base, fixed=variation == "rows")
    for by in _LIFTS.get(variation, _nowhere)(schema):
        for lifted in _lifted(schema, by):
            if variation in ("axes", "rows") and max(len(shape) for _, shape in lifted.shapes) > _RANK:
                continue
            yield lifted
            if variation == "layout":
                yield from (_along(schema, lifted, axis) for axis in (-2, -3))
            if variation in ("axes", "rows"):
                yield from _everywhere(schema, lifted, fixed=variation == "rows")
    for name, shape in base.shapes:
        if not shape:  # scalars are often stored with one dimension
            yield Signature(tuple((n, (1,) if n == name else s) for n, s in base.shapes), base.attrs)


def _anywhere(schema: Schema) -> Schema:
    """A Gather of one place picks any place."""
    attrs = tuple(
        (name, None if schema.kinds[name] == "indices" and isinstance(value, int) else value)
        for name, value in schema.open.attrs
    )
    return replace(schema, open=Signature(schema.open.shapes, attrs))


def _nowhere(schema: Schema) -> Iterator[dict[str, int]]:
    yield from ()


def _tensors(schema: Schema) -> list[str]:
    """Names of variables that are no vectors and no numbers."""
    return [name for name, shape in schema.open.shapes if len(shape) > 1]


def _matrix(schema: Schema) -> Iterator[dict[str, int]]:
    tensors = _tensors(schema)
    yield dict.fromkeys(tensors, 1)
    yield from ({name: 1} for name in tensors[:1])
    yield dict.fromkeys(tensors, 2)
    yield from ({name: -1} for name, _ in schema.open.shapes)  # a bias is a vector as well as a matrix


def _layout(schema: Schema) -> Iterator[dict[str, int]]:
    yield from (dict.fromkeys((name for name, _ in schema.open.shapes), more) for more in (-1, 1, 2))


def _elementwise(schema: Schema) -> Iterator[dict[str, int]]:
    yield from _layout(schema)
    if len(schema.open.shapes) > 1:
        yield from ({name: more} for name, _ in schema.open.shapes for more in (-2, -1))


def _axes(schema: Schema) -> Iterator[dict[str, int]]:
    yield from (dict.fromkeys((name for name, shape in schema.open.shapes if shape), more) for more in (-1, 1, 2))


def _rows(schema: Schema) -> Iterator[dict[str, int]]:
    """All tensors have more axes, or one of them has: weights stay matrices, and biases vectors."""
    tensors = _tensors(schema)
    for more in (1, 2):
        yield dict.fromkeys(tensors, more)
        if len(tensors) > 1:
            yield from ({name: more} for name in tensors)
            yield from ({**dict.fromkeys(tensors, more), name: more - 1} for name in tensors)


_LIFTS: Mapping[str, Callable[[Schema], Iterator[dict[str, int]]]] = {
    "matrix": _matrix,
    "layout": _layout,
    "elementwise": _elementwise,
    "axes": _axes,
    "rows": _rows,
}


def _along(schema: Schema, signature: Signature, axis: int) -> Signature:
    """With that axis wherever one is named."""
    attrs = tuple((name, axis if schema.kinds[name] == "axis" else value) for name, value in signature.attrs)
    return Signature(signature.shapes, attrs)


def _everywhere(schema: Schema, signature: Signature, fixed: bool) -> Iterator[Signature]:
    """Along each axis (the instance's only where that is fixed), kept or not; a number may also differ from place to
    place of the other axes."""
    named = {schema.kinds[name] for name, _ in signature.attrs}
    own = [value for name, value in signature.attrs if schema.kinds[name] == "axis" and isinstance(value, int)]
    rank = max((len(shape) for _, shape in signature.shapes), default=0)
    numbers = [name for name, shape in signature.shapes if not shape]
    for axis in (-1, -2, -3)[:rank] if own and not fixed else own[:1] or (-1,):
        along = signature if fixed else _along(schema, signature, axis)
        after = (None,) * (-axis - 1)
        constant = (*(None,) * (rank + axis), 1, *after)
        for kept in (0, 1) if "keepdims" in named else (1,):
            attrs = tuple((n, kept if schema.kinds[n] == "keepdims" else v) for n, v in along.attrs)
            yield Signature(along.shapes, attrs)
            for name, shape in itertools.product(numbers, (after, constant) if kept else (after,)):
                yield Signature(tuple((n, shape if n == name else s) for n, s in along.shapes), attrs)


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


def _attribute_choices(schema: Schema, fixed: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, SignatureValue], ...]]:
    """One attribute at a time at other values; Clip's bounds both."""
    for name, value in schema.open.attrs:
        kind = schema.kinds[name]
        others: tuple[SignatureValue, ...] = ()
        if kind in fixed:
            continue
        if kind == "perm" and isinstance(value, tuple):
            others = tuple(itertools.permutations(range(len(value))))
        elif kind == "shape" and isinstance(value, tuple):
            others = ((None,) * 2, (None,), ())
        elif kind in ("axis", "axes", "keepdims", "linear_before_reset", "transA", "transB", "p"):
            others = tuple(v for v in ALTERNATIVES[kind])
        for other in others:
            if other != value:
                yield tuple((key, other if key == name else old) for key, old in schema.open.attrs)
    bounds = {name: schema.kinds[name] for name, _ in schema.open.attrs if schema.kinds[name].startswith("bound_")}
    if bounds:
        yield tuple((name, AttrVar(name) if name in bounds else old) for name, old in schema.open.attrs)
        for low, high in _BOUNDS:
            usual: dict[str, SignatureValue] = {"bound_low": low, "bound_high": high}
            yield tuple((name, usual.get(schema.kinds[name], old)) for name, old in schema.open.attrs)


def _conv(schema: Schema) -> Iterator[Signature]:
    """Strides, dilations, pads and windows symbolic where that is proven, else at usual values; and sizes that typing
    fixes at the instance's attributes as they are there."""
    kinds = {schema.kinds[name] for name, _ in schema.open.attrs}
    amounts = {name for name, _ in schema.open.attrs if schema.kinds[name] == "amount"}
    for general, windows in _WINDOWED if "kernel_shape" in kinds else _LAYERS:
        for usual in _usual((kinds | amounts) - general, windows):
            attrs = []
            for name, value in schema.open.attrs:
                kind = schema.kinds[name]
                named = usual.get(name if kind == "amount" else kind, value)
                attrs.append((name, _symbolic(kind, value) if kind in general else named))
            for shapes in dict.fromkeys((schema.open.shapes, schema.base.shapes)):
                yield Signature(shapes, tuple(attrs))


_ALL = frozenset({"strides", "dilations", "kernel_shape", "pads", "pad"})
# What is symbolic, and the windows (size, pads on each side, stride) of layers as models have them where it is not.
_ONE = ((3, 1, 1),)
_LAYERS = (
    (_ALL, _ONE),
    (_ALL - {"dilations"}, _ONE),
    (frozenset({"strides"}), ((1, 0, 1), (3, 1, 1), (5, 2, 1), (7, 3, 1))),
    (frozenset({"pads", "pad"}), ((3, 1, 1), (3, 1, 2))),
    (frozenset[str](), ((1, 0, 1), (3, 1, 1), (3, 1, 2), (5, 2, 1), (7, 3, 1), (7, 3, 2))),
)
# An average that leaves the padding out is proven where windows and pads are numbers, or there is no padding.
_WINDOWED = (
    (_ALL, _ONE),
    (_ALL - {"dilations"}, _ONE),
    (frozenset({"strides", "kernel_shape"}), ((3, 0, 1),)),
    (frozenset({"strides"}), ((2, 0, 2), (3, 1, 1))),
    (frozenset[str](), ((2, 0, 2), (3, 1, 1), (3, 1, 2), (3, 0, 2))),
)
# Pads of two Convs of which one has the smaller kernel: 1 x 1 and 3 x 3, 1 x 3 or 3 x 1 and 3 x 3, 3 x 3 and 5 x 5, ...
_NESTED = (
    ((0, 0, 0, 0), (1, 1, 1, 1)), ((0, 1, 0, 1), (1, 1, 1, 1)), ((1, 0, 1, 0), (1, 1, 1, 1)),
    ((0, 0, 0, 0), (2, 2, 2, 2)), ((1, 1, 1, 1), (2, 2, 2, 2)), ((0, 0, 0, 0), (3, 3, 3, 3)),
    ((1, 1, 1, 1), (3, 3, 3, 3)), ((2, 2, 2, 2), (3, 3, 3, 3)),
)  # fmt: skip
_ADDED = ((1, 1, 1, 1), (0, 0, 1, 1), (1, 0, 1, 0), (0, 1, 0, 1), (2, 2, 2, 2), (3, 3, 3, 3))


def _usual(kinds: set[str], windows: Sequence[tuple[int, int, int]]) -> list[dict[str, SignatureValue]]:
    """Usual values of the attributes of these kinds, each choice once."""
    found: dict[tuple[tuple[str, SignatureValue], ...], None] = {}
    for size, pad, stride in windows:
        for counted, (inner, outer), added in itertools.product((0, 1), _NESTED, _ADDED):
            value: dict[str, SignatureValue] = {
                "kernel_shape": (size, size), "pads": (pad,) * 4, "strides": (stride,) * 2,
                "count_include_pad": counted, "inner": inner, "outer": outer,
                **{f"a{k}": amount for k, amount in enumerate(added)},
            }  # fmt: skip
            found.setdefault(tuple((kind, value[kind]) for kind in sorted(kinds & value.keys())))
    return [dict(choice) for choice in found]


def _symbolic(kind: str, value: SignatureValue) -> SignatureValue:
    if kind in ("strides", "dilations", "kernel_shape", "pads") and isinstance(value, tuple):
        return (None,) * len(value)
    if kind == "pad":
        return None
    return value
