"""Proposals: tensors of two models that have equal values on random inputs. Proposals prove nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from onnx import TensorProto

from superopt.check.inputs import free_sizes
from superopt.ir.dim import Dim
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model
from superopt.optimizer.float64 import Float64Model, NoReference
from superopt.runtime import InputSpec, Unfeedable
from superopt.runtime.feeds import Feeds, feed_candidates

__all__ = ["Proposals"]

_SAMPLES = 48
_TOLERANCE = {"float16": 3e-2, "bfloat16": 1e-1}
_USUAL_TOLERANCE = 1e-4  # of an element: weights that one model folded were rounded
_NEAREST_TOLERANCE = 5e-2  # of the nearest tensor alone: roundings of folded weights grow with the depth
_MOST = 4  # candidates of one tensor


@dataclass(frozen=True)
class _Summary:
    """The type of a value, and some of its elements with its norm."""

    kind: tuple[object, ...]
    numbers: Any


class Proposals:
    """The tensors of the left model that may equal a tensor of the right model, by their values on random inputs."""

    def __init__(self, left: Model, right: Model, seed: int, seconds: float) -> None:
        both = replace(left, outputs=(*left.outputs, *right.outputs))
        self._summaries: dict[Term, _Summary] = _observed(both, seed, seconds)
        self._left, self._right = self._by_kind(left), self._by_kind(right)

    def _by_kind(self, model: Model) -> dict[tuple[object, ...], tuple[list[Term], Any]]:
        """Return the tensors of a model, inputs first, and their numbers, for each kind."""
        groups: dict[tuple[object, ...], list[Term]] = {}
        for term in topological(model.outputs):
            summary = self._summaries.get(term)
            if summary is not None:
                groups.setdefault(summary.kind, []).append(term)
        return {
            kind: (terms, np.stack([self._summaries[term].numbers for term in terms])) for kind, terms in groups.items()
        }

    def __contains__(self, term: Term) -> bool:
        return term in self._summaries

    def of(self, term: Term) -> list[Term]:
        """Return terms of the left model with the values of `term`, a term of the right model, nearest first.

        Where several are as near (a Relu of positive numbers, and its operand), the last one of the left model comes
        first for the last one of the right model, the last but one for the last but one.
        """
        summary = self._summaries.get(term)
        if summary is None or summary.kind not in self._left:
            return []
        terms, numbers = self._left[summary.kind]
        limit = _TOLERANCE.get(str(summary.kind[0]), _USUAL_TOLERANCE)
        worst = _gaps(numbers, summary.numbers)
        near = [k for k in range(len(terms)) if worst[k] <= limit]
        if not near and worst.min() <= _NEAREST_TOLERANCE:
            near = [int(worst.argmin())]
        near.sort(key=lambda k: (round(float(worst[k]) / limit, 3), k))
        alike = [k for k in near if round(float(worst[k] - worst[near[0]]) / limit, 3) == 0]
        if len(alike) > 1:
            siblings, others = self._right[summary.kind]
            later = int((_gaps(others[siblings.index(term) + 1 :], summary.numbers) <= limit).sum())
            likely = alike[max(0, len(alike) - 1 - later)]
            near.sort(key=lambda k: k != likely)
        return [terms[k] for k in near[:_MOST]]


def _gaps(numbers: Any, wanted: Any) -> Any:
    """Return for each row of `numbers` the largest relative difference of an element from that of `wanted`."""
    with np.errstate(all="ignore"):
        gaps = np.abs(numbers - wanted)
        gaps[numbers == wanted] = 0  # infinities
        gaps[np.isnan(numbers) & np.isnan(wanted)] = 0
        # Not relative to the largest element: masks add numbers near the largest float.
        sizes = np.abs(wanted)
        sizes = np.maximum(sizes, np.median(sizes[np.isfinite(sizes)])) if np.isfinite(sizes).any() else sizes
        gaps = np.where(gaps == 0, 0, gaps / sizes)
        return np.where(np.isnan(gaps), np.inf, gaps).max(axis=1)


def _observed(model: Model, seed: int, seconds: float) -> dict[Term, _Summary]:
    """Return the summaries of the terms that could be computed, at the sizes where most could be."""
    deadline = time.process_time() + seconds
    best: dict[Term, _Summary] = {}
    for sizes in _sizes(model):
        for feeds, again in _feeds(model, sizes, seed):
            found, is_complete = _summaries(replace(model, sizes=dict(sizes)), feeds, again, deadline)
            if len(found) > len(best):
                best = found
            if is_complete or time.process_time() > deadline:
                return best
    return best


def _sizes(model: Model) -> Iterator[Mapping[str, int]]:
    """Yield sizes of the model's dynamic dimensions, all of size 1 last: then different tensors have equal values."""
    dimensions: dict[str, bool] = {}
    for term in model.inputs:
        for axis, size in enumerate((term.type and term.type.shape) or ()):
            if isinstance(size, Dim):
                dimensions[str(size)] = dimensions.get(str(size), False) or not axis
    if not dimensions:
        yield {}
        return
    yield from sorted(free_sizes(dimensions), key=lambda sizes: max(sizes.values()) == 1)


def _feeds(model: Model, sizes: Mapping[str, int], seed: int) -> Iterator[tuple[Feeds, Feeds]]:
    """Yield two draws of the inputs for each way to draw integers."""
    specs, shapes = [], {}
    for term in model.inputs:
        shape = None if term.type is None else term.type.with_sizes(dict(sizes)).concrete()
        if term.type is None or shape is None:
            return
        name = str(term.attr("name"))
        specs.append(InputSpec(name, TensorProto.DataType.Value(term.type.dtype.upper()), shape))
        shapes[name] = shape
    try:
        yield from zip(*(feed_candidates(specs, shapes, seed, index) for index in (0, 1)), strict=True)
    except Unfeedable:
        return


def _summaries(model: Model, feeds: Feeds, again: Feeds, deadline: float) -> tuple[dict[Term, _Summary], bool]:
    """Return the summaries over two draws, and if all outputs could be computed.

    One draw has to do where it takes more than a third of the time: it tells most tensors apart.
    """
    parts: list[dict[Term, _Summary]] = []
    complete, begun = 0, time.process_time()
    for one in (feeds, again):
        if parts and time.process_time() - begun > (deadline - begun) / 3:
            break
        found: dict[Term, _Summary] = {}

        def observe(term: Term, value: Any, found: dict[Term, _Summary] = found) -> None:
            summary = None if term.is_constant else _summary(term, value)
            if summary is not None:
                found[term] = summary

        with contextlib.suppress(NoReference):
            Float64Model(model).run(one, deadline, observe=observe)
            complete += 1
        parts.append(found)
    first, second = parts[0], parts[-1]
    if len(parts) == 1:
        return first, bool(complete)
    if len(second) < len(first):  # the time did not suffice for both
        return first, False
    both = {
        term: _Summary(one.kind, np.concatenate((one.numbers, second[term].numbers)))
        for term, one in first.items()
        if term in second and second[term].kind == one.kind
    }
    return both, complete == len(parts)


def _summary(term: Term, value: Any) -> _Summary | None:
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub" or not value.size:
        return None
    flat = value.reshape(-1)
    places = np.random.default_rng(flat.size).integers(0, flat.size, _SAMPLES)
    numbers = flat[places].astype(np.float64)
    with np.errstate(all="ignore"):
        norm = float(np.sqrt(np.mean(np.square(flat, dtype=np.float64))))
    dtype = term.type.dtype if term.type is not None else value.dtype.kind
    return _Summary((dtype, value.shape), np.append(numbers, norm))
