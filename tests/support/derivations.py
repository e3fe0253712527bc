"""Checks a derivation step by step, without the code that found it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable

from superopt.generate.derive import DerivationStep, normal
from superopt.ir.infer import IllTyped, replace
from superopt.ir.pattern import instantiate, match
from superopt.ir.rule import Rule
from superopt.ir.term import Term
from superopt.rulebook.commutative import operand_orders

__all__ = ["check_derivation"]


def check_derivation(lhs: tuple[Term, ...], rhs: tuple[Term, ...], steps: Iterable[DerivationStep]) -> None:
    """Assert that every step is an instance of its rule, in its direction, and leads from one graph to the next."""
    here = normal(lhs)
    for step in steps:
        left, right = (step.old, step.new) if step.forward else (step.new, step.old)
        assert _is_instance(step.rule, left, right) or _is_instance(step.rule.reversed(), right, left)
        forth, back = dict(zip(step.old, step.new, strict=True)), dict(zip(step.new, step.old, strict=True))
        assert normal(replace(here, forth)) == step.after or normal(replace(step.after, back)) == here
        here = step.after
    assert here == normal(rhs)


def _is_instance(rule: Rule, left: tuple[Term, ...], right: tuple[Term, ...]) -> bool:
    for variant in operand_orders(rule) if rule.applicable else ():
        for order in itertools.permutations(range(len(left))):
            bindings = match([variant.lhs[k] for k in order], left)
            if bindings is not None:
                with contextlib.suppress(IllTyped):
                    made = instantiate([variant.rhs[k] for k in order], bindings, bindings.dtype() or "float")
                    if normal(made) == right:
                        return True
    return False
