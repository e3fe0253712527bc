"""Proposals of signatures at which to prove a rule for a match. `verify.proof_book` checks that they cover it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from superopt.ir.dim import Dim, Size, symbol
from superopt.ir.infer import REAL_ATTRS
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import AttrVar, topological
from superopt.ir.types import FLOAT_DTYPES

__all__ = ["literal_signatures"]


def literal_signatures(rule: Rule, bindings: Bindings) -> Iterator[Signature]:
    """Yield signatures of a match, the most general first: all sizes symbolic, then sizes of 1 as literals.

    A last signature has literals for the sizes that typing fixes. Real attributes and `group` stay symbolic; all other
    attributes are literals.
    """
    kept = _symbolic_attrs(rule)
    attrs = tuple((name, kept.get(name, value)) for name, value in sorted(bindings.attrs.items()))
    shapes: list[tuple[str, tuple[Size, ...]]] = []
    dtypes: list[tuple[str, str]] = []
    for name, term in sorted(bindings.terms.items()):
        if term.type is None or term.type.shape is None:
            return
        shapes.append((name, term.type.shape))
        if term.type.dtype not in FLOAT_DTYPES:
            dtypes.append((name, term.type.dtype))
    general = tuple((name, (None,) * len(shape)) for name, shape in shapes)
    ones = tuple((name, tuple(1 if size == 1 else None for size in shape)) for name, shape in shapes)
    yield Signature(general, attrs, tuple(dtypes))
    if ones != general:
        yield Signature(ones, attrs, tuple(dtypes))
    fixed = _fixed(rule, Signature(general, attrs, tuple(dtypes)))
    if fixed and fixed not in (general, ones):
        yield Signature(fixed, attrs, tuple(dtypes))


@lru_cache(maxsize=1 << 12)
def _symbolic_attrs(rule: Rule) -> dict[str, SignatureValue]:
    """Return the attributes that a proof may keep symbolic: real ones, and `group`."""
    names: dict[str, SignatureValue] = {}
    for term in topological((*rule.lhs, *rule.rhs)):
        for name, value in term.attrs:
            if isinstance(value, AttrVar) and (name in REAL_ATTRS or name == "group"):
                names[value.name] = value if name in REAL_ATTRS else None
    return names


@lru_cache(maxsize=1 << 14)
def _fixed(rule: Rule, general: Signature) -> tuple[tuple[str, tuple[int | None, ...]], ...]:
    """Return the shapes with literals for sizes that typing fixes to a number; () if there are none."""
    numbers: dict[str, int] = {}

    def need(relation: str, left: Size, right: Size) -> None:
        for size, other in ((left, right), (right, left)):
            if relation == "==" and isinstance(size, Dim) and isinstance(other, int) and size == symbol(str(size)):
                numbers[str(size)] = other

    try:
        for a, b in zip(*rule.instantiate(general, need, need), strict=True):
            sizes = [t.type.shape if t.type and t.type.shape else () for t in (a, b)]
            for m, n in zip(*sizes, strict=False):
                need("==", m, n)
    except (IllTyped, TypeError):
        return ()
    return (
        tuple(
            (name, tuple(numbers.get(f"{name}.shape[{k}]") for k in range(len(shape))))
            for name, shape in general.shapes
        )
        if numbers
        else ()
    )
