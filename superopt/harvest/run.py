"""Harvests models: cuts each into windows, makes them small, and counts and weighs equal ones together."""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from superopt.corpus import CorpusError, Window, WindowVariable, model_label
from superopt.evaluate import can_evaluate, evaluate, numpy_dtype
from superopt.harvest.cutting import Occurrences, cut_windows
from superopt.harvest.limits import WindowLimits
from superopt.harvest.model_graph import ModelGraph, bits
from superopt.harvest.pieces import Piece, extract, literal
from superopt.harvest.small_sizes import LeftOut, shrunk
from superopt.harvest.window_form import canonical, forms
from superopt.ir.infer import IllTyped
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io import Model, read_simplified
from superopt.onnx_io.load import load_proto
from superopt.onnx_io.subgraph_reader import read_bodies
from superopt.search.cost.analytic import AnalyticCost
from superopt.search.cost.device import CPU, Device

__all__ = ["Harvest", "ModelCut", "harvest", "is_evaluable"]

_Key: TypeAlias = tuple[tuple[Term, ...], tuple[tuple[str, tuple[object, ...]], ...]]

_LIMITS = WindowLimits()
_PER_SIZE = 400  # structures of each number of operators that are taken from one model, the most costly first


@dataclass(frozen=True)
class ModelCut:
    """A model's part of a harvest.

    `structures` is the number of different windows at the model's own sizes. `unknown` counts the operators without a
    definition, by name. `left_out` counts windows by the reason for leaving them out.
    """

    name: str
    operators: int
    structures: int
    unknown: dict[str, int]
    left_out: dict[str, int]


@dataclass(frozen=True)
class Harvest:
    """The windows of all models, those with the largest share first, and what was left out of each model.

    `dropped` is the number of windows beyond the number that was asked for, `failed` the number of those that could not
    be evaluated at their small sizes, `merged` the number of those that others stand for: they differ from them in
    names, in the order of commutative operands or in sizes only.
    """

    windows: tuple[Window, ...]
    models: tuple[ModelCut, ...]
    dropped: int
    failed: int
    merged: int


@dataclass
class _CountedWindow:
    """The windows of all models that are equal but for sizes, and the one that stands for them."""

    window: Window
    structures: int = 0
    count: int = 0
    shares: dict[str, float] = field(default_factory=dict)  # by model


def harvest(
    models: Sequence[Path],
    limits: WindowLimits = _LIMITS,
    *,
    device: Device = CPU,
    most: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Harvest:
    """Return the windows of the models, at most the `most` important ones (see `_by_importance`).

    Each window was evaluated at its small sizes. Raises ModelError.
    """
    entries: dict[_Key, _CountedWindow] = {}
    cuts: list[ModelCut] = []
    known: dict[tuple[object, ...], Window | str] = {}
    start = time.monotonic()
    for k, (path, name) in enumerate(zip(models, _labels(models), strict=True)):
        left = f", about {(time.monotonic() - start) / k * (len(models) - k):.0f} s left" if k else ""
        progress(f"harvesting: model {k + 1} of {len(models)}{left}")
        cuts.append(_add_model(path, name, limits, device, entries, known))
    windows = [
        Window(e.window.outputs, e.window.variables, e.count, _mean(e.shares, len(models)), tuple(sorted(e.shares)))
        for e in entries.values()
    ]
    kept: list[Window] = []
    failed = 0
    for window in _by_importance(windows):
        if most is not None and len(kept) == most:
            break
        if len(kept) % 100 == 0:
            progress(f"evaluating: window {len(kept):,} of {min(len(windows), most or len(windows)):,}")
        if is_evaluable(window):
            kept.append(window)
        else:
            failed += 1
    kept.sort(key=lambda window: (-window.share, str(window)))
    merged = sum(entry.structures - 1 for entry in entries.values())
    return Harvest(tuple(kept), tuple(cuts), len(windows) - len(kept) - failed, failed, merged)


def _mean(shares: Mapping[str, float], models: int) -> float:
    """Return the mean over all models; the sum does not depend on their order."""
    return min(1.0, math.fsum(shares.values()) / models)


def _labels(models: Sequence[Path]) -> list[str]:
    """Return a name for each model: that of its file, with a number if an earlier one has it."""
    found: list[str] = []
    for path in models:
        label = model_label(path.stem)
        numbered = (f"{label}.{number}" for number in itertools.count(2))
        found.append(next(name for name in itertools.chain([label], numbered) if name not in found))
    return found


def _add_model(
    path: Path,
    name: str,
    limits: WindowLimits,
    device: Device,
    entries: dict[_Key, _CountedWindow],
    known: dict[tuple[object, ...], Window | str],
) -> ModelCut:
    """Add the windows of one model to `entries`. `known` has the results for pieces that were met before.

    Windows of the bodies of If, Loop and Scan count as often as others: how often a body runs is not known.
    """
    parts = [
        _Part(part, ModelGraph(part.outputs, AnalyticCost(device).cost, literal))
        for part in _with_bodies(read_simplified(load_proto(path), label=str(path)))
    ]
    total = math.fsum(cost for part in parts for cost in part.graph.costs)
    left_out: Counter[str] = Counter()
    structures, covered = 0, dict[_Key, list[float]]()
    for part in parts:
        cut = cut_windows(part.graph, limits)
        structures += len(cut.windows)
        left_out.update({"more inputs or outputs than the limits": cut.over_limits, "beyond the beam": cut.beyond_beam})
        for key, costs in _add_windows(part, cut.windows.values(), entries, known, left_out).items():
            covered.setdefault(key, []).extend(costs)
    for key, costs in covered.items():
        entries[key].shares[name] = math.fsum(costs) / total
    operators = [term for part in parts for term in part.graph.operators]
    unknown = Counter(term.op for term in operators if term.op not in OPERATORS)
    kept = {reason: number for reason, number in sorted(left_out.items()) if number}
    return ModelCut(name, len(operators), structures, dict(sorted(unknown.items())), kept)


@dataclass(frozen=True)
class _Part:
    """The graph of a model, or of a body in it."""

    model: Model
    graph: ModelGraph


def _with_bodies(model: Model) -> Iterator[Model]:
    """Yield a model and the bodies in it that can be read, as models of their own."""
    yield model
    for body in read_bodies(model):
        yield from _with_bodies(body.model)


def _add_windows(
    part: _Part,
    places: Iterable[Occurrences],
    entries: dict[_Key, _CountedWindow],
    known: dict[tuple[object, ...], Window | str],
    left_out: Counter[str],
) -> dict[_Key, list[float]]:
    """Add the windows of one graph to `entries`, and return the costs of the operators that each of them covers."""
    graph, covered = part.graph, dict[_Key, int]()
    for place in _most_costly(graph, places, left_out):
        window = _window(part.model, graph, place.first, known)
        if isinstance(window, str):
            left_out[window] += 1
            continue
        key = _key(window)
        if key not in entries:
            entries[key] = _CountedWindow(window)
        elif _preference(window) < _preference(entries[key].window):
            entries[key].window = window
        entries[key].structures += 1
        entries[key].count += place.count
        covered[key] = covered.get(key, 0) | place.covered
    return {key: [graph.costs[k] for k in bits(mask)] for key, mask in covered.items()}


def _most_costly(graph: ModelGraph, places: Iterable[Occurrences], left_out: Counter[str]) -> list[Occurrences]:
    """Return the places of the highest cost, at most `_PER_SIZE` of each number of operators."""
    by_size: dict[int, list[tuple[float, int, Occurrences]]] = {}
    for place in places:
        cost = sum(graph.costs[k] for k in bits(place.covered))
        by_size.setdefault(place.first.bit_count(), []).append((-cost, place.first, place))
    found: list[Occurrences] = []
    for size in sorted(by_size):
        ranked = sorted(by_size[size], key=lambda item: item[:2])
        found += [place for *_, place in ranked[:_PER_SIZE]]
        left_out[f"beyond the {_PER_SIZE} most costly of their size"] += max(0, len(ranked) - _PER_SIZE)
    return found


def _window(
    model: Model, graph: ModelGraph, members: int, known: dict[tuple[object, ...], Window | str]
) -> Window | str:
    """Return a set of operators as a window, or the reason why it is none."""
    operators = [graph.operators[k] for k in bits(members)]
    outputs = [
        value
        for k in bits(members)
        for value in graph.values[k]
        if value in graph.outputs or graph.readers.get(value, 0) & ~members
    ]
    try:
        piece = extract(operators, outputs)
    except IllTyped:
        return "ill-typed in the model"
    key = (piece.outputs, piece.weights)
    if key not in known:
        try:
            known[key] = _small_window(piece)
        except LeftOut as reason:
            known[key] = str(reason)
    return known[key]


def _key(window: Window) -> _Key:
    """Return what equal windows have in common, whatever their sizes."""
    types = {variable.name: variable.type for variable in window.variables}
    return window.outputs, tuple(sorted(forms(window.outputs, types, frozenset(window.weights)).items()))


def _preference(window: Window) -> tuple[int, int, str]:
    """Order windows that differ in sizes only: first those with the most different sizes, then small ones.

    Equal sizes that need not be equal hide what a rule must not rely on: a square matrix and its transpose have one
    shape.
    """
    sizes = {size for variable in window.variables for size in variable.shape}
    return -len(sizes), sum(math.prod(variable.shape) for variable in window.variables), str(window)


def _small_window(piece: Piece) -> Window:
    """Return a piece as a window at small sizes. Raises LeftOut."""
    outputs, types, weights = shrunk(piece)
    ordered, names = canonical(outputs, types, weights)
    window = Window(ordered, tuple(WindowVariable(name, types[old], old in weights) for name, old in names.items()))
    try:
        _ = window.terms
    except CorpusError:
        raise LeftOut("ill-typed at small sizes") from None
    return window


def is_evaluable(window: Window) -> bool:
    """Evaluate a window at random values. Return False if that fails, or gives other shapes than typing."""
    order = list(topological(window.terms))
    if not all(term.op == "Var" or can_evaluate(term) for term in order):
        return False
    seed = int.from_bytes(hashlib.blake2b(str(window).encode(), digest_size=4).digest(), "big")
    values = np.random.default_rng(seed)
    leaves = {term: _values(term, values) for term in order if term.op == "Var"}
    found = evaluate(window.terms, leaves, {})
    return all(
        term.type is not None and array.shape == term.type.concrete()
        for term, array in zip(window.terms, found, strict=True)
    )


def _values(term: Term, values: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    assert term.type is not None
    shape = term.type.concrete()
    assert shape is not None
    if term.type.dtype in FLOAT_DTYPES:
        return values.standard_normal(shape)
    # No zeros for integers: some operators divide.
    least, end = (0, 2) if term.type.dtype == "bool" else (1, 4)
    return values.integers(least, end, shape).astype(numpy_dtype(term.type.dtype))


def _by_importance(windows: Sequence[Window]) -> list[Window]:
    """Return the windows, the most important first.

    The k-th window by share of the same kinds of operators counts its share divided by k: a corpus is to show many
    combinations of operators, not many variants of a few costly ones. Windows of each number of operators take turns,
    because the shares of large windows are larger.
    """
    variants: Counter[tuple[int, frozenset[str]]] = Counter()
    weighed: list[tuple[float, str, Window]] = []
    for window in sorted(windows, key=lambda window: (-window.share, str(window))):
        operators = window.operators
        kinds = (len(operators), frozenset(term.op for term in operators))
        variants[kinds] += 1
        weighed.append((-window.share / variants[kinds], str(window), window))
    rank: Counter[int] = Counter()
    places: list[tuple[int, int, Window]] = []
    for *_, window in sorted(weighed, key=lambda item: item[:2]):
        size = len(window.operators)
        rank[size] += 1
        places.append((rank[size], size, window))
    return [window for *_, window in sorted(places, key=lambda place: place[:2])]
