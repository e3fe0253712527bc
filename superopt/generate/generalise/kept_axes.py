"""A narrower form of rules with an Expand, for when the prover cannot decide the general one.

In the general form an Expand has any shape, which may make any axis longer. In the instance it makes some axes longer
and keeps the others, which have the sizes of variables below it. A number that is no such size becomes a variable. The
sizes that a Reshape has are those of variables below it, too, and not of others that are equal at the instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.ir.dim import Dim, evaluate, symbol
from superopt.ir.pattern import match
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological
from superopt.rulebook.variadic import Schema

__all__ = ["with_kept_axes"]

_SHAPED = frozenset({"Expand", "Reshape"})


def with_kept_axes(schema: Schema, equation: GroundEquation) -> Iterator[Schema]:
    """Yield the rule in that form, if its left side has an Expand to any shape."""
    ground = _instances(schema.rule, equation)
    shapes: dict[Term, Attr] = {}
    lists: dict[Attr, tuple[Attr, ...]] = {}
    numbers: list[str] = []
    for term, instance in ground.items():
        own, value = (one.attr("shape") if term.op in _SHAPED else None for one in (term, instance))
        if not isinstance(value, tuple):
            continue
        known = _sizes_below(term, ground)
        if isinstance(own, tuple):
            shapes[term] = tuple(known.get(entry, old) for entry, old in zip(value, own, strict=True))
        elif isinstance(own, AttrVar) and schema.kinds.get(own.name) == "expand":
            names = [_unused(f"{own.name}{k}", schema) for k in range(len(value))]
            numbers += [name for name, entry in zip(names, value, strict=True) if entry not in known]
            lists[own] = tuple(known.get(entry, symbol(name)) for name, entry in zip(names, value, strict=True))
    if not lists:
        return
    items = {
        f"{name}[{k}]": size for name, sizes in lists.items() for k, size in enumerate(sizes) if isinstance(size, Dim)
    }

    def changed(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(changed, value))
        return evaluate(value, items) if isinstance(value, Dim) else lists.get(value, value)

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs = {name: changed(value) for name, value in old.attrs}
        if old in shapes:
            attrs["shape"] = shapes[old]
        return Term.of(old.op, inputs, attrs, old.types)

    def signature(old: Signature) -> Signature:
        kept = [(name, value) for name, value in old.attrs if AttrVar(name) not in lists]
        added: list[tuple[str, SignatureValue]] = [(name, None) for name in numbers]
        return Signature(old.shapes, tuple(sorted([*kept, *added], key=lambda item: item[0])), old.dtypes)

    sides = map_terms((*schema.rule.lhs, *schema.rule.rhs), build)
    rule = Rule(sides[: len(schema.rule.lhs)], sides[len(schema.rule.lhs) :])
    kinds = {**schema.kinds, **dict.fromkeys(numbers, "n")}
    yield Schema(rule, signature(schema.base), signature(schema.open), kinds)


def _unused(name: str, schema: Schema) -> str:
    """Return the name, or a longer one if the rule has a variable of that name."""
    taken = {own for own, _ in (*schema.base.shapes, *schema.base.attrs)}
    while name in taken:
        name += "_"
    return name


def _instances(rule: Rule, equation: GroundEquation) -> dict[Term, Term]:
    """Map the terms of the left side to those of the instance, which may be the equation's right side."""
    found: dict[Term, Term] = {}
    side = equation.rhs if match(rule.lhs, equation.lhs) is None else equation.lhs
    stack = list(zip(rule.lhs, side, strict=True))
    while stack:
        term, instance = stack.pop()
        found[term] = instance
        pairs = zip(term.inputs, instance.inputs, strict=True)
        stack += [(own, other) for own, other in pairs if own is not None and other is not None]
    return found


def _sizes_below(term: Term, instances: Mapping[Term, Term]) -> dict[Attr, Attr]:
    """Map the sizes, at the instance, of the variables below a term to these sizes."""
    found: dict[Attr, Attr] = {}
    for leaf in topological((term,)):
        type = instances[leaf].type if leaf.op == "Var" else None
        shape = (None if type is None else type.concrete()) or ()
        for k, size in enumerate(shape):
            found.setdefault(size, symbol(f"{leaf.attr('name')}.shape[{k - len(shape)}]"))
    return found
