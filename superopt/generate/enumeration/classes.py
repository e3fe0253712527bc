"""Classes of equal graphs, stored as arrays: all graphs that the enumeration has found so far.

A class (an e-class in equality saturation) is the set of graphs with one fingerprint. Only its smallest graph, the
representative, is stored: an operator (a `Use`, by number) over classes. All data is in parallel arrays, so that
thousands of classes are read at once. Classes are numbered in the order of discovery, children before their users.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from superopt.evaluate.residues import Array, Shape
from superopt.generate.grammar import Family
from superopt.ir.term import Term

__all__ = ["ARITY", "LEAVES", "Classes", "Ids", "Rows", "leaves_of", "mixed", "structures_of"]

ARITY = 6  # most operands of any operator (LSTM)
LEAVES = 32  # most leaves of a graph in an equation
Ids = npt.NDArray[np.int32]


@dataclass
class Rows:
    """Graphs as rows: row k is the operator `use[k]` over the classes `children[k]` (-1: no operand)."""

    use: Ids
    children: Ids
    runtime: Ids
    folded: Ids

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Rows:
        """Return some of the rows."""
        return Rows(self.use[rows], self.children[rows], self.runtime[rows], self.folded[rows])

    @staticmethod
    def join(parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts, in order."""
        if not parts:
            none = np.empty(0, np.int32)
            return Rows(none, np.empty((0, ARITY), np.int32), none, none)
        return Rows(*(np.concatenate([getattr(p, n) for p in parts]) for n in ("use", "children", "runtime", "folded")))

    def __len__(self) -> int:
        return len(self.use)


@dataclass
class Classes:
    """All classes of a family.

    `values[s]` [classes, SAMPLES, *shapes[s]] holds the values of the classes with shape number s, indexed by `place`.
    Values are 31-bit residues, stored in 32 bits.
    """

    family: Family
    memory: int = 1 << 30  # bytes of values in memory; beyond that, values of the largest shapes are on disk
    leaves: list[Term] = field(default_factory=list)  # terms of the first classes
    shapes: list[Shape] = field(default_factory=list)
    values: list[npt.NDArray[np.uint32]] = field(default_factory=list)
    members: list[Ids] = field(default_factory=list)  # class numbers by shape, in step with `values`
    keys: list[npt.NDArray[np.uint64]] = field(default_factory=list)  # by shape, sorted
    owners: list[Ids] = field(default_factory=list)  # the class of each key
    rows: Rows = field(default_factory=lambda: Rows.join([]))
    shape: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))
    place: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    weight: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    maker: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))  # see `makers`
    # True if the class has values and may be an operand of larger graphs.
    built: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    sequence: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty((0, LEAVES), np.int16))
    fits: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    structure: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    kind: npt.NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))  # rank, and which sizes are 1
    makers: list[tuple[str, str]] = field(default_factory=list)  # (operator, "") or ("", name of a leaf)

    def __len__(self) -> int:
        return len(self.shape)

    def number_of_shape(self, shape: Shape) -> int:
        """Return the number of a shape; add the shape if it is new."""
        if shape not in self.shapes:
            self.shapes.append(shape)
            self.values.append(np.empty((0, 0), np.uint32))
            self.members.append(np.empty(0, np.int32))
            self.keys.append(np.empty(0, np.uint64))
            self.owners.append(np.empty(0, np.int32))
        return self.shapes.index(shape)

    def number_of_maker(self, op: str, leaf: str) -> int:
        """Return the number in `makers` of an operator or leaf; add it if it is new."""
        if (op, leaf) not in self.makers:
            self.makers.append((op, leaf))
        return self.makers.index((op, leaf))

    def value(self, ids: Ids) -> Array:
        """Return the values of classes of one shape: [classes, SAMPLES, *shape]. The classes must be `built`."""
        return self.values[int(self.shape[ids[0]])][self.place[ids]].astype(np.uint64)

    def lookup(self, shape: Shape, keys: npt.NDArray[np.uint64]) -> Ids:
        """Return the class with each key, or -1. Fastest for sorted keys."""
        if shape not in self.shapes:
            return np.full(len(keys), -1, np.int32)
        known, owners = self.keys[self.shapes.index(shape)], self.owners[self.shapes.index(shape)]
        if not len(known):
            return np.full(len(keys), -1, np.int32)
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[at] == keys, owners[at], -1).astype(np.int32)

    def add(
        self,
        shape: Shape,
        rows: Rows,
        weight: bool,
        makers: npt.NDArray[np.int16],
        keys: npt.NDArray[np.uint64] | None,
        values: Array | None,
        built: npt.NDArray[np.bool_],
        leaf: int | None = None,
    ) -> Ids:
        """Add classes of one shape, and return their numbers.

        Without `keys`, the new classes are second representatives, which `lookup` does not find. `values` [built
        classes, SAMPLES, *shape] are the values of the classes with `built`.
        """
        number, start, count = self.number_of_shape(shape), len(self), len(rows)
        ids = np.arange(start, start + count, dtype=np.int32)
        place = np.full(count, -1, np.int32)
        if values is not None and built.any():
            known = self.values[number]
            place[built] = np.arange(len(values)) + (len(known) if known.size else 0)
            fresh = values.astype(np.uint32)
            self.values[number] = np.concatenate([known, fresh]) if known.size else fresh
            self._spill()
            self.members[number] = np.concatenate([self.members[number], ids[built]])
        if keys is not None:
            merged = np.concatenate([self.keys[number], keys])
            order = np.argsort(merged, kind="stable")
            self.keys[number] = merged[order]
            self.owners[number] = np.concatenate([self.owners[number], ids])[order]
        if leaf is None:
            sequence, fits = leaves_of(self, rows.children)
            structure = structures_of(self, rows)
        else:
            sequence, fits = np.full((1, LEAVES), -1, np.int16), np.ones(1, np.bool_)
            structure = self._leaf_structure(leaf)
            if leaf < len(self.family.variables):
                sequence[0, 0] = leaf
        kind = sum(1 << (d + 4) for d, size in enumerate(shape) if size == 1) + len(shape)
        self.rows = Rows.join([self.rows, rows])
        self.shape = np.concatenate([self.shape, np.full(count, number, np.int16)])
        self.place = np.concatenate([self.place, place])
        self.weight = np.concatenate([self.weight, np.full(count, weight)])
        self.maker = np.concatenate([self.maker, makers])
        self.built = np.concatenate([self.built, built])
        self.sequence = np.concatenate([self.sequence, sequence])
        self.fits = np.concatenate([self.fits, fits])
        self.structure = np.concatenate([self.structure, structure])
        self.kind = np.concatenate([self.kind, np.full(count, kind, np.int16)])
        return ids

    def _spill(self) -> None:
        """Move values beyond the memory limit to unnamed memory-mapped files, which are paged in on demand."""
        held = [k for k, values in enumerate(self.values) if not isinstance(values, np.memmap)]
        while held and sum(self.values[k].nbytes for k in held) > self.memory:
            largest = max(held, key=lambda k: self.values[k].nbytes)
            held.remove(largest)
            with tempfile.TemporaryFile() as file:
                mapped = np.memmap(file, np.uint32, "w+", shape=self.values[largest].shape)
                mapped[:] = self.values[largest]
                self.values[largest] = mapped

    def _leaf_structure(self, leaf: int) -> npt.NDArray[np.uint64]:
        """Return the structure number of a leaf. Variables of one role have the same number."""
        roles = list(dict.fromkeys(v.role for v in self.family.variables))
        variables = self.family.variables
        number = roles.index(variables[leaf].role) if leaf < len(variables) else 1000 + leaf
        return mixed(np.array([[number]], np.uint64))


def structures_of(classes: Classes, rows: Rows) -> npt.NDArray[np.uint64]:
    """Return a structure number for each graph: a hash of its tree with variables made anonymous.

    Two different trees have the same number with a probability of about 2^-64.
    """
    below = np.where(rows.children >= 0, classes.structure[rows.children], np.uint64(1))
    return mixed(np.concatenate([rows.use.astype(np.uint64)[:, None], below], axis=1))


def mixed(table: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return one well-mixed number for each row (the finaliser of splitmix64, column after column)."""
    total = np.full(len(table), 0x9E3779B97F4A7C15, np.uint64)
    for column in table.T:
        total = (total ^ column) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(0x94D049BB133111EB)
        total = (total ^ (total >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        total = (total ^ (total >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        total ^= total >> np.uint64(31)
    return total


def leaves_of(classes: Classes, children: Ids) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.bool_]]:
    """Return the variables of graphs over `children` from left to right, and True for each graph whose variables fit.

    The variables are [graphs, LEAVES], padded with -1.
    """
    packed = np.full((len(children), LEAVES), -1, np.int16)
    fits = np.ones(len(children), np.bool_)
    count = np.zeros(len(children), np.int64)
    for slot in range(children.shape[1]):
        child = children[:, slot]
        present = np.flatnonzero(child >= 0)
        if not len(present):
            break
        below = classes.sequence[child[present]]
        fits[present] &= classes.fits[child[present]]
        for place in range(LEAVES):
            some = below[:, place] >= 0
            if not some.any():
                break
            rows = present[some]
            room = count[rows] < LEAVES
            fits[rows[~room]] = False
            rows = rows[room]
            packed[rows, count[rows]] = below[some, place][room]
            count[rows] += 1
    return packed, fits
