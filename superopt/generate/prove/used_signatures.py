"""Counts the signatures at which derivations of conjectures used a rule.

A rule is found at one signature, and derivations in larger families use it at other signatures. These are proven as
well, because models will need them, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from superopt.generate.derive import DerivationStep
from superopt.generate.generalise.draft import SIZED
from superopt.ir.notation import parse_signature, show_signature
from superopt.ir.pattern import Bindings, match
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Term
from superopt.rulebook.commutative import operand_orders
from superopt.rulebook.variadic import Schema

__all__ = ["UsedSignatures"]

_MAX_SIGNATURES = 16  # largest number of signatures for one rule: the most frequent ones


class UsedSignatures:
    """Counts by rule id and signature."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}

    def add(self, steps: Iterable[DerivationStep], schemas: Mapping[str, Schema]) -> None:
        """Count the steps of a derivation by rules in `schemas` (rule id to schema); other rules are ignored."""
        for step in steps:
            schema = schemas.get(step.rule.id)
            if schema is None:
                continue
            bindings = _bindings(step.rule, step.old if step.forward else step.new)
            if bindings is not None:
                for signature in _signatures(schema, bindings):
                    self.counts.setdefault(step.rule.id, Counter())[show_signature(signature)] += 1

    def update(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Add counts of another run or family."""
        for rule, found in counts.items():
            self.counts.setdefault(rule, Counter()).update(found)

    def of(self, rule: str) -> list[Signature]:
        """Return the signatures at which a rule was used, the most frequent first."""
        found = sorted(self.counts.get(rule, Counter()).items(), key=lambda item: (-item[1], item[0]))
        return [parse_signature(text) for text, _ in found[:_MAX_SIGNATURES]]


def _bindings(rule: Rule, instance: tuple[Term, ...]) -> Bindings | None:
    for variant in operand_orders(rule):
        bindings = match(variant.lhs, instance)
        if bindings is not None:
            return bindings
    return None


def _signatures(schema: Schema, bindings: Bindings) -> list[Signature]:
    """Return two signatures with the ranks and attributes of a match.

    In the first, all sizes are symbolic. In the second, sizes of 1 are literals.
    """
    if {name for name, _ in schema.open.attrs} - bindings.attrs.keys():
        return []
    attrs: list[tuple[str, SignatureValue]] = []
    for name, value in schema.open.attrs:
        actual = bindings.attrs[name]
        if schema.kinds[name] in SIZED:
            attrs.append((name, (None,) * len(actual) if isinstance(actual, tuple) else None))
        else:
            attrs.append((name, actual if isinstance(value, (int, str, tuple)) else value))
    found = []
    for ones in (False, True):
        shapes = []
        for name, term in sorted(bindings.terms.items()):
            sizes = None if term.type is None else term.type.concrete()
            if sizes is None:
                return []
            shapes.append((name, tuple(1 if ones and size == 1 else None for size in sizes)))
        found.append(Signature(tuple(shapes), tuple(attrs), schema.open.dtypes))
    return list(dict.fromkeys(found))
