"""The order of the operands of a sum in a rule's right side.

ONNX Runtime adds up the operands of `Sum` from the first to the last. So `x + (y + z)` is `Sum(y, z, x)`, rounding by
rounding, but `Sum(x, y, z)` adds other pairs, which may cancel where the left side's do not.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from superopt.ir.operator import OPERATORS
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term
from superopt.rulebook.variadic import Schema
from verify.stability.analysis import stability
from verify.stability.classes import UNSTABLE
from verify.verdict import Proved

__all__ = ["in_stable_order"]


def in_stable_order(schema: Schema, signature: Signature, proof: Proved) -> Schema:
    """Return the schema with the operands of its right side in the first order that makes the rule stable.

    `proof` is of the rule at `signature`. The schema is returned unchanged if no order does, or if the right side is no
    sum of three operands or more.
    """
    rule = schema.rule
    for right in _orders(rule.rhs):
        ordered = Rule(rule.lhs, right)
        if stability(ordered, signature, proof)[0] != UNSTABLE:
            return replace(schema, rule=ordered)
    return schema


def _orders(side: tuple[Term, ...]) -> Iterator[tuple[Term, ...]]:
    """Yield the side with the operands of its last operator in every order, if these may be exchanged."""
    (root, *others) = side
    if not others and root.op in OPERATORS and OPERATORS[root.op].commutative and len(root.inputs) > 2:
        for inputs in itertools.permutations(root.inputs):
            yield (root.over(inputs),)
