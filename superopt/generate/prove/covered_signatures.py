"""Signatures of a rule that another proven signature covers, and need no proof of their own."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.dim import Size, evaluate, symbols_of
from superopt.ir.pattern import sizes_in
from superopt.ir.rule import Condition, Signature
from superopt.ir.term import Attr
from verify.verdict import Proved

__all__ = ["covers"]


def covers(general: Signature, special: Signature, proof: Proved, other: Proved | None = None) -> bool:
    """Return True if every match at `special` is a match at `general`, whose proof is `proof`.

    The conditions of `proof` must follow from the sizes of `special`, or be those of its own proof `other`.
    """
    if not _matches(general, special):
        return False
    sizes = special.bindings().shape_env()
    own = {_at(condition, sizes) for condition in (() if other is None else other.conditions)}
    return all(condition.holds(sizes) or _at(condition, sizes) in own for condition in proof.conditions)


def _at(condition: Condition, sizes: Mapping[str, Attr]) -> tuple[str, frozenset[Size] | tuple[Size, ...]]:
    """Return a condition with these sizes; both ways of writing an equation are the same."""
    names = symbols_of(condition.left) | symbols_of(condition.right)
    known = {name: size for name, size in sizes_in(sizes, names).items() if isinstance(size, int)}
    sides = tuple(evaluate(side, known) for side in (condition.left, condition.right))
    return condition.relation, frozenset(sides) if condition.relation == "==" else sides


def _matches(general: Signature, special: Signature) -> bool:
    """Return True if `special` differs from `general` in having literals for symbols only."""
    return (
        general.dtypes == special.dtypes
        and all(_wider(a, b) for (_, a), (_, b) in zip(general.shapes, special.shapes, strict=True))
        and all(_wider(a, b) for (_, a), (_, b) in zip(general.attrs, special.attrs, strict=True))
    )


def _wider(general: object, special: object) -> bool:
    if isinstance(general, tuple) and isinstance(special, tuple):
        return len(general) == len(special) and all(a is None or a == b for a, b in zip(general, special, strict=True))
    return general is None or general == special
