"""Bottom-up enumeration: every graph of a family by operator count, thousands at a time.

A class is the set of graphs with one fingerprint; only its smallest graph (its representative) is built upon, which
is observational equivalence. Graphs are never objects here: a graph is an operator (`Use`) over classes, kept as rows
of integer arrays. Python loops only over (operator, buckets of equal shape and size); the graphs of such a
combination are the product of its buckets, computed by broadcasting in chunks.

Size is the number of operators that run at inference. Operators on weights alone are folded, so they are free, up to
the bounds that the family states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from superopt.generate.fingerprints import SAMPLES, Evaluator
from superopt.generate.grammar import Family, Use
from superopt.generate.modular import KERNELS, Array, Shape
from superopt.ir.ops import IllTyped, make
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType

__all__ = ["ARITY", "Enumeration", "Pairs", "enumerate_family"]

ARITY = 5  # most operands of any operator (BatchNormalization)
_CHUNK = 1 << 19  # elements computed at once: small enough for the caches, large enough to hide Python
Ids: TypeAlias = npt.NDArray[np.int32]


@dataclass
class _Bucket:
    """Classes of one shape, kind and size; `ids` and `values` run in step."""

    shape: Shape
    weight: bool
    runtime: int
    folded: int
    ids: Ids
    values: Array  # [classes, SAMPLES, *shape]
    made_by: str = ""  # the operator
    leaf: str = ""  # the name, for buckets of one leaf


@dataclass
class _Combination:
    """A use over one bucket an operand: the product of the buckets' classes."""

    use: int
    buckets: tuple[_Bucket, ...]
    out: Shape
    folded: int

    def children(self, flat: npt.NDArray[np.int64]) -> Ids:
        """Class ids [graphs, ARITY] (-1: no operand) of the graphs numbered `flat`."""
        rows = np.full((len(flat), ARITY), -1, dtype=np.int32)
        places = np.unravel_index(flat, tuple(len(b.ids) for b in self.buckets))
        for slot, (bucket, place) in enumerate(zip(self.buckets, places, strict=True)):
            rows[:, slot] = bucket.ids[place]
        return rows


@dataclass
class Pairs:
    """Graphs that are not new: row k is `use[k]` over classes `children[k]`, equal to class `same[k]`."""

    use: npt.NDArray[np.int32]
    children: Ids
    same: npt.NDArray[np.int32]
    runtime: npt.NDArray[np.int32]
    folded: npt.NDArray[np.int32]


@dataclass
class Enumeration:
    """All classes of a family, in the order in which they were found, and the equal pairs."""

    family: Family
    leaves: list[Term] = field(default_factory=list)  # terms of the first classes
    use: list[npt.NDArray[np.int32]] = field(default_factory=list)
    children: list[Ids] = field(default_factory=list)
    shapes: list[Shape] = field(default_factory=list)  # of every class
    runtime: list[int] = field(default_factory=list)
    weight: list[bool] = field(default_factory=list)
    folded: list[int] = field(default_factory=list)
    unfolded: set[int] = field(default_factory=set)  # classes that have a second representative, without folding
    pairs: list[Pairs] = field(default_factory=list)
    buckets: list[_Bucket] = field(default_factory=list)
    keys: dict[Shape, tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]] = field(default_factory=dict)  # sorted
    graphs: int = 0
    levels: list[tuple[int, int]] = field(default_factory=list)  # graphs and new classes of each level

    def recipes(self) -> tuple[npt.NDArray[np.int32], Ids]:
        """Use (-1 for leaves) and children of every class."""
        return np.concatenate(self.use), np.concatenate(self.children)

    def lookup(self, shape: Shape, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """The class with each key, or -1."""
        if shape not in self.keys:
            return np.full(len(keys), -1, dtype=np.int32)
        known, ids = self.keys[shape]
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        return np.where(known[place] == keys, ids[place], -1).astype(np.int32)


def enumerate_family(family: Family, evaluator: Evaluator) -> Enumeration:
    """All graphs of the family. Deterministic for the evaluator's seed."""
    state = Enumeration(family)
    _add_leaves(state, evaluator)
    for folded in range(1, max(family.folded) + 1):
        _level(state, evaluator, 0, range(folded, folded + 1))
    for runtime in range(1, family.runtime + 1):
        _level(state, evaluator, runtime, range(family.folded[runtime] + 1))
    return state


def _add_leaves(state: Enumeration, evaluator: Evaluator) -> None:
    for variable in state.family.variables:
        term = var(variable.name, TensorType("float", variable.shape))
        _add_leaf(state, evaluator, term, variable.shape, variable.weight, variable.name)
    for op, attrs in state.family.constants:
        term = make(op, (), attrs)
        assert term.type is not None and term.type.shape is not None
        shape = term.type.concrete()
        assert shape is not None
        _add_leaf(state, evaluator, term, shape, True, op)


def _add_leaf(state: Enumeration, evaluator: Evaluator, term: Term, shape: Shape, weight: bool, name: str) -> None:
    value = evaluator.value(term)[None]
    key = evaluator.hasher.keys(value, shape)
    if state.lookup(shape, key)[0] >= 0:
        return  # e.g. Dirac of one channel is Ones
    ids = np.array([len(state.shapes)], dtype=np.int32)
    state.leaves.append(term)
    state.use.append(np.full(1, -1, dtype=np.int32))
    state.children.append(np.full((1, ARITY), -1, dtype=np.int32))
    state.shapes.append(shape)
    state.runtime.append(0)
    state.weight.append(weight)
    state.folded.append(0)
    state.buckets.append(_Bucket(shape, weight, 0, 0, ids, value, leaf=name))
    _insert_keys(state, shape, key, ids)


def _insert_keys(state: Enumeration, shape: Shape, keys: npt.NDArray[np.uint64], ids: Ids) -> None:
    known, numbers = state.keys.get(shape, (np.empty(0, np.uint64), np.empty(0, np.int32)))
    keys, ids = np.concatenate([known, keys]), np.concatenate([numbers, ids])
    order = np.argsort(keys, kind="stable")
    state.keys[shape] = (keys[order], ids[order])


def _level(state: Enumeration, evaluator: Evaluator, runtime: int, folds: range) -> None:
    """All graphs with `runtime` operators at inference and one of `folds` numbers of folded operators."""
    combinations = sorted(_combinations(state, runtime, folds), key=lambda c: c.folded)
    by_shape: dict[Shape, list[_Combination]] = {}
    for combination in combinations:
        by_shape.setdefault(combination.out, []).append(combination)
    before, graphs = len(state.shapes), state.graphs
    last = runtime == state.family.runtime
    fresh: list[_Bucket] = []
    for shape, group in by_shape.items():
        fresh += _settle(state, evaluator, shape, group, runtime, last)
    state.buckets += fresh
    state.levels.append((state.graphs - graphs, len(state.shapes) - before))


def _combinations(state: Enumeration, runtime: int, folds: range) -> Iterator[_Combination]:
    for number, use in enumerate(state.family.uses):
        if not (use.fold if runtime == 0 else use.run):
            continue
        for arity in use.arities:
            yield from _combine(state, number, use, arity, runtime, folds)


def _combine(
    state: Enumeration, number: int, use: Use, arity: int, runtime: int, folds: range
) -> Iterator[_Combination]:
    inner = runtime - 1 if runtime else 0

    def fill(chosen: tuple[_Bucket, ...]) -> Iterator[tuple[_Bucket, ...]]:
        slot = len(chosen)
        if slot == arity:
            if sum(b.runtime for b in chosen) == inner and (runtime == 0) == all(b.weight for b in chosen):
                yield chosen
            return
        for bucket in state.buckets:
            if bucket.runtime <= inner - sum(b.runtime for b in chosen) and _fits(use, slot, bucket):
                yield from fill((*chosen, bucket))

    for buckets in fill(()):
        folded = sum(b.folded for b in buckets) + (runtime == 0)
        if folded not in folds:
            continue
        if use.spec.commutative and arity > 1 and _is_mirrored(use, *buckets[:2]):
            continue  # the other order is enumerated
        out = _output_shape(use, tuple(b.shape for b in buckets))
        if out is not None and state.family.admits(out):
            yield _Combination(number, buckets, out, folded)


def _is_mirrored(use: Use, first: _Bucket, second: _Bucket) -> bool:
    return _order(first) > _order(second) and _fits(use, 0, second) and _fits(use, 1, first)


def _fits(use: Use, slot: int, bucket: _Bucket) -> bool:
    return use.accepts(slot, bucket.weight, bucket.folded, bucket.made_by, bucket.leaf)


def _order(bucket: _Bucket) -> int:
    return int(bucket.ids[0])


def _output_shape(use: Use, shapes: tuple[Shape, ...]) -> Shape | None:
    inputs = [var("_", TensorType("float", shape)) for shape in shapes]
    try:
        term = use.term(inputs, shapes)
    except IllTyped:
        return None
    assert term.type is not None
    out = term.type.concrete()
    assert out is not None
    if use.spec.elementwise and out not in shapes:
        return None  # both operands broadcast: no family needs it
    return out


def _settle(
    state: Enumeration, evaluator: Evaluator, shape: Shape, group: list[_Combination], runtime: int, last: bool
) -> list[_Bucket]:
    """Computes the graphs of `group`, all of one output shape; new fingerprints become classes."""
    keys: list[npt.NDArray[np.uint64]] = []
    flats: list[npt.NDArray[np.int64]] = []
    for combination in group:
        flat, key = _fingerprints(state, evaluator, combination)
        flats.append(flat)
        keys.append(key)
    sizes = [len(k) for k in keys]
    key = np.concatenate(keys)
    flat = np.concatenate(flats)
    owner = np.repeat(np.arange(len(group), dtype=np.int32), sizes)
    state.graphs += len(key)
    known = state.lookup(shape, key)
    order = np.argsort(key, kind="stable")
    first = np.ones(len(key), dtype=bool)
    first[1:] = key[order[1:]] != key[order[:-1]]
    leader = order[np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))]
    leaders = np.empty(len(key), dtype=np.int64)
    leaders[order] = leader
    is_new = (known < 0) & (leaders == np.arange(len(key)))
    new = np.flatnonzero(is_new)
    start = len(state.shapes)
    number = np.full(len(key), -1, dtype=np.int32)
    number[new] = np.arange(start, start + len(new), dtype=np.int32)
    second = _second(state, known, np.array([c.folded for c in group], dtype=np.int32)[owner])
    number[second] = np.arange(start + len(new), start + len(new) + len(second), dtype=np.int32)
    same = np.where(known >= 0, known, number[leaders]).astype(np.int32)
    rows = np.empty((len(key), ARITY), dtype=np.int32)
    use = np.empty(len(key), dtype=np.int32)
    folded = np.empty(len(key), dtype=np.int32)
    place = 0
    for combination, size in zip(group, sizes, strict=True):
        rows[place : place + size] = combination.children(flat[place : place + size])
        use[place : place + size] = combination.use
        folded[place : place + size] = combination.folded
        place += size
    others = np.flatnonzero(~is_new if runtime else np.zeros_like(is_new))  # laws of weights alone speed nothing up
    level = np.full(len(others), runtime, dtype=np.int32)
    state.pairs.append(Pairs(use[others], rows[others], same[others], level, folded[others]))
    _insert_keys(state, shape, key[new], number[new])
    new = np.concatenate([new, second])
    state.use.append(use[new])
    state.children.append(rows[new])
    state.shapes += [shape] * len(new)
    state.runtime += [runtime] * len(new)
    state.weight += [runtime == 0] * len(new)
    state.folded += [int(f) for f in folded[new]]
    return [] if last else _new_buckets(state, shape, group, owner[new], flat[new], number[new], runtime)


def _second(state: Enumeration, known: Ids, folded: Ids) -> npt.NDArray[np.int64]:
    """Graphs to be built upon though their fingerprint is known: without folding, where the representative folds."""
    if not state.family.unfolded:
        return np.empty(0, dtype=np.int64)
    chosen = []
    for row in np.flatnonzero((folded == 0) & (known >= 0)):
        number = int(known[row])
        if state.folded[number] and number not in state.unfolded:
            state.unfolded.add(number)
            chosen.append(int(row))
    return np.array(chosen, dtype=np.int64)


def _new_buckets(
    state: Enumeration,
    shape: Shape,
    group: list[_Combination],
    owner: Ids,
    flat: npt.NDArray[np.int64],
    ids: Ids,
    runtime: int,
) -> list[_Bucket]:
    """Buckets of the new classes, by number of folded operators and last operator, their values computed again."""
    parts: dict[tuple[int, str], list[tuple[Ids, Array]]] = {}
    for place, combination in enumerate(group):
        mine = owner == place
        if mine.any():
            value = _values_at(state, combination, flat[mine])
            useful = value.reshape(len(value), -1).any(axis=1)  # what is built upon zero is a special case of something
            key = (combination.folded, state.family.uses[combination.use].op)
            parts.setdefault(key, []).append((ids[mine][useful], value[useful]))
    buckets = []
    for (folded, op), part in parts.items():
        numbers, values = np.concatenate([p[0] for p in part]), np.concatenate([p[1] for p in part])
        if len(numbers):
            buckets.append(_Bucket(shape, runtime == 0, runtime, folded, numbers, values, made_by=op))
    return buckets


def _values_at(state: Enumeration, combination: _Combination, flat: npt.NDArray[np.int64]) -> Array:
    use = state.family.uses[combination.use]
    shapes = [b.shape for b in combination.buckets]
    attrs = use.attributes(tuple(shapes))
    values: list[Array] = []
    elements = SAMPLES * int(np.prod(combination.out, dtype=np.int64))
    step = max(1, _CHUNK // elements)
    for start in range(0, len(flat), step):
        places = np.unravel_index(flat[start : start + step], tuple(len(b.ids) for b in combination.buckets))
        operands = [b.values[p] for b, p in zip(combination.buckets, places, strict=True)]
        value = KERNELS[use.op](operands, shapes, attrs, combination.out)
        values.append(np.broadcast_to(value, (len(places[0]), SAMPLES, *combination.out)))
    return np.concatenate(values)


def _fingerprints(
    state: Enumeration, evaluator: Evaluator, combination: _Combination
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Number and key of every graph of a combination; operands of commutative operators in one order only."""
    use = state.family.uses[combination.use]
    counts = [len(b.ids) for b in combination.buckets]
    shapes = [b.shape for b in combination.buckets]
    attrs = use.attributes(tuple(shapes))
    kernel, arity = KERNELS[use.op], len(counts)
    operands = [
        b.values.reshape((1,) * slot + (counts[slot],) + (1,) * (arity - 1 - slot) + b.values.shape[1:])
        for slot, b in enumerate(combination.buckets)
    ]
    ordered = use.spec.commutative and arity > 1 and combination.buckets[0] is combination.buckets[1]
    rest = int(np.prod(counts[1:], dtype=np.int64))
    elements = SAMPLES * int(np.prod(combination.out, dtype=np.int64)) * rest
    step = max(1, _CHUNK // max(1, elements))
    flats: list[npt.NDArray[np.int64]] = []
    keys: list[npt.NDArray[np.uint64]] = []
    inner = rest // counts[1] if arity > 1 else 1
    for start in range(0, counts[0], step):
        stop = min(counts[0], start + step)
        parts = [operands[0][start:stop], *operands[1:]]
        skip = start if ordered else 0
        if ordered:
            parts[1] = operands[1][:, start:]
        value = kernel(parts, shapes, attrs, combination.out)
        full = (stop - start, *([counts[1] - skip] if arity > 1 else []), *counts[2:], SAMPLES, *combination.out)
        value = np.broadcast_to(value, full).reshape(-1, SAMPLES, *combination.out)
        key = evaluator.hasher.keys(value, combination.out)
        if ordered:
            a, b, c = np.meshgrid(np.arange(start, stop), np.arange(start, counts[1]), np.arange(inner), indexing="ij")
            flat = ((a * counts[1] + b) * inner + c).reshape(-1)
            keep = (a <= b).reshape(-1)
            flat, key = flat[keep], key[keep]
        else:
            flat = np.arange(start * rest, stop * rest, dtype=np.int64)
        flats.append(flat)
        keys.append(key)
    return np.concatenate(flats), np.concatenate(keys)
