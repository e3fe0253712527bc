"""Construction of typed terms: the types of an operator's outputs are inferred from its registered entry."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

from superopt.ir.operator import OPERATORS, REAL_ATTRS, IllTyped, Need, fits, ignore
from superopt.ir.term import Attr, AttrVar, Term, Types, rebuild
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["OPERATORS", "REAL_ATTRS", "IllTyped", "completed", "infer", "make", "remake", "replace"]


def completed(op: str, attrs: Mapping[str, Attr]) -> dict[str, Attr]:
    """Return `attrs` with the operator's defaults. Raises KeyError for a missing or unknown attribute."""
    full = {**OPERATORS[op].defaults, **attrs}
    odd = full.keys() ^ set(OPERATORS[op].attrs)
    if odd:
        raise KeyError(min(odd))
    return full


def make(
    op: str,
    inputs: Iterable[Term | None] = (),
    attrs: Mapping[str, Attr] | None = None,
    dtype: str = "float",
    need: Need = ignore,
) -> Term:
    """Return the term `op[attrs](inputs)` with inferred types (None inside patterns, where inputs are untyped).

    `need(relation, a, b)` is called with each condition that symbolic sizes must satisfy for the term to be well-typed.
    `dtype` is the element type of a closed-form constant. Raises IllTyped if sizes or types contradict.
    """
    inputs = tuple(inputs)
    attrs = attrs or {}
    if not REAL_ATTRS.isdisjoint(attrs):  # 1 == 1.0 gives one interned term, so both need one digest
        attrs = {k: float(v) if k in REAL_ATTRS and isinstance(v, int) else v for k, v in attrs.items()}
    if op == "Out":
        node, index = inputs[0], attrs["index"]
        assert node is not None and isinstance(index, int)
        return node.out(index)
    return Term.of(op, inputs, attrs, infer(op, inputs, attrs, dtype, need))


def infer(
    op: str, inputs: tuple[Term | None, ...], attrs: Mapping[str, Attr], dtype: str, need: Need = ignore
) -> Types:
    """Return the types of the outputs of `op`, each None if the type of an input is unknown."""
    types = tuple([None if term is None else term.types[:1] for term in inputs])
    if need is ignore:
        return _inferred(op, types, tuple(attrs.items()), dtype)
    return _infer(op, types, attrs, dtype, need)


@lru_cache(maxsize=1 << 14)
def _inferred(op: str, inputs: tuple[Types | None, ...], attrs: tuple[tuple[str, Attr], ...], dtype: str) -> Types:
    return _infer(op, inputs, dict(attrs), dtype, ignore)


def _infer(op: str, inputs: tuple[Types | None, ...], attrs: Mapping[str, Attr], dtype: str, need: Need) -> Types:
    """Infer the output types from the input types."""
    spec = OPERATORS[op]
    least, most = spec.inputs
    if len(inputs) < least or (most is not None and len(inputs) > most):
        raise IllTyped(f"{op} does not take {len(inputs)} inputs")
    if any(isinstance(value, AttrVar) for name, value in attrs.items() if name not in REAL_ATTRS):
        return (None,)
    if any(types is not None and (types[0] is None or types[0].shape is None) for types in inputs):
        return (None,) * spec.outputs(attrs)
    known = [None if types is None else types[0] for types in inputs]
    shapes = spec.shape_rule([None if t is None else t.shape for t in known], attrs, need)
    dtype = spec.dtype_rule([None if t is None else t.dtype for t in known], attrs, dtype)
    if dtype not in FLOAT_DTYPES and spec.inputs != (0, 0):
        _check_numbers(op, attrs, dtype)
    return tuple(TensorType(dtype, shape) for shape in shapes)


def _check_numbers(op: str, attrs: Mapping[str, Attr], dtype: str) -> None:
    """Raise IllTyped unless real attributes fit the element type; an infinite bound of Clip is no bound."""
    for name in REAL_ATTRS & attrs.keys():
        value = attrs[name]
        unbounded = op == "Clip" and isinstance(value, float) and math.isinf(value)
        if not unbounded and not (isinstance(value, (int, float)) and fits(value, dtype)):
            raise IllTyped(f"{op}: {name} = {value} is no {dtype}")


def remake(term: Term, inputs: tuple[Term | None, ...]) -> Term:
    """Return `term` over other inputs.

    Types are kept for opaque operators and if the inputs keep their types, because a file may know more than inference;
    otherwise they are inferred again.
    """
    if term.op == "Out":
        node = inputs[0]
        assert node is not None
        index = term.attr("index")
        assert isinstance(index, int)
        return node.out(index)
    same = all(
        new is old or (new is not None and old is not None and new.types == old.types)
        for new, old in zip(inputs, term.inputs, strict=True)
    )
    if same or term.op not in OPERATORS:
        return term.over(inputs)
    fresh = make(term.op, inputs, dict(term.attrs))
    if None in fresh.types:
        return term.over(inputs)
    return fresh


def replace(roots: Iterable[Term], replaced: Mapping[Term, Term]) -> tuple[Term, ...]:
    """Replace the keys of `replaced` in `roots` by its values and remake the terms above them."""
    return rebuild(roots, replaced, remake)
