"""Conjectures: equal pairs of an enumeration, without renamed duplicates and special cases, as equations of terms.

An equation is still ground: its variables have the sizes at which it was found. `generalise` makes rules of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from superopt.generate.enumerator import ARITY, Enumeration, Pairs
from superopt.generate.fingerprints import Evaluator
from superopt.generate.grammar import Family
from superopt.generate.modular import KERNELS
from superopt.ir.ops import make
from superopt.ir.term import CLOSED_FORM, Term, topological

__all__ = ["Equation", "conjectures", "occurrences", "operators", "variables"]

_LEAVES = 16  # graphs with more leaves on one side are left out


@dataclass(frozen=True)
class Equation:
    """Ground terms that have equal fingerprints, output by output."""

    lhs: tuple[Term, ...]
    rhs: tuple[Term, ...]
    family: Family

    @property
    def size(self) -> tuple[int, int, int, int]:
        """Small and general equations come first: operators that run at inference on both sides, all operators,
        elements of closed-form constants, and minus the number of variables."""
        left, right = _operators(self, self.lhs), _operators(self, self.rhs)
        terms = list(topological(self.lhs + self.rhs))
        constants = sum(math.prod(_sizes(t)) for t in terms if t.op in CLOSED_FORM)
        named = sum(t.op == "Var" for t in terms)
        return (left[0] + right[0], left[1] + right[1], constants, -named)


def _sizes(term: Term) -> tuple[int, ...]:
    sizes = None if term.type is None else term.type.concrete()
    assert sizes is not None
    return sizes


def variables(terms: Iterable[Term]) -> list[Term]:
    """Variables in the order in which they first occur, reading from the left."""
    return list(dict.fromkeys(occurrences(terms)))


def occurrences(terms: Iterable[Term]) -> list[Term]:
    """Variables as often as they occur, reading from the left."""
    found: list[Term] = []
    stack = list(terms)[::-1]
    while stack:
        term = stack.pop()
        if term.op == "Var":
            found.append(term)
        stack.extend(i for i in reversed(term.inputs) if i is not None)
    return found


def operators(terms: tuple[Term, ...], weights: frozenset[str]) -> tuple[int, int]:
    """Operators that run at inference, and all operators (leaves and outputs of Split not counted)."""
    runs: set[Term] = set()
    run = total = 0
    for term in topological(terms):
        live = term.attr("name") not in weights if term.op == "Var" else any(i in runs for i in term.inputs)
        if live:
            runs.add(term)
        if term.inputs and term.op != "Out":
            total += 1
            run += live
    return run, total


def _operators(equation: Equation, terms: tuple[Term, ...]) -> tuple[int, int]:
    return operators(terms, frozenset(v.name for v in equation.family.variables if v.weight))


class _Structures:
    """Numbers for classes' shapes as trees with variables made anonymous, and their leaves from left to right."""

    def __init__(self, state: Enumeration) -> None:
        use, children = state.recipes()
        self.known: dict[tuple[int, ...], int] = {}
        self.structure = np.zeros(len(use), dtype=np.int64)
        self.leaves = np.full((len(use), _LEAVES), -1, dtype=np.int16)
        self.fits = np.ones(len(use), dtype=bool)
        roles: dict[str, int] = {}
        variables = state.family.variables
        for k in range(len(state.leaves)):
            role = roles.setdefault(variables[k].role, len(roles)) if k < len(variables) else 1000 + k
            self.structure[k] = self.number((-1, role, -1, -1, -1, -1))
            if k < len(variables):
                self.leaves[k, 0] = k
        start = len(state.leaves)
        while start < len(use):
            # Children come before their users; whole levels at a time, as far as all children are done.
            waiting = children[start:].max(axis=1) >= start
            stop = start + int(np.argmax(waiting)) if waiting.any() else len(use)
            rows = slice(start, stop)
            self.structure[rows] = self.structures(use[rows], children[rows])
            self.leaves[rows], self.fits[rows] = self.sequences(children[rows])
            start = stop

    def number(self, key: tuple[int, ...]) -> int:
        return self.known.setdefault(key, len(self.known))

    def structures(self, use: npt.NDArray[np.int32], children: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        table = np.concatenate([use[:, None], np.where(children >= 0, self.structure[children], -1)], axis=1)
        rows, inverse = np.unique(table, axis=0, return_inverse=True)
        numbers = np.array([self.number(tuple(int(v) for v in row)) for row in rows], dtype=np.int64)
        result: npt.NDArray[np.int64] = numbers[inverse.reshape(-1)]
        return result

    def sequences(self, children: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.bool_]]:
        """Leaves of graphs over `children`, and whether they fit into the table."""
        wide = np.where((children >= 0)[:, :, None], self.leaves[children], -1).reshape(len(children), ARITY * _LEAVES)
        order = np.argsort(wide < 0, axis=1, kind="stable")[:, :_LEAVES]
        packed = np.take_along_axis(wide, order, axis=1)
        fits = ((wide >= 0).sum(axis=1) <= _LEAVES) & np.where(children >= 0, self.fits[children], True).all(axis=1)
        return packed, fits


def _is_special(equation: Equation) -> bool:
    """Whether an operator of a large equation has one value as two operands: some equation with two values is meant."""
    if equation.size[1] <= 2:
        return False
    for term in topological(equation.lhs + equation.rhs):
        operands = [i for i in term.inputs if i is not None and (i.inputs or i.op == "Var")]
        if term.op != "BatchNormalization" and len(operands) > len(set(operands)):
            return True
    return False


def conjectures(state: Enumeration, evaluator: Evaluator) -> tuple[list[Equation], int]:
    """Equations of one output and of two, smallest first, and how many pairs they were drawn from."""
    structures = _Structures(state)
    build = _Builder(state)
    pairs = [p for p in state.pairs if len(p.use)]
    count = sum(len(p.use) for p in pairs)
    found: dict[tuple[Term, Term], Equation] = {}
    for use, children, same in _distinct(structures, pairs):
        left, right = build.graph(use, children), build.of(same)
        if left is not right:
            found[left, right] = Equation((left,), (right,), state.family)
    equations = list(found.values())
    for axis in state.family.halves:
        equations += _halved(state, evaluator, build, structures, axis)
    return sorted((e for e in equations if not _is_special(e)), key=lambda e: e.size), count


def _distinct(structures: _Structures, pairs: list[Pairs]) -> Iterator[tuple[int, npt.NDArray[np.int32], int]]:
    """One pair of each renaming; of the pairs that differ in equated variables only, the most general ones."""
    if not pairs:
        return
    use = np.concatenate([p.use for p in pairs])
    children = np.concatenate([p.children for p in pairs])
    same = np.concatenate([p.same for p in pairs])
    left = structures.structures(use, children)
    sequence, fits = structures.sequences(children)
    fits &= structures.fits[same]
    use, children, same, left, sequence = use[fits], children[fits], same[fits], left[fits], sequence[fits]
    right = structures.structure[same]
    pattern = _patterns(np.concatenate([sequence, structures.leaves[same]], axis=1))
    table = np.concatenate([left[:, None], right[:, None], pattern.astype(np.int64)], axis=1)
    _, first = np.unique(table, axis=0, return_index=True)
    groups: dict[tuple[int, int], list[int]] = {}
    for row in sorted(int(f) for f in first):
        groups.setdefault((int(left[row]), int(right[row])), []).append(row)
    for rows in groups.values():
        for row in rows:
            if not any(other != row and _refines(pattern[other], pattern[row]) for other in rows):
                yield int(use[row]), children[row], int(same[row])


def _patterns(leaves: npt.NDArray[np.int16]) -> npt.NDArray[np.int8]:
    """For each leaf the place of its first occurrence (-1: none): equal for renamed graphs."""
    result = np.full(leaves.shape, -1, dtype=np.int8)
    for place in range(leaves.shape[1] - 1, -1, -1):
        result[(leaves == leaves[:, place : place + 1]) & (leaves >= 0)] = place
    return result


def _refines(fine: npt.NDArray[np.int8], coarse: npt.NDArray[np.int8]) -> bool:
    """Whether variables that are equal in `fine` are equal in `coarse`."""
    here = fine >= 0
    return bool((here == (coarse >= 0)).all() and (coarse[here] == coarse[fine[here]]).all())


class _Builder:
    """Terms of classes, made when they are asked for."""

    def __init__(self, state: Enumeration) -> None:
        self.family, self.shapes = state.family, state.shapes
        self.use, self.children = state.recipes()
        self.terms: dict[int, Term] = dict(enumerate(state.leaves))

    def of(self, number: int) -> Term:
        """The representative of a class."""
        if number not in self.terms:
            self.terms[number] = self.graph(int(self.use[number]), self.children[number])
        return self.terms[number]

    def graph(self, use: int, children: npt.NDArray[np.int32]) -> Term:
        """The graph of one operator over representatives."""
        inputs = [int(c) for c in children if c >= 0]
        return self.family.uses[use].term([self.of(c) for c in inputs], tuple(self.shapes[c] for c in inputs))


def _halved(
    state: Enumeration, evaluator: Evaluator, build: _Builder, structures: _Structures, axis: int
) -> Iterator[Equation]:
    """Rules of two outputs from a common core: both halves of a value along `axis` are known graphs."""
    others = _without_split(state)

    def parts_of(number: int) -> Term | None:
        """What a class is, other than a part of a Split or a leaf."""
        if build.use[number] < 0:
            return None
        if state.family.uses[int(build.use[number])].op != "Split":
            return build.of(number)
        return build.graph(*others[number]) if number in others else None

    for bucket in list(state.buckets):
        if bucket.weight or not bucket.runtime or len(bucket.shape) < -axis or bucket.shape[axis] % 2:
            continue
        half = bucket.shape[axis] // 2
        shape = list(bucket.shape)
        shape[axis] = half
        parts = []
        for index in (0, 1):
            attrs = {"axis": axis, "split": (half, half), "index": index}
            cut = KERNELS["Split"]([bucket.values], [bucket.shape], attrs, tuple(shape))
            parts.append(state.lookup(tuple(shape), evaluator.hasher.keys(np.ascontiguousarray(cut), tuple(shape))))
        rows = np.flatnonzero((parts[0] >= 0) & (parts[1] >= 0))
        children = np.full((len(rows), ARITY), -1, dtype=np.int32)
        children[:, 0], children[:, 1], children[:, 2] = parts[0][rows], parts[1][rows], bucket.ids[rows]
        sequence, fits = structures.sequences(children)
        table = np.concatenate([structures.structure[children[:, :3]], _patterns(sequence).astype(np.int64)], axis=1)
        _, first = np.unique(table, axis=0, return_index=True)
        for row in sorted(int(f) for f in first):
            if build.of(int(children[row, 2])).op == "Concat":
                continue  # these parts are those of the Concat
            node = make("Split", (build.of(int(children[row, 2])),), {"axis": axis, "split": (half, half)})
            left = (parts_of(int(children[row, 0])), parts_of(int(children[row, 1])))
            outs = (node.out(0), node.out(1))
            if fits[row] and left[0] is not None and left[1] is not None and left[0] is not left[1]:
                yield Equation((left[0], left[1]), outs, state.family)


def _without_split(state: Enumeration) -> dict[int, tuple[int, npt.NDArray[np.int32]]]:
    """For each class the first graph in it, its representative aside, that is not a part of a Split."""
    splits = [number for number, use in enumerate(state.family.uses) if use.op == "Split"]
    found: dict[int, tuple[int, npt.NDArray[np.int32]]] = {}
    for pairs in state.pairs:
        for row in np.flatnonzero(~np.isin(pairs.use, splits)):
            found.setdefault(int(pairs.same[row]), (int(pairs.use[row]), pairs.children[row]))
    return found
