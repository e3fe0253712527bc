"""Making typed terms from the rows of the operator table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

from superopt.ir.operator import OPERATORS, REAL_ATTRS, IllTyped, Need, fits, ignore
from superopt.ir.term import Attr, AttrVar, Term, Types, rebuild
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["OPERATORS", "REAL_ATTRS", "IllTyped", "completed", "infer", "is_known", "make", "remake", "replace"]


def is_known(op: str) -> bool:
    """Whether rules may mention `op` (leaves and `Out` aside)."""
    return op in OPERATORS


def completed(op: str, attrs: Mapping[str, Attr]) -> dict[str, Attr]:
    """`attrs` with the operator's defaults. Raises KeyError for one that is missing, or that the operator lacks."""
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
    """The term `op[attrs](inputs)` with its types inferred (None inside patterns, where inputs are untyped).

    `need(relation, a, b)` is told what must hold of symbolic sizes for the term to be well-typed.
    `dtype` is the element type of a closed-form constant. Raises IllTyped where sizes contradict.
    """
    inputs = tuple(inputs)
    attrs = attrs or {}
    if not REAL_ATTRS.isdisjoint(attrs):  # 1 and 1.0 are equal, so they are one term: let it have one digest too
        attrs = {k: float(v) if k in REAL_ATTRS and isinstance(v, int) else v for k, v in attrs.items()}
    if op == "Out":
        node, index = inputs[0], attrs["index"]
        assert node is not None and isinstance(index, int)
        return node.out(index)
    return Term.of(op, inputs, attrs, infer(op, inputs, attrs, dtype, need))


def infer(
    op: str, inputs: tuple[Term | None, ...], attrs: Mapping[str, Attr], dtype: str, need: Need = ignore
) -> Types:
    """Types of the outputs of `op`; one None for each output where an input's type is unknown."""
    types = tuple([None if term is None else term.types[:1] for term in inputs])
    if need is ignore:
        return _inferred(op, types, tuple(attrs.items()), dtype)
    return _infer(op, types, attrs, dtype, need)


@lru_cache(maxsize=1 << 14)
def _inferred(op: str, inputs: tuple[Types | None, ...], attrs: tuple[tuple[str, Attr], ...], dtype: str) -> Types:
    return _infer(op, inputs, dict(attrs), dtype, ignore)


def _infer(op: str, inputs: tuple[Types | None, ...], attrs: Mapping[str, Attr], dtype: str, need: Need) -> Types:
    """`infer`, of the inputs' types."""
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
    """Numbers that join integers or truth values are such themselves; an infinite bound of Clip is none."""
    for name in REAL_ATTRS & attrs.keys():
        value = attrs[name]
        unbounded = op == "Clip" and isinstance(value, float) and math.isinf(value)
        if not unbounded and not (isinstance(value, (int, float)) and fits(value, dtype)):
            raise IllTyped(f"{op}: {name} = {value} is no {dtype}")


def remake(term: Term, inputs: tuple[Term | None, ...]) -> Term:
    """`term` over other inputs: types are kept for opaque operators and where the inputs have the types that they had
    (a file may know more of them than is inferred here, or less be certain), and inferred anew elsewhere."""
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
        return Term.of(term.op, inputs, dict(term.attrs), term.types)
    fresh = make(term.op, inputs, dict(term.attrs))
    if None in fresh.types:
        return Term.of(term.op, inputs, dict(term.attrs), term.types)
    return fresh


def replace(roots: Iterable[Term], replaced: Mapping[Term, Term]) -> tuple[Term, ...]:
    """`roots` with the keys of `replaced` exchanged for its values and everything above them remade."""
    return rebuild(roots, replaced, remake)
