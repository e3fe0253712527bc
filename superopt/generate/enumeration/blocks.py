"""Blocks: all graphs of one operator over sets of classes, as products of these sets.

Graphs with many operators are enumerated up to renaming: only graphs whose variables of one role first occur in the
order of their names. A renaming applies to both sides of an equation, so no equation between a graph and a smaller
graph is lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from superopt.evaluate.residues import Shape
from superopt.generate.enumeration.classes import ARITY, Classes, Ids, Rows
from superopt.generate.grammar import Use
from superopt.ir.infer import IllTyped
from superopt.ir.term import var
from superopt.ir.types import TensorType

__all__ = ["Block", "BlockBuilder", "renamed_apart"]


@dataclass(frozen=True, eq=False)
class Block:
    """An operator over one set of classes for each operand: the product of the sets. The classes of a set have one
    shape.

    `unordered`: the first two sets are equal and the operator is commutative, so each pair counts once.
    """

    use: int
    out: Shape
    runtime: int
    folded: int
    operands: tuple[Ids, ...]
    unordered: bool = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of classes of each set."""
        return tuple(len(ids) for ids in self.operands)

    @property
    def graphs(self) -> int:
        """Number of graphs."""
        first, *rest = self.sizes
        if self.unordered:
            return first * (first + 1) // 2 * int(np.prod(rest[1:], dtype=np.int64))
        return first * int(np.prod(rest, dtype=np.int64))

    def rows(self, flat: npt.NDArray[np.int64]) -> Rows:
        """Return the graphs with the numbers `flat` in the product."""
        children = np.full((len(flat), ARITY), -1, np.int32)
        for slot, (ids, place) in enumerate(zip(self.operands, np.unravel_index(flat, self.sizes), strict=True)):
            children[:, slot] = ids[place]
        same = np.ones(len(flat), np.int32)
        return Rows(same * self.use, children, same * self.runtime, same * self.folded)


@dataclass(frozen=True, eq=False)
class _OperandSet:
    """Classes that the grammar treats alike."""

    shape: Shape
    runtime: int
    folded: int
    weight: bool
    swaps: bool  # True if the classes may also be the other one of the first two operands
    ids: Ids


class BlockBuilder:
    """Builds the blocks of one level."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self._shapes: dict[tuple[int, tuple[Shape, ...]], Shape | None] = {}

    def blocks(self, runtime: int, folds: Sequence[int]) -> list[Block]:
        """Return all graphs with `runtime` operators at inference and a number of folded operators in `folds`.

        Blocks with few folded operators come first.
        """
        found: list[Block] = []
        for number, use in enumerate(self.classes.family.uses):
            if use.fold if runtime == 0 else use.run:
                for arity in use.arities:
                    cells = [self._operand_sets(use, slot, arity, runtime) for slot in range(arity)]
                    found += self._products(number, use, cells, runtime, folds)
        return sorted(found, key=lambda block: (block.folded, block.use))

    def _operand_sets(self, use: Use, slot: int, arity: int, runtime: int) -> list[_OperandSet]:
        c = self.classes
        usable = np.flatnonzero(c.built & (c.rows.runtime < max(runtime, 1)))
        table = np.stack([c.shape, c.rows.runtime, c.rows.folded, c.weight, c.maker], axis=1)[usable].astype(np.int32)
        kinds, inverse = np.unique(table, axis=0, return_inverse=True)
        pairs = use.spec.commutative and arity > 1 and slot < 2
        groups: dict[tuple[Shape, int, int, bool, bool], list[int]] = {}
        for k, (shape, run, folded, weight, maker) in enumerate(kinds.tolist()):
            op, leaf = c.makers[maker]

            def fits(at: int, kind: tuple[bool, int, str, str] = (bool(weight), folded, op, leaf)) -> bool:
                return use.accepts(at, *kind)

            if fits(slot):
                key = (c.shapes[shape], run, folded, bool(weight), pairs and fits(1 - slot))
                groups.setdefault(key, []).append(k)
        inverse = inverse.reshape(-1)
        cells = [_OperandSet(*key, usable[np.isin(inverse, kinds)].astype(np.int32)) for key, kinds in groups.items()]
        return sorted(cells, key=lambda cell: int(cell.ids[0]))

    def _products(
        self, number: int, use: Use, cells: list[list[_OperandSet]], runtime: int, folds: Sequence[int]
    ) -> Iterator[Block]:
        inner = max(runtime - 1, 0)
        commutes = use.spec.commutative and len(cells) > 1

        def fill(chosen: tuple[_OperandSet, ...], left: int) -> Iterator[tuple[_OperandSet, ...]]:
            if len(chosen) == len(cells):
                if left == 0 and (runtime == 0) == all(cell.weight for cell in chosen):
                    yield chosen
                return
            for cell in cells[len(chosen)]:
                if cell.runtime <= left:
                    yield from fill((*chosen, cell), left - cell.runtime)

        for chosen in fill((), inner):
            folded = sum(cell.folded for cell in chosen) + (runtime == 0)
            if folded not in folds:
                continue
            both = commutes and chosen[0].swaps and chosen[1].swaps
            if both and chosen[0].ids[0] > chosen[1].ids[0]:
                continue  # these operands are enumerated in the other order
            out = self._out(number, use, tuple(cell.shape for cell in chosen))
            if out is not None and self.classes.family.admits(out):
                unordered = both and bool(chosen[0].ids[0] == chosen[1].ids[0])
                yield Block(number, out, runtime, folded, tuple(cell.ids for cell in chosen), unordered)

    def _out(self, number: int, use: Use, shapes: tuple[Shape, ...]) -> Shape | None:
        if (number, shapes) not in self._shapes:
            self._shapes[number, shapes] = _output_shape(use, shapes)
        return self._shapes[number, shapes]


def _output_shape(use: Use, shapes: tuple[Shape, ...]) -> Shape | None:
    """Return the shape of the operator's output, or None if it is ill-typed."""
    inputs = [var("_", TensorType("float", shape)) for shape in shapes]
    try:
        term = use.term(inputs, shapes)
    except IllTyped:
        return None
    assert term.type is not None
    out = term.type.concrete()
    if out is None or (use.spec.elementwise and out not in shapes):
        return None  # both operands broadcast: no family needs it
    return out


def renamed_apart(classes: Classes, block: Block) -> Iterator[Block]:
    """Yield the parts of a block in which, for each role, variables first occur in the order of their names."""
    orders = _FirstOccurrences(classes)

    def restrict(slot: int, counts: tuple[int, ...], chosen: tuple[Ids, ...]) -> Iterator[Block]:
        if slot == len(block.operands):
            yield replace(block, operands=chosen, unordered=False)
            return
        for after, ids in orders.continued(block.operands[slot], counts):
            yield from restrict(slot + 1, after, (*chosen, ids))

    yield from restrict(0, (0,) * len(orders.roles), ())


class _FirstOccurrences:
    """The order of first occurrence of each role's variables, as one number for each class and role."""

    def __init__(self, classes: Classes) -> None:
        variables = classes.family.variables
        self.classes = classes
        self.roles = list(dict.fromkeys(v.role for v in variables))
        names = {role: [k for k, v in enumerate(variables) if v.role == role] for role in self.roles}
        self.members = [names[role] for role in self.roles]
        self.orders = [
            [order for count in range(len(m) + 1) for order in itertools.permutations(range(len(m)), count)]
            for m in self.members
        ]

    def continued(self, ids: Ids, counts: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Ids]]:
        """Yield the classes of `ids` whose new variables occur in order, in groups with equal new counts.

        The first `counts` variables of each role have occurred already; all others are new.
        """
        sequence = self.classes.sequence[ids]
        after = np.zeros((len(ids), len(self.roles)), np.int64)
        good = np.ones(len(ids), np.bool_)
        for role, members in enumerate(self.members):
            rank = np.full(len(self.classes.leaves) + 1, -1, np.int64)
            rank[members] = np.arange(len(members))
            next_one = np.full(len(ids), counts[role], np.int64)
            for place in range(sequence.shape[1]):
                here = rank[sequence[:, place]]  # -1 is the last entry, which is no variable
                good &= here <= next_one
                next_one += here == next_one
            after[:, role] = next_one
        ids, after = ids[good], after[good]
        kinds, inverse = np.unique(after, axis=0, return_inverse=True)
        for k, kind in enumerate(kinds.tolist()):
            yield tuple(kind), ids[inverse.reshape(-1) == k]
