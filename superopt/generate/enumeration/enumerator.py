"""Bottom-up enumeration of every graph of a family by operator count, hundreds of thousands at a time.

Graphs with one fingerprint form a class, and only the smallest graph of a class is an operand of larger graphs
(observational equivalence). Graphs are not objects: they are elements of products of sets of classes (`blocks`), and
their fingerprints are computed by matrix products (`linear_fingerprints`). If a graph is equal to a smaller one, the
pair is a conjecture, unless a smaller rule already explains it (`known_rules`).

The size of a graph is the number of operators that run at inference. Operators on weights alone are folded and do not
count, up to the family's bounds on folded operators.

Graphs of the last level are only compared, and never operands of larger graphs. The last level is cut into ranges of
fingerprints. Graphs of different ranges are never equal, so these parts are independent. Each part is processed in as
many passes as the memory requires. Computing fingerprints again is cheaper than writing them to disk and reading them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from superopt.evaluate.residues import Array, Shape
from superopt.generate.enumeration.blocks import Block, BlockBuilder, renamed_apart
from superopt.generate.enumeration.classes import ARITY, Classes, Ids, Rows, mixed
from superopt.generate.enumeration.deduplicate import most_general
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.enumeration.graph_list import KEYS, GraphList, Numbers
from superopt.generate.enumeration.known_rules import KnownRules
from superopt.generate.enumeration.linear_fingerprints import BlockFingerprints, Keys
from superopt.generate.grammar import Family
from superopt.ir.infer import make
from superopt.ir.notation import parse_terms
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType, tensor

__all__ = ["Enumeration", "LevelCounts", "enumerate_family"]

_RENAMING_FROM = 4  # the last level is enumerated up to renaming if its graphs have at least this many operators
_DEFAULT_MEMORY = 1 << 30  # bytes
_ALL_KEYS = (0, KEYS)
_GROWTH = 16  # a level with targets is the last one if the next level, this many times larger, may have too many graphs


@dataclass
class LevelCounts:
    """Counts of one level.

    The counts are graphs enumerated, new classes, graphs equal to a smaller graph, and graphs equal to a smaller graph
    that no smaller rule explains.
    """

    runtime: int
    graphs: int = 0
    classes: int = 0
    pairs: int = 0
    unexplained: int = 0


@dataclass
class Enumeration:
    """All classes of a family except those of the last level, and the equal pairs that become conjectures.

    A pair is the graph of a row, and the smaller class that the graph is equal to. In a family with targets, this is
    the class of a target.
    """

    classes: Classes
    rows: Rows = field(default_factory=lambda: Rows.join([]))
    same: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    levels: list[LevelCounts] = field(default_factory=list)
    targets: dict[int, int] = field(default_factory=dict)  # class -> number of the target

    @property
    def graphs(self) -> int:
        """Number of graphs enumerated."""
        return sum(level.graphs for level in self.levels)


def enumerate_family(
    family: Family,
    evaluator: Evaluator,
    *,
    operators: int | None = None,
    part: tuple[int, int] = (0, 1),
    memory: int | None = None,
) -> Enumeration:
    """Enumerate the graphs of the family with at most `operators` operators at inference (by default the family's
    bound).

    `part` (k, n) selects the k-th of n ranges of fingerprints of the last level. The pairs of earlier levels belong to
    part 0. `memory` limits the bytes for graphs that are compared at once. The values of classes may take as many bytes
    again; values beyond that are moved to disk. The result depends on the evaluator's seed, but not on the memory.
    """
    return _Enumerator(family, evaluator, part, memory or _DEFAULT_MEMORY).run(
        min(family.runtime, operators or family.runtime)
    )


class _Enumerator:
    """One enumeration in progress."""

    def __init__(self, family: Family, evaluator: Evaluator, part: tuple[int, int], memory: int) -> None:
        self.family, self.evaluator, self.part, self.memory = family, evaluator, part, memory
        self.classes = Classes(family, memory)
        self.state = Enumeration(self.classes)
        self.fingerprints = BlockFingerprints(self.classes, evaluator.hasher)
        self.builder = BlockBuilder(self.classes)
        self.known_rules = KnownRules(self.classes, evaluator)
        self.unfolded: set[int] = set()  # classes with a second representative that does not fold
        self.found: list[tuple[Rows, Ids]] = []

    def run(self, operators: int) -> Enumeration:
        """Enumerate all levels."""
        self._leaves()
        if self.family.targets and not self.state.targets:
            return self.state  # each is equal to a variable: there is nothing to look for
        for folded in range(1, max(self.family.folded[: operators + 1]) + 1):
            self._level(0, range(folded, folded + 1), last=False)
        for runtime in range(1, operators + 1):
            folds = range(self.family.folded[runtime] + 1)
            last = runtime == operators
            if self.state.targets:
                graphs = sum(block.graphs for block in self.builder.blocks(runtime, folds))
                if graphs > self.family.most:
                    break
                last |= graphs > self.family.most // _GROWTH
            self._level(runtime, folds, last)
            if last:
                break
        self.state.rows = Rows.join([rows for rows, _ in self.found])
        self.state.same = np.concatenate([same for _, same in self.found] or [np.empty(0, np.int32)])
        return self.state

    def _leaves(self) -> None:
        for variable in self.family.variables:
            term = var(variable.name, TensorType("float", variable.shape))
            self._leaf(term, variable.shape, variable.weight, variable.name)
        for op, attrs in self.family.constants:
            term = make(op, (), attrs)
            assert term.type is not None
            shape = term.type.concrete()
            assert shape is not None
            self._leaf(term, shape, True, op)
        types = {variable.name: tensor(*variable.shape) for variable in self.family.variables}
        for number, text in enumerate(self.family.targets):
            (term,) = parse_terms(text, types)
            shape = None if term.type is None else term.type.concrete()
            assert shape is not None
            # A target that is computed anyway may be an operand of graphs for the other targets.
            operand = len(self.family.targets) > 1 and not self.family.phases
            if self._leaf(term, shape, False, f"target {number}", operand):
                self.state.targets[len(self.classes) - 1] = number

    def _leaf(self, term: Term, shape: Shape, weight: bool, name: str, operand: bool = True) -> bool:
        """Add a leaf; return False if an equal one exists: for example, Dirac of one channel is Ones."""
        value = self.evaluator.value(term)[None]
        key = self.evaluator.hasher.keys(value, shape)
        if self.classes.lookup(shape, key)[0] >= 0:
            return False
        none = np.full(1, -1, np.int32)
        rows = Rows(none, np.full((1, ARITY), -1, np.int32), none * 0, none * 0)
        maker = np.array([self.classes.number_of_maker("", name)], np.int16)
        number = len(self.classes.leaves)
        self.classes.leaves.append(term)
        self.classes.add(shape, rows, weight, maker, key, value, np.full(1, operand), leaf=number)
        return True

    def _level(self, runtime: int, folds: Sequence[int], last: bool) -> None:
        level = LevelCounts(runtime)
        by_shape: dict[Shape, list[Block]] = {}
        for block in self.builder.blocks(runtime, folds):
            by_shape.setdefault(block.out, []).append(block)
        found: list[tuple[Rows, Ids]] = []
        before = len(self.classes)
        for shape, blocks in by_shape.items():
            if last:
                found += self._compare(shape, list(self._without_reducible(blocks, runtime)), level)
            else:
                found += self._add_new(shape, blocks, level, runtime)
        level.classes = len(self.classes) - before
        self.state.levels.append(level)
        if runtime:  # rules on weights alone save nothing at inference
            rows, same = Rows.join([r for r, _ in found]), np.concatenate([s for _, s in found] or [self.state.same])
            if self.state.targets:
                wanted = np.isin(same, list(self.state.targets))
                self.found.append((rows.take(wanted), same[wanted]))
                rows, same = rows.take(~wanted), same[~wanted]
            rows, same = most_general(self.classes, rows, same)
            self.known_rules.learn(rows, same)
            if not self.state.targets and (last or self.part[0] == 0):
                self.found.append((rows, same))

    def _without_reducible(self, blocks: list[Block], runtime: int) -> Iterator[Block]:
        """Yield blocks of the last level without graphs that a rule rewrites regardless of the other operands."""
        for block in blocks:
            for part in renamed_apart(self.classes, block) if runtime >= _RENAMING_FROM else (block,):
                operands = part.operands
                kept = tuple(self.known_rules.irreducible(part.use, slot, operands) for slot in range(len(operands)))
                if part.unordered and len(kept[0]) != len(kept[1]):
                    kept = operands
                if all(len(ids) for ids in kept):
                    yield Block(part.use, part.out, part.runtime, part.folded, kept, part.unordered)

    def _add_new(self, shape: Shape, blocks: list[Block], level: LevelCounts, runtime: int) -> list[tuple[Rows, Ids]]:
        """Add the new graphs of one shape as classes; return the pairs among the others that no rule explains."""
        graphs = GraphList(self.fingerprints, blocks)
        new_graphs: list[tuple[Numbers, Keys]] = []
        equal_graphs: list[tuple[Numbers, Ids]] = []
        # Graphs that are equal to a known class, or (-1) to the first new graph at a place.
        others: list[tuple[Rows, Ids, Numbers]] = []
        for low, high in graphs.ranges(self.memory, _ALL_KEYS):
            places, keys = graphs.within(low, high)
            level.graphs += len(keys)
            order = np.argsort(keys, kind="stable")
            known = np.full(len(keys), -1, np.int32)
            known[order] = self.classes.lookup(shape, keys[order])
            leaders = _leaders(keys, order)
            is_new = (known < 0) & (leaders == np.arange(len(leaders)))
            new_graphs.append((places[is_new], keys[is_new]))
            if self.family.unfolded:
                equal_graphs.append((places[known >= 0], known[known >= 0]))
            if runtime:  # rules on weights alone save nothing at inference
                rest = np.flatnonzero(~is_new)
                level.pairs += len(rest)
                rows = graphs.rows(places[rest])
                keep = np.flatnonzero(~self.known_rules.explained(rows))
                rest = rest[keep]
                others.append((rows.take(keep), known[rest], places[leaders[rest]]))
        places, keys = (np.concatenate(part) for part in zip(*new_graphs, strict=True))
        order = np.argsort(places)  # the same order for any number of passes
        places = places[order]
        ids = self._add(shape, graphs, places, runtime, keys[order])
        if self.family.unfolded:
            self._add_seconds(shape, graphs, equal_graphs, runtime)
        found = []
        for rows, known, leaders in others:
            same = np.where(known >= 0, known, ids[np.searchsorted(places, leaders) % len(ids)] if len(ids) else -1)
            level.unexplained += len(rows)
            found.append((rows, same.astype(np.int32)))
        return found

    def _add(self, shape: Shape, graphs: GraphList, places: Numbers, runtime: int, keys: Keys | None) -> Ids:
        """Add graphs as classes. Graphs whose elements are all zero are not operands of larger graphs."""
        values: list[Array] = []
        built = np.ones(len(places), np.bool_)
        for at, value in graphs.values(places):
            useful = value.reshape(len(value), -1).any(axis=1)  # equations over zero are special cases of others
            built[at] = useful
            values.append(value[useful].astype(np.uint32))
        rows = graphs.rows(places)
        makers = np.array([self.classes.number_of_maker(use.made or use.op, "") for use in self.family.uses], np.int16)
        stacked = np.concatenate(values) if values else None
        return self.classes.add(shape, rows, runtime == 0, makers[rows.use], keys, stacked, built)

    def _add_seconds(self, shape: Shape, graphs: GraphList, equal: list[tuple[Numbers, Ids]], runtime: int) -> None:
        """Add second representatives: graphs without folding, for classes whose representative folds."""
        places, known = (np.concatenate(part) for part in zip(*equal, strict=True))
        order = np.argsort(places)
        places, known = places[order], known[order]
        folds = (graphs.rows(places).folded == 0) & (self.classes.rows.folded[known] > 0)
        chosen = []
        for place, number in zip(places[folds].tolist(), known[folds].tolist(), strict=True):
            if number not in self.unfolded:
                self.unfolded.add(number)
                chosen.append(place)
        if chosen:
            self._add(shape, graphs, np.array(chosen, np.int64), runtime, None)

    def _compare(self, shape: Shape, blocks: list[Block], level: LevelCounts) -> list[tuple[Rows, Ids]]:
        """Return the pairs of a graph of the last level and an equal smaller one."""
        graphs = GraphList(self.fingerprints, blocks)
        found: list[tuple[Rows, Ids]] = []
        index, count = self.part
        for low, high in graphs.ranges(self.memory, (index * KEYS // count, (index + 1) * KEYS // count)):
            places, keys = graphs.within(low, high)
            level.graphs += len(keys)
            found += self._pass(shape, graphs, places, keys, level)
        return found

    def _pass(
        self, shape: Shape, graphs: GraphList, places: Numbers, keys: Keys, level: LevelCounts
    ) -> Iterator[tuple[Rows, Ids]]:
        """Yield the pairs among graphs of one range of fingerprints."""
        order = np.argsort(keys, kind="stable")
        places, keys = places[order], keys[order]
        known = self.classes.lookup(shape, keys)
        if self.state.targets:
            wanted = np.isin(known, list(self.state.targets))
            places, keys, known = places[wanted], keys[wanted], known[wanted]
        equal = keys[1:] == keys[:-1]
        shared = np.concatenate([[False], equal]) | np.concatenate([equal, [False]])
        first = np.concatenate([[True], ~equal])[: len(keys)]
        level.pairs += int(((known >= 0) | (shared & ~first)[: len(keys)]).sum())
        old = np.flatnonzero(known >= 0)
        rows = graphs.rows(places[old])
        keep = ~self.known_rules.explained(rows)
        level.unexplained += int(keep.sum())
        yield rows.take(keep), known[old[keep]]
        # Equal graphs of this level that no rule rewrites: the first is the representative of the others.
        new = np.flatnonzero((known < 0) & shared[: len(keys)])
        rows = graphs.rows(places[new])
        keep = ~self.known_rules.explained(rows) & ~_repeated(rows, keys[new])
        rows, keys = rows.take(keep), keys[new[keep]]
        starts = np.concatenate([[True], keys[1:] != keys[:-1]])[: len(keys)]
        group = np.cumsum(starts) - 1
        several = np.bincount(group, minlength=1)[group] > 1 if len(keys) else starts
        heads = np.flatnonzero(starts & several)
        if len(heads):
            makers, unbuilt = np.zeros(len(heads), np.int16), np.zeros(len(heads), np.bool_)
            number = np.full(int(group[-1]) + 1, -1, np.int32)
            number[group[heads]] = self.classes.add(shape, rows.take(heads), False, makers, None, None, unbuilt)
            rest = np.flatnonzero(several & ~starts)
            level.unexplained += len(rest)
            yield rows.take(rest), number[group[rest]]


def _repeated(rows: Rows, keys: Keys) -> npt.NDArray[np.bool_]:
    """Return True for each graph that occurred before.

    Parts of a block that differ by a renaming may contain the same graphs.
    """
    table = np.concatenate(
        [keys[:, None], rows.use[:, None].astype(np.uint64), rows.children.astype(np.uint64)], axis=1
    )
    result = np.ones(len(rows), np.bool_)
    result[np.unique(mixed(table), return_index=True)[1]] = False
    return result


def _leaders(keys: Keys, order: Numbers) -> Numbers:
    """Return, for each key, the first position with an equal key."""
    first = np.ones(len(keys), np.bool_)
    first[1:] = keys[order[1:]] != keys[order[:-1]]
    leader = order[np.maximum.accumulate(np.where(first, np.arange(len(keys)), 0))]
    leaders = np.empty(len(keys), np.int64)
    leaders[order] = leader
    return leaders
