"""Narrower forms of a rule, for when the prover cannot decide the general one: attributes keep the instance's values.

A match at other values is proven when it occurs in a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.generalise.draft import SIZED
from superopt.generate.generalise.size_equations import pinned
from superopt.ir.dim import Dim, symbol
from superopt.ir.pattern import match
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, map_terms
from superopt.rulebook.variadic import Schema

__all__ = ["narrower", "with_equal_parts"]

_STEPS = ((), ("dilations",), ("dilations", "strides"), ("dilations", "strides", "pads", "group"))


def narrower(schema: Schema, equation: GroundEquation) -> Iterator[Schema]:
    """Yield the rule at its own signature, then with more and more attributes at the instance's values, and at last
    with the instance's sizes of the weights' windows.

    Sizes that typing fixes at the instance's values are literals: a kernel of 1 behind a Resize. Values that are sizes
    themselves do not count: a row of 21 that becomes 3 heads of 7 may have any size.
    """
    bindings = match(schema.rule.lhs, equation.lhs)
    if bindings is None:
        yield schema
        return
    known = dict(bindings.attrs)
    kinds = frozenset(schema.kinds[name] for name, _ in schema.base.attrs)
    shapes = pinned(schema.rule, _at(schema.base, schema, known, kinds - SIZED)).shapes
    own = []
    for name, shape in shapes:
        term = bindings.terms[name]
        sizes = term.type.concrete() if term.type is not None else None
        weight = term.op == "Var" and term.attr("name") in equation.weights
        own.append((name, (*shape[:2], *sizes[2:]) if weight and sizes is not None else shape))
    steps = [frozenset(step) & kinds for step in _STEPS] + [kinds]
    forms = [(shapes, kept) for kept in steps]
    for fixed, kept in dict.fromkeys([*forms, (tuple(own), frozenset[str]()), (tuple(own), kinds)]):
        signature = _at(Signature(fixed, schema.base.attrs), schema, known, kept)
        wide = _at(Signature(fixed, schema.open.attrs), schema, known, kept)
        yield Schema(schema.rule, signature, wide, schema.kinds)


def with_equal_parts(schema: Schema, equation: GroundEquation) -> Iterator[Schema]:
    """Yield the rule with one size for all parts of a Split whose parts are equal at the instance, if there is one."""
    bindings = match(schema.rule.lhs, equation.lhs)
    alike: dict[Attr, Attr] = {}
    for name, value in () if bindings is None else bindings.attrs.items():
        if schema.kinds.get(name) == "split" and isinstance(value, tuple) and len(value) > len(set(value)) == 1:
            alike[AttrVar(name)] = (symbol(name),) * len(value)
    if not alike:
        return

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs = {name: alike.get(value, value) for name, value in old.attrs}
        return Term.of(old.op, inputs, attrs, old.types)

    sides = map_terms((*schema.rule.lhs, *schema.rule.rhs), build)
    rule = Rule(sides[: len(schema.rule.lhs)], sides[len(schema.rule.lhs) :])
    base, wide = (_with_one_size(signature, alike) for signature in (schema.base, schema.open))
    yield Schema(rule, base, wide, schema.kinds)


def _with_one_size(signature: Signature, alike: Mapping[Attr, Attr]) -> Signature:
    """Return the signature with any integer in place of the list of each Split that is `alike`."""
    attrs = tuple((name, None if AttrVar(name) in alike else value) for name, value in signature.attrs)
    return Signature(signature.shapes, attrs, signature.dtypes)


def _at(signature: Signature, schema: Schema, known: Mapping[str, Attr], kinds: frozenset[str]) -> Signature:
    """Return the signature with the `known` values of attributes of some kinds."""
    attrs: list[tuple[str, SignatureValue]] = []
    for name, value in signature.attrs:
        given = known[name] if schema.kinds[name] in kinds else value
        attrs.append((name, value if isinstance(given, Dim) else given))
    return Signature(signature.shapes, tuple(attrs))
