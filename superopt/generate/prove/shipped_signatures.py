"""Signatures (ranks and attributes) at which a rule is proven before shipping: variations of its first instance.

The list is not exhaustive: a match at another signature is proven when it occurs in a model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from superopt.generate.generalise.attribute_values import ALTERNATIVES
from superopt.ir.rule import Signature, SignatureValue
from superopt.ir.term import AttrVar
from superopt.rulebook.variadic import Schema

__all__ = ["variations"]


_MAX_RANK = 4  # of a value that is reduced or normalised
# Axes of scores (batch, heads, query, key) along which what is added to them may have the size 1.
_SCORES_RANK, _ALIKE = 4, ((0, 1), (1,), (0,))
_CLIP_BOUNDS = ((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0))  # bounds that occur in models


def variations(schema: Schema, variation: str) -> Iterator[Signature]:
    """Yield signatures worth shipping, the instance's own first. Sizes that typing fixes to a number are symbolic."""
    schema = _with_free_indices(schema)
    base = schema.open
    yield base
    if variation == "pointwise":
        yield from _pointwise(schema)
        return
    if variation == "conv":
        yield from _conv(schema)
        return
    for attrs in _attribute_choices(schema, fixed=("axis",) if variation == "rows" else ()):
        yield replace(base, attrs=attrs)
    if variation in ("axes", "rows"):
        yield from _along_each_axis(schema, base, fixed=variation == "rows")
    for by in _LIFTS.get(variation, _no_lift)(schema):
        for lifted in _lifted(schema, by):
            if variation in ("axes", "rows") and max(len(shape) for _, shape in lifted.shapes) > _MAX_RANK:
                continue
            yield lifted
            if variation == "function":
                yield replace(lifted, attrs=base.attrs)  # numbers stay numbers
            if variation == "layout":
                yield from (_with_axis(schema, lifted, axis) for axis in (-2, -3))
            if variation in ("axes", "rows"):
                for one in _with_lists_of_axes(schema, lifted):
                    yield from _along_each_axis(schema, one, fixed=variation == "rows")
    if variation == "elementwise":
        yield from _pointwise(schema)
    if variation == "attention":
        yield from _for_all_heads(base)
    for name, shape in base.shapes:
        if not shape:  # models often store scalars as tensors of rank 1, and rules for products unsqueeze those
            for ones in ((1,), (1, 1)) if variation == "attention" else ((1,),):
                yield replace(base, shapes=tuple((n, ones if n == name else s) for n, s in base.shapes))


def _for_all_heads(base: Signature) -> Iterator[Signature]:
    """Yield signatures in which what is added to scores (batch, heads, query, key) is the same for some of these."""
    for name, shape in base.shapes:
        if len(shape) == _SCORES_RANK:
            for axes in _ALIKE:
                own = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
                yield replace(base, shapes=tuple((n, own if n == name else s) for n, s in base.shapes))


def _with_free_indices(schema: Schema) -> Schema:
    """Return the schema with a symbol for each single index of a Gather, because such a Gather may select any index."""
    attrs = tuple(
        (name, None if schema.kinds[name] == "indices" and isinstance(value, int) else value)
        for name, value in schema.open.attrs
    )
    return replace(schema, open=replace(schema.open, attrs=attrs))


def _no_lift(schema: Schema) -> Iterator[dict[str, int]]:
    """Return no variation of ranks."""
    yield from ()


def _tensor_names(schema: Schema) -> list[str]:
    """Return the names of variables of rank 2 or more."""
    return [name for name, shape in schema.open.shapes if len(shape) > 1]


_MAX_BROADCAST = 3  # variables of which every choice may be smaller
# Shapes of smaller operands of elementwise operators: numbers, rows, columns, and one number for each channel.
_SMALLER: Mapping[int, tuple[tuple[int | None, ...], ...]] = {
    1: ((),), 2: ((), (None,), (None, 1)), 3: ((), (None,)), 4: ((), (None,), (None, 1, 1)),
}  # fmt: skip


def _pointwise(schema: Schema) -> Iterator[Signature]:
    """Yield signatures of elementwise rules: all ranks, some variables scalars or rows, and integers.

    Types that the operators do not accept are left out when the rule is typed.
    """
    names, real = [name for name, _ in schema.open.shapes], not schema.open.dtypes
    for rank in (2, 1, 3, 4):
        full = (None,) * rank
        yield replace(schema.open, shapes=tuple((name, full) for name in names))
        if len(names) > _MAX_BROADCAST:
            continue
        for small in _SMALLER[rank]:
            most = len(names) - 1 if rank < 3 or not small else 1  # smaller variables
            for some in itertools.chain.from_iterable(itertools.combinations(names, k + 1) for k in range(most)):
                shapes = tuple((name, small if name in some else full) for name in names)
                yield replace(schema.open, shapes=shapes)
    yield replace(schema.open, shapes=tuple((name, ()) for name in names))
    for dtype in ("int64", "int32") if real else ():
        yield replace(schema.open, dtypes=tuple((name, dtype) for name in names))


def _matrix(schema: Schema) -> Iterator[dict[str, int]]:
    """Yield changes of ranks for matrix rules: batch axes for all tensors or the first; one axis less for one."""
    tensors = _tensor_names(schema)
    yield dict.fromkeys(tensors, 1)
    yield from ({name: 1} for name in tensors[:1])
    yield dict.fromkeys(tensors, 2)
    yield from ({name: -1} for name, _ in schema.open.shapes)  # a bias may be a vector or a matrix


def _layout(schema: Schema) -> Iterator[dict[str, int]]:
    """Yield changes of ranks for layout rules: axes added to all variables, or one axis removed from all."""
    yield from (dict.fromkeys((name for name, _ in schema.open.shapes), more) for more in (-1, 1, 2))


def _elementwise(schema: Schema) -> Iterator[dict[str, int]]:
    """Yield changes of ranks for elementwise rules: as for layout rules, and fewer axes for one broadcast variable."""
    yield from _layout(schema)
    if len(schema.open.shapes) > 1:
        yield from ({name: more} for name, _ in schema.open.shapes for more in (-2, -1))


def _axes(schema: Schema) -> Iterator[dict[str, int]]:
    """Yield changes of ranks for rules along an axis: down to vectors, and scalars stay scalars."""
    yield from (dict.fromkeys((name for name, shape in schema.open.shapes if shape), more) for more in (-2, -1, 1, 2))


def _rows(schema: Schema) -> Iterator[dict[str, int]]:
    """Yield changes of ranks for rules on rows: axes added to all tensors or one. Weights and biases keep theirs."""
    tensors = _tensor_names(schema)
    for more in (1, 2):
        yield dict.fromkeys(tensors, more)
        if len(tensors) > 1:
            yield from ({name: more} for name in tensors)
            yield from ({**dict.fromkeys(tensors, more), name: more - 1} for name in tensors)


def _function(schema: Schema) -> Iterator[dict[str, int]]:
    """Yield changes of ranks for functions of rows or elements: tensors have fewer or more axes, vectors stay."""
    yield from (dict.fromkeys(_tensor_names(schema), more) for more in (-2, -1, 1))


_LIFTS: Mapping[str, Callable[[Schema], Iterator[dict[str, int]]]] = {
    "matrix": _matrix,
    "layout": _layout,
    "elementwise": _elementwise,
    "axes": _axes,
    "rows": _rows,
    "function": _function,
}


def _with_axis(schema: Schema, signature: Signature, axis: int) -> Signature:
    """Return the signature with `axis` as the value of each attribute that is an axis."""
    attrs = tuple((name, axis if schema.kinds[name] == "axis" else value) for name, value in signature.attrs)
    return replace(signature, attrs=attrs)


def _with_lists_of_axes(schema: Schema, signature: Signature) -> Iterator[Signature]:
    """Yield the signature with each usual list of axes, one attribute at a time."""
    yield signature
    for name, value in signature.attrs:
        for axes in ALTERNATIVES["axes"] if schema.kinds[name] == "axes" else ():
            if axes != value:
                yield replace(signature, attrs=tuple((n, axes if n == name else v) for n, v in signature.attrs))


def _along_each_axis(schema: Schema, signature: Signature, fixed: bool) -> Iterator[Signature]:
    """Yield signatures with each axis (only the instance's if it is `fixed`), and with `keepdims` 0 and 1.

    A scalar variable may also be a tensor that varies along the other axes.
    """
    named = {schema.kinds[name] for name, _ in signature.attrs}
    own = [value for name, value in signature.attrs if schema.kinds[name] == "axis" and isinstance(value, int)]
    rank = max((len(shape) for _, shape in signature.shapes), default=0)
    numbers = [name for name, shape in signature.shapes if not shape]
    for axis in (-1, -2, -3)[:rank] if own and not fixed else own[:1] or (-1,):
        along = signature if fixed else _with_axis(schema, signature, axis)
        after = (None,) * (-axis - 1)
        constant = (*(None,) * (rank + axis), 1, *after)
        for kept in (0, 1) if "keepdims" in named else (1,):
            attrs = tuple((n, kept if schema.kinds[n] == "keepdims" else v) for n, v in along.attrs)
            yield replace(along, attrs=attrs)
            for name, shape in itertools.product(numbers, (after, constant) if kept else (after,)):
                shapes = tuple((n, shape if n == name else s) for n, s in along.shapes)
                yield replace(along, shapes=shapes, attrs=attrs)


_LISTS = {"shape": 1, "amounts": 2}  # attributes with this many entries for each axis


def _lifted(schema: Schema, by: dict[str, int]) -> Iterator[Signature]:
    """Yield the signature with axes added in front of some variables, or removed there.

    Permutations keep added axes in place.
    """
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
        if schema.kinds[name] in _LISTS and isinstance(value, tuple):
            value = (None,) * max(0, len(value) + _LISTS[schema.kinds[name]] * most)
        attrs.append((name, value))
    yield replace(schema.open, shapes=tuple(shapes), attrs=tuple(attrs))


def _attribute_choices(schema: Schema, fixed: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, SignatureValue], ...]]:
    """Yield values of all attributes: one attribute at a time varies, or both bounds of Clip at the same time."""
    for name, value in schema.open.attrs:
        kind = schema.kinds[name]
        others: tuple[SignatureValue, ...] = ()
        if kind in fixed:
            continue
        if kind == "perm" and isinstance(value, tuple):
            others = tuple(itertools.permutations(range(len(value))))
        elif kind == "shape" and isinstance(value, tuple):
            others = ((None,) * 2, (None,), ())
        elif kind == "expand" and isinstance(value, tuple) and None in value:
            others = tuple((None,) * rank for rank in range(1, _MAX_RANK + 1))
        elif kind == "amounts" and isinstance(value, tuple):
            others = ((None,) * len(value),)
        elif kind in ("axis", "axes", "keepdims", "linear_before_reset", "transA", "transB", "p"):
            others = tuple(v for v in ALTERNATIVES[kind])
        for other in others:
            if other != value:
                yield tuple((key, other if key == name else old) for key, old in schema.open.attrs)
    if "amount" in schema.kinds.values():
        yield tuple((name, None if schema.kinds[name] == "amount" else old) for name, old in schema.open.attrs)
    bounds = {name: schema.kinds[name] for name, _ in schema.open.attrs if schema.kinds[name].startswith("bound_")}
    if bounds:
        yield tuple((name, AttrVar(name) if name in bounds else old) for name, old in schema.open.attrs)
        for low, high in _CLIP_BOUNDS:
            usual: dict[str, SignatureValue] = {"bound_low": low, "bound_high": high}
            yield tuple((name, usual.get(schema.kinds[name], old)) for name, old in schema.open.attrs)


def _conv(schema: Schema) -> Iterator[Signature]:
    """Yield signatures of convolutions and poolings.

    Strides, dilations, pads and windows are symbolic if the rule can be proven for symbols, otherwise they have usual
    values. Sizes that typing fixes at the instance's attributes are symbolic in one variant and literals in the other.
    """
    kinds = {schema.kinds[name] for name, _ in schema.open.attrs}
    amounts = {name for name, _ in schema.open.attrs if schema.kinds[name] == "amount"}
    for general, windows in _POOL_LAYERS if "kernel_shape" in kinds else _CONV_LAYERS:
        for usual in _usual((kinds | amounts) - general, windows):
            attrs = []
            for name, value in schema.open.attrs:
                kind = schema.kinds[name]
                named = usual.get(name if kind == "amount" else kind, value)
                if isinstance(named, tuple) and isinstance(value, tuple):
                    named = named[: len(value)]  # of sequences, which have one axis
                attrs.append((name, _symbolic(kind, value) if kind in general else named))
            for shapes in dict.fromkeys((schema.open.shapes, schema.base.shapes)):
                yield replace(schema.open, shapes=shapes, attrs=tuple(attrs))


_ALL_SYMBOLIC = frozenset({"strides", "dilations", "kernel_shape", "pads", "pad"})
# Pairs of a set of symbolic attributes, and the windows (size, pads on each side, stride) of layers in models for the
# other attributes.
_WINDOW_3 = ((3, 1, 1),)
_CONV_LAYERS = (
    (_ALL_SYMBOLIC, _WINDOW_3),
    (_ALL_SYMBOLIC - {"dilations"}, _WINDOW_3),
    (frozenset({"strides"}), ((1, 0, 1), (3, 1, 1), (5, 2, 1), (7, 3, 1))),
    (frozenset({"pads", "pad"}), ((3, 1, 1), (3, 1, 2))),
    (frozenset[str](), ((1, 0, 1), (3, 1, 1), (3, 1, 2), (5, 2, 1), (7, 3, 1), (7, 3, 2))),
)
# An average that excludes padding can only be proven if windows and pads are numbers, or if there is no padding.
_POOL_LAYERS = (
    (_ALL_SYMBOLIC, _WINDOW_3),
    (_ALL_SYMBOLIC - {"dilations"}, _WINDOW_3),
    (frozenset({"strides", "kernel_shape"}), ((3, 0, 1),)),
    (frozenset({"strides"}), ((2, 0, 2), (3, 1, 1))),
    (frozenset[str](), ((2, 0, 2), (3, 1, 1), (3, 1, 2), (3, 0, 2))),
)
# Pads of two Convs, the first with the smaller kernel: 1 x 1 and 3 x 3, 1 x 3 or 3 x 1 and 3 x 3, 3 x 3 and 5 x 5, ...
_NESTED_PADS = (
    ((0, 0, 0, 0), (1, 1, 1, 1)), ((0, 1, 0, 1), (1, 1, 1, 1)), ((1, 0, 1, 0), (1, 1, 1, 1)),
    ((0, 0, 0, 0), (2, 2, 2, 2)), ((1, 1, 1, 1), (2, 2, 2, 2)), ((0, 0, 0, 0), (3, 3, 3, 3)),
    ((1, 1, 1, 1), (3, 3, 3, 3)), ((2, 2, 2, 2), (3, 3, 3, 3)),
)  # fmt: skip
_PAD_AMOUNTS = ((1, 1, 1, 1), (0, 0, 1, 1), (1, 0, 1, 0), (0, 1, 0, 1), (2, 2, 2, 2), (3, 3, 3, 3))


def _usual(kinds: set[str], windows: Sequence[tuple[int, int, int]]) -> list[dict[str, SignatureValue]]:
    """Return the usual values of the attributes of these kinds, each choice once."""
    found: dict[tuple[tuple[str, SignatureValue], ...], None] = {}
    for size, pad, stride in windows:
        for counted, (inner, outer), added in itertools.product((0, 1), _NESTED_PADS, _PAD_AMOUNTS):
            value: dict[str, SignatureValue] = {
                "kernel_shape": (size, size), "pads": (pad,) * 4, "strides": (stride,) * 2,
                "count_include_pad": counted, "inner": inner, "outer": outer,
                **{f"a{k}": amount for k, amount in enumerate(added)},
            }  # fmt: skip
            found.setdefault(tuple((kind, value[kind]) for kind in sorted(kinds & value.keys())))
    return [dict(choice) for choice in found]


def _symbolic(kind: str, value: SignatureValue) -> SignatureValue:
    """Return an attribute's value with symbols if it is a window or pad; any other attribute keeps its value."""
    if kind in ("strides", "dilations", "kernel_shape", "pads") and isinstance(value, tuple):
        return (None,) * len(value)
    if kind == "pad":
        return None
    return value
