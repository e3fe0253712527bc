"""Instances of a rule at the other ranks, and along the other axes, at which it would be shipped."""

from __future__ import annotations

from collections.abc import Iterator

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.derive import instances
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.grammar import Family
from superopt.generate.prove.shipped_signatures import variations
from superopt.ir.rule import Signature
from superopt.rulebook.variadic import Schema

__all__ = ["at_other_ranks"]


def at_other_ranks(schema: Schema, family: Family, check: SamplingCheck) -> Iterator[GroundEquation]:
    """Yield one instance for each choice of ranks and axes, other than the rule's own, at which `check` finds it true.

    `family` is the one that the rule was found in. A rule that others derive at one rank is lost at another one if they
    are not shipped there: a Flatten of an image is a Reshape whose target lists three sizes, and of four axes it is
    none of these.
    """
    if family.is_window:
        return
    axes = {name for name, kind in schema.kinds.items() if kind in ("axis", "axes")}

    def place(signature: Signature) -> tuple[object, ...]:
        ranks = (len(shape) for _, shape in signature.shapes)
        return (*ranks, *(value for name, value in signature.attrs if name in axes))

    seen = {place(schema.open)}
    for signature in variations(schema, family.variation):
        if place(signature) not in seen and check.holds(schema.rule, signature):
            made = instances(schema.rule, signature, count=1)
            if made:
                seen.add(place(signature))
                yield GroundEquation(made[0].lhs, made[0].rhs, family)
