"""Rules: equations between patterns, the signatures at which they are proven, and their guards.

A rule is an equation of (tuples of) patterns without types. A `Signature` fixes the literals of a proof: the rank of
each variable, the sizes that are 1 (they broadcast), and values of attributes. All other sizes stay symbolic, so that
one proof serves every tensor size.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, Union

from superopt.ir.dim import Dim, Size, evaluate, symbol, symbols_of
from superopt.ir.operator import Need, ignore
from superopt.ir.pattern import Bindings, instantiate, pattern_names, sizes_in
from superopt.ir.term import CLOSED_FORM, Attr, AttrVar, Term, equal_attr, var
from superopt.ir.types import FLOAT_DTYPES, TensorType

__all__ = ["Condition", "Rule", "Signature", "SignatureValue"]


@dataclass(frozen=True)
class Condition:
    """A guard on sizes and integer attributes: `left == right` or `left <= right`."""

    relation: str
    left: Size
    right: Size

    def holds(self, env: Mapping[str, Attr]) -> bool:
        """Return True if the condition certainly holds under `env`, for all positive sizes that stay symbolic.

        A polynomial of sizes s is not negative if its coefficients as a polynomial of s - 1 are not.
        """
        sizes = sizes_in(env, symbols_of(self.left) | symbols_of(self.right))
        difference = evaluate(self.right, sizes) - evaluate(self.left, sizes)
        if self.relation == "==":
            return difference == 0
        shifted = evaluate(difference, {name: symbol(name) + 1 for name in symbols_of(difference)})
        if isinstance(shifted, int):
            return shifted >= 0
        return all(coefficient >= 0 and all(isinstance(a, str) for a in atoms) for atoms, coefficient in shifted.terms)

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"


SignatureValue: TypeAlias = Union[Attr, None, tuple[Union[Attr, None], ...]]


@dataclass(frozen=True)
class Signature:
    """The literals of a proof.

    In `shapes`, None is a symbolic size. In `attrs`, None is a symbolic integer, and an AttrVar of the same name is a
    symbolic real.
    """

    shapes: tuple[tuple[str, tuple[int | None, ...]], ...]
    attrs: tuple[tuple[str, SignatureValue], ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()  # element types of variables that are not real; the others are "float"

    def bindings(self) -> Bindings:
        """Return variables as typed leaves with symbolic sizes `v.shape[k]`, and attributes as literals or symbols."""
        dtypes = dict(self.dtypes)
        terms = {
            name: var(
                name,
                TensorType(
                    dtypes.get(name, "float"),
                    tuple(symbol(f"{name}.shape[{k}]") if s is None else s for k, s in enumerate(shape)),
                ),
            )
            for name, shape in self.shapes
        }
        return Bindings(terms, {name: _symbolic(name, value) for name, value in self.attrs})

    def covers(self, bindings: Bindings) -> bool:
        """Return True if a match has the literals of this signature, with one real type for "float"."""
        dtypes, reals = dict(self.dtypes), set()
        for name, shape in self.shapes:
            term = bindings.terms.get(name)
            actual = term.type.shape if term is not None and term.type is not None else None
            if term is None or term.type is None or actual is None or len(actual) != len(shape):
                return False
            if any(s is not None and s != a for s, a in zip(shape, actual, strict=True)):
                return False
            if name not in dtypes:
                reals.add(term.type.dtype)
            elif dtypes[name] != term.type.dtype:
                return False
        if len(reals) > 1 or not reals <= FLOAT_DTYPES:
            return False
        return all(name in bindings.attrs and _covers(name, value, bindings.attrs[name]) for name, value in self.attrs)


def _symbolic(name: str, value: SignatureValue) -> Attr:
    if value is None:
        return symbol(name)
    if isinstance(value, tuple):
        return tuple(symbol(f"{name}[{k}]") if item is None else item for k, item in enumerate(value))
    return value


def _covers(name: str, value: SignatureValue, actual: Attr) -> bool:
    """Return True if `value` covers `actual`: a symbolic integer covers any size, a symbolic real any finite number."""
    if value is None:
        return isinstance(actual, (int, Dim))
    if isinstance(value, AttrVar):
        return value.name == name and isinstance(actual, (int, float)) and math.isfinite(actual)
    if isinstance(value, tuple):
        return (
            isinstance(actual, tuple)
            and len(actual) == len(value)
            and all(
                isinstance(a, (int, Dim)) if v is None else not isinstance(v, AttrVar) and _covers(name, v, a)
                for v, a in zip(value, actual, strict=True)
            )
        )
    # A symbol of the model means something else in a proof, so a symbolic literal of a signature covers nothing.
    return not isinstance(value, Dim) and equal_attr(value, actual)


@dataclass(frozen=True)
class Rule:
    """The equation lhs = rhs between two tuples of outputs, applied left to right."""

    lhs: tuple[Term, ...]
    rhs: tuple[Term, ...]
    signatures: tuple[Signature, ...] = field(default=(), compare=False)

    @cached_property
    def id(self) -> str:
        """A short content hash of the equation (12 hexadecimal digits) for display; too short to identify a rule."""
        parts = [*(t.digest for t in self.lhs), "=", *(t.digest for t in self.rhs)]
        return hashlib.blake2b(" ".join(parts).encode(), digest_size=6).hexdigest()

    @cached_property
    def applicable(self) -> bool:
        """True if the rule applies left to right: no root of lhs is a leaf, and lhs binds the variables of rhs.

        A list `z` binds its elements `z[k]`; an element binds neither the list nor another element.
        """
        if any(t.op == "Var" or t.op in CLOSED_FORM for t in self.lhs):
            return False
        (left, left_attrs), (right, right_attrs) = pattern_names(self.lhs), pattern_names(self.rhs)
        return right <= left and all(not {name, name.split("[")[0]}.isdisjoint(left_attrs) for name in right_attrs)

    def reversed(self) -> Rule:
        """Return the same equation, applied right to left."""
        return Rule(self.rhs, self.lhs, self.signatures)

    def instantiate(
        self, signature: Signature, need_left: Need = ignore, need_right: Need = ignore
    ) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """Return both sides as typed terms at `signature`. Raises IllTyped if a side cannot be typed."""
        bindings = signature.bindings()
        dtype = bindings.dtype() or "float"
        return instantiate(self.lhs, bindings, dtype, need_left), instantiate(self.rhs, bindings, dtype, need_right)
