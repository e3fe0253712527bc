"""A model's run-time operators, numbered in topological order; sets of operators are bit masks over the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from superopt.ir.dim import Size
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, node_of, topological

__all__ = ["Leaf", "ModelGraph", "bits"]

# Returns what an operand outside the window becomes there: the constant itself if its value matters, else None.
Leaf: TypeAlias = Callable[[Term], "Term | None"]

_FEW = 32  # numbers in a set, up to which each of them is found by arithmetic on the whole mask


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers in a set, ascending."""
    if mask.bit_count() > _FEW:  # linear in the length of the mask
        yield from (k for k, digit in enumerate(reversed(f"{mask:b}")) if digit == "1")
        return
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


class ModelGraph:
    """The run-time operators of a model.

    `usable` is the set of operators that a window may contain: those with a definition and known positive sizes.
    `near[k]` has the producers and users of operator k, and the operators of its kind that read one of its operands.
    `before[k]` and `after[k]` have the operators that k depends on, and those that depend on k, each with k itself.
    `forms[k]` is equal for operators that differ in their operands only; types and literal constants are part of it.
    """

    def __init__(self, outputs: Sequence[Term], cost: Callable[[Term], float], literal: Leaf) -> None:
        order = [term for term in topological(outputs) if not term.is_constant and term.op != "Var"]
        self.operators = tuple(term for term in order if term.op != "Out")
        number = {term: k for k, term in enumerate(self.operators)}
        count = len(self.operators)
        self.costs = tuple(cost(term) for term in self.operators)
        self.usable = sum(1 << k for k, term in enumerate(self.operators) if _is_usable(term))
        self.near, self.before, self.after = [0] * count, [0] * count, [0] * count
        self.readers: dict[Term, int] = {}  # operators that read a run-time value
        self.outputs = frozenset(outputs)
        self.operands: list[tuple[tuple[int, Term | None], ...]] = []  # (number of the producer or -1, value)
        self.forms: list[int] = []
        self.values: list[tuple[Term, ...]] = [(term,) for term in self.operators]  # run-time values by operator
        forms: dict[object, int] = {}
        for term in order:
            if term.op == "Out":
                producer = number[node_of(term)]
                self.values[producer] = (*(v for v in self.values[producer] if v.op == "Out"), term)
        for k, term in enumerate(self.operators):
            operands: list[tuple[int, Term | None]] = []
            kinds: list[object] = []
            self.before[k] |= 1 << k
            for used in term.inputs:
                if used is None or used.is_constant:
                    constant = None if used is None else literal(used)
                    operands.append((-1, None if constant is not None else used))
                    kinds.append(constant if constant is not None else None if used is None else ("w", used.types))
                    continue
                maker = number.get(node_of(used), -1)
                operands.append((maker, used))
                kinds.append(("v", used.types))
                self.readers[used] = self.readers.get(used, 0) | 1 << k
                if maker >= 0:
                    self.near[k] |= 1 << maker
                    self.near[maker] |= 1 << k
                    self.before[k] |= self.before[maker]
            self.operands.append(tuple(operands))
            self.forms.append(forms.setdefault((term.op, term.attrs, term.types, tuple(kinds)), len(forms)))
        for k in reversed(range(count)):
            self.after[k] |= 1 << k
            for maker, _ in self.operands[k]:
                if maker >= 0:
                    self.after[maker] |= self.after[k]
        for mask in self.readers.values():
            for k in bits(mask):
                kind = self.operators[k].op
                self.near[k] |= sum(1 << j for j in bits(mask) if j != k and self.operators[j].op == kind)


def _is_usable(term: Term) -> bool:
    if term.op not in OPERATORS or any(name == "node" for name, _ in term.attrs):
        return False
    types = [*term.types, *(used.type for used in term.inputs if used is not None)]
    return all(type is not None and type.shape is not None and all(map(_is_positive, type.shape)) for type in types)


def _is_positive(size: Size) -> bool:
    return not isinstance(size, int) or size > 0
