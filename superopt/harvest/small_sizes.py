"""A window at small sizes: each size becomes a symbol, typing states the conditions, and small numbers that meet them
replace the symbols.

Equal sizes are one symbol. A size 1 stays 1 and every other size stays above 1, so that the same axes broadcast. The
spatial sizes of kernels, pads, strides and dilations keep their numbers; attributes that are sizes (of Reshape, Split,
Slice; groups, heads, indices) become symbols as well. Two kinds of conditions are added to those of typing: an image
is large enough that a kernel does not see all of it at once, and a stride that divides a size still divides it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from superopt.harvest.pieces import Piece, mapped
from superopt.harvest.solving import solve
from superopt.harvest.window_form import CONVOLUTIONS
from superopt.ir.dim import Dim, NoValue, Size, Sizes, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import IllTyped, make
from superopt.ir.operator import Need
from superopt.ir.rule import Condition
from superopt.ir.term import CLOSED_FORM, Term, topological, var
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["LeftOut", "Small", "shrunk"]

# Attributes that count elements, or name places; they mean the same in every operator that has them.
_SIZES = ("group", "indices", "n", "num_groups", "num_heads", "shape", "split", "starts", "ends")
_MAX_INDICES = 8
_MAX_ELEMENTS = 20_000  # of all values of a window together
_NO_BOUND = 2**31 - 1  # an end of a Slice from here on is none
_LARGEST_UNKNOWN = 40  # for sizes that a model leaves open


class LeftOut(ValueError):
    """A window cannot be made small; the message is the reason, the same for all windows of its kind."""


class Small(NamedTuple):
    """Untyped outputs, the small type of each variable, and the names of the weights."""

    outputs: tuple[Term, ...]
    types: dict[str, TensorType]
    weights: frozenset[str]


class _Symbols:
    """Symbols for sizes; `largest` has the size that each stands for in the model."""

    def __init__(self) -> None:
        self.largest: dict[str, int] = {}

    def lift(self, size: Size) -> Size:
        """Return the symbol for a size; 0, 1 and negative numbers stay."""
        if isinstance(size, Dim):
            for name in symbols_of(size):
                self.largest[f"d_{name}"] = _LARGEST_UNKNOWN
            return evaluate(size, {name: symbol(f"d_{name}") for name in symbols_of(size)})
        if size <= 1 or size >= _NO_BOUND:
            return size
        self.largest[f"s{size}"] = size
        return symbol(f"s{size}")

    def original(self, size: Size) -> int | None:
        """Return the value of an expression in the model, or None if the model leaves it open."""
        value = evaluate(size, {name: number for name, number in self.largest.items() if name[0] == "s"})
        return value if isinstance(value, int) else None


def shrunk(piece: Piece) -> Small:
    """Return the window at small sizes. Raises LeftOut."""
    symbols = _Symbols()
    conditions: list[Condition] = []

    def need(relation: str, left: Size, right: Size) -> None:
        conditions.append(Condition(relation, left, right))

    kernels = _kernels(piece)
    lifted: dict[Term, Term] = {}
    order = list(topological(piece.outputs))
    try:
        for term in order:
            lifted[term] = _typed_ones(_lifted(term, lifted, symbols, kernels, need), symbols, need)
            conditions += _wide_enough(lifted[term], symbols)
    except (IllTyped, NoValue, TypeError) as error:
        raise LeftOut(f"{term.op} has no symbolic type") from error
    values = solve(symbols.largest, conditions)
    if values is None:
        raise LeftOut("no small sizes found")
    return _at(piece, lifted, order, dict(values))


def _kernels(piece: Piece) -> frozenset[Term]:
    """Return the leaves that are kernels of convolutions: their spatial sizes stay."""
    return frozenset(
        term.inputs[1]
        for term in topological(piece.outputs)
        if term.op in CONVOLUTIONS and term.inputs[1] is not None and term.inputs[1].op == "Var"
    )


def _lifted(term: Term, lifted: Mapping[Term, Term], symbols: _Symbols, kernels: frozenset[Term], need: Need) -> Term:
    """Return a term with symbols for sizes."""
    if term.op == "Var":
        assert term.type is not None and term.type.shape is not None
        kept = 2 if term in kernels else len(term.type.shape)
        sizes = (*map(symbols.lift, term.type.shape[:kept]), *term.type.shape[kept:])
        # Rules are proven over the reals, so one real type stands for all.
        dtype = "float" if term.type.dtype in FLOAT_DTYPES else term.type.dtype
        return var(str(term.attr("name")), TensorType(dtype, sizes))
    attrs = dict(term.attrs)
    attrs.update((name, mapped(attrs[name], symbols.lift)) for name in _SIZES if name in attrs)
    if term.op == "Gather" and isinstance(attrs["indices"], tuple) and len(attrs["indices"]) > _MAX_INDICES:
        raise LeftOut(f"Gather of more than {_MAX_INDICES} indices")
    inputs = tuple(None if used is None else lifted[used] for used in term.inputs)
    return make(term.op, inputs, attrs, "float", need)


def _typed_ones(term: Term, symbols: _Symbols, need: Need) -> Term:
    """Return a value whose type has the number 1 where its size is 1 in the model, and needs a size from 2 elsewhere.

    Typing takes symbols for sizes that do not broadcast.
    """

    def settled(size: Size) -> Size:
        if not isinstance(size, Dim):
            return size
        if symbols.original(size) == 1:
            need("==", size, 1)
            return 1
        need("<=", 2, size)
        return size

    types = tuple(
        type if type is None or type.shape is None else TensorType(type.dtype, tuple(map(settled, type.shape)))
        for type in term.types
    )
    return term if types == term.types else Term.of(term.op, term.inputs, dict(term.attrs), types)


def _wide_enough(term: Term, symbols: _Symbols) -> list[Condition]:
    """Return the conditions on images: wider than half a window, and cut evenly by strides if the model's image is."""
    x, attrs = (term.inputs[0] if term.inputs else None), dict(term.attrs)
    if x is None or x.type is None or "strides" not in attrs:
        return []
    kernel = attrs["kernel_shape"] if "kernel_shape" in attrs else _spatial(term.inputs[1])
    strides, dilations = attrs["strides"], attrs["dilations"]
    assert isinstance(kernel, tuple) and isinstance(strides, tuple) and isinstance(dilations, tuple)
    found: list[Condition] = []
    for image, size, stride, dilation in zip(_spatial(x), kernel, strides, dilations, strict=True):
        if isinstance(image, Dim) and isinstance(size, int) and isinstance(stride, int) and isinstance(dilation, int):
            reach = ((size - 1) * dilation + 2) // 2 + 1
            before = symbols.original(image)
            found.append(Condition("<=", reach if before is None else min(reach, before), image))
            if stride > 1 and before is not None and before % stride == 0:
                found.append(Condition("==", floor_div(image, stride) * stride, image))
    return found


def _spatial(term: Term | None) -> Sizes:
    """Return the sizes of an image or a kernel after the first two."""
    return () if term is None or term.type is None or term.type.shape is None else term.type.shape[2:]


def _at(piece: Piece, lifted: Mapping[Term, Term], order: list[Term], values: dict[str, Size]) -> Small:
    """Return the window with these values of symbols. Raises LeftOut if it is large, or operators became equal."""
    types: dict[str, TensorType] = {}
    weights: set[str] = set()
    new: dict[Term, Term] = {}
    elements = 0
    for term in order:
        symbolic = lifted[term]
        for type in symbolic.types:
            shape = None if type is None else type.with_sizes(values).concrete()
            if type is None or shape is None:
                raise LeftOut(f"{term.op} has no symbolic type")
            elements += math.prod(shape)
        if term.op == "Var":
            name = str(term.attr("name"))
            assert symbolic.type is not None
            types[name] = symbolic.type.with_sizes(values)
            new[term] = var(name)
            if term in piece.weights:
                weights.add(name)
            continue
        attrs = {
            name: mapped(value, lambda item: evaluate(item, values) if isinstance(item, Dim) else item)
            for name, value in symbolic.attrs
        }
        inputs = tuple(None if used is None else new[used] for used in term.inputs)
        new[term] = make(term.op, inputs, attrs)
    if elements > _MAX_ELEMENTS:
        raise LeftOut(f"over {_MAX_ELEMENTS:,} elements at the smallest sizes")
    if len({new[term] for term in order if term.op not in CLOSED_FORM}) < sum(t.op not in CLOSED_FORM for t in order):
        raise LeftOut("operators are equal at small sizes")
    return Small(tuple(new[term] for term in piece.outputs), types, frozenset(weights))
