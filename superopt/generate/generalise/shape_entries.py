"""Frees the numbers that Reshape writes beside 0 and -1: they become sizes of variables, or variables.

An axis of 21 that becomes 3 heads of 7 is split alike for any two numbers, in each shape where they are written.
"""

from __future__ import annotations

import itertools

from superopt.generate.generalise.draft import Draft, Slot
from superopt.ir.dim import Size, symbol
from superopt.ir.term import Attr

__all__ = ["with_shape_entries"]


def with_shape_entries(draft: Draft) -> Draft | None:
    """Return the draft with expressions in the shapes of Reshape, or None if no number stands beside 0 or -1.

    A number that is the product of two neighbouring sizes of a variable becomes that product.
    """
    slots, sizes = draft.slots(), draft.sizes()
    marked = [entry for shape in slots.get("marks", {}) if isinstance(shape, tuple) for entry in shape]
    numbers = [entry for entry in marked if isinstance(entry, int) and entry > 1]
    if not numbers or "num_heads" in slots:
        return None
    neighbours = [(a, b) for a, b in itertools.pairwise(sizes) if _variable(a[0]) == _variable(b[0])]
    known: dict[Attr, Size] = {m * n: a * b for (a, m), (b, n) in reversed(neighbours)}
    known |= {value: size for size, value in reversed(sizes)}
    for entry in dict.fromkeys(numbers):
        if entry not in known:
            name = draft.fresh("reshape")
            known[entry] = symbol(name)
            draft = draft.filling({}, {name: None}, "reshape")
    known |= {mark: mark for mark in (-1, 0, 1)}
    filled: dict[Slot, Attr] = {}
    for shape, at in (*slots["marks"].items(), *slots.get("reshape", {}).items()):
        if isinstance(shape, tuple) and known.keys() >= set(shape):
            filled |= dict.fromkeys(at, tuple(known[entry] for entry in shape))
    return draft.filling(filled, {}, "reshape")


def _variable(size: Size) -> str:
    """Return the name of the variable that has this size."""
    return str(size).partition(".")[0]
