"""The first pair of tensors where two models part on an input: operands that still agree, results that do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from superopt.check.side import Side
from superopt.ir.term import Term, node_of, output_index, topological
from superopt.optimizer.float64 import NoReference
from superopt.runtime import Feeds, is_float

__all__ = ["Parting", "find_parting"]

_SHARE = 0.01  # of the difference of outputs, at most that of tensors that agree
_TOLERANCE = 1e-6  # of a tensor's norm, between sketches of equal tensors; weights that were folded have roundings


@dataclass(frozen=True)
class Parting:
    """A tensor of each model, computed from tensors that agree, with other values.

    `agreeing` are the tensors of the left model, with equal ones in the right model, that it is computed from.
    """

    left: Term
    right: Term
    agreeing: tuple[Term, ...]


class _Sketches:
    """Short descriptions of tensors: shape, norm and two random projections, which tell different tensors apart."""

    def __init__(self) -> None:
        self.by_term: dict[Term, tuple[Any, ...]] = {}
        self._signs: dict[int, Any] = {}

    def __call__(self, term: Term, value: Any) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            return
        flat = value.astype(np.float64).reshape(-1)
        finite = np.isfinite(flat)
        flat = np.where(finite, flat, 0.0)
        if flat.size not in self._signs:
            self._signs[flat.size] = np.random.default_rng(flat.size).choice([-1.0, 1.0], flat.size)
        signs = self._signs[flat.size]
        key = value.shape, is_float(value.dtype), int(finite.sum())
        self.by_term[term] = (key, float(np.linalg.norm(flat)), float(flat @ signs), float(flat[::-1] @ signs))


def find_parting(
    left: Side, right: Side, feeds: Feeds, output: int, difference: float, seconds: float
) -> Parting | None:
    """Return where the models part on `feeds`, before output number `output`; None without a float64 evaluation.

    `difference` is the relative difference of the outputs.
    """
    sketches = _Sketches(), _Sketches()
    try:
        for side, sketch in zip((left, right), sketches, strict=True):
            side.exact(feeds, seconds, sketch)
    except NoReference:
        return None
    ours, theirs = (sketch.by_term for sketch in sketches)
    agreeing = _equal_tensors(ours, theirs, min(_TOLERANCE, _SHARE * difference))
    back = {b: a for a, b in agreeing.items()}
    ends = left.terms.outputs[output], right.terms.outputs[output]
    if ends[0] not in ours or ends[1] not in theirs or ends[0] in agreeing:
        return None
    mine, other = _region(ends[0], agreeing), _region(ends[1], back)
    for a, b in _aligned(mine, other, agreeing):
        if ours.get(a, (0,))[0] == theirs.get(b, (1,))[0]:
            return Parting(a, b, _operands(a))
    named = {right.terms.names[b]: b for b in other if b in right.terms.names and b in theirs}
    for a in mine:
        same = named.get(left.terms.names.get(a, ""))
        if same is not None and a in ours and ours[a][0] == theirs[same][0]:
            return Parting(a, same, tuple(t for t in topological((a,)) if t in agreeing and not t.is_constant)[-3:])
    borders = dict.fromkeys(i for a in mine for i in a.inputs if i is not None and i in agreeing and not i.is_constant)
    return Parting(*ends, tuple(borders))


def _equal_tensors(
    ours: dict[Term, tuple[Any, ...]], theirs: dict[Term, tuple[Any, ...]], tolerance: float
) -> dict[Term, Term]:
    """Return, for tensors of the left model, the first tensor of the right model with the same values."""
    by_kind: dict[Any, list[Term]] = defaultdict(list)
    for term, sketch in theirs.items():
        by_kind[sketch[0]].append(term)
    found: dict[Term, Term] = {}
    for term, (kind, *numbers) in ours.items():
        for other in by_kind[kind]:
            _, *others = theirs[other]
            allowed = tolerance * max(numbers[0], others[0])
            if all(abs(a - b) <= allowed for a, b in zip(numbers, others, strict=True)):
                found[term] = other
                break
    return found


def _region(end: Term, agreeing: dict[Term, Term]) -> list[Term]:
    """Return the terms without an equal tensor that lead to `end` by such terms, in topological order."""
    inside, stack = {end}, [end]
    while stack:
        for operand in stack.pop().inputs:
            if operand is not None and operand not in inside and operand not in agreeing and not operand.is_constant:
                inside.add(operand)
                stack.append(operand)
    return [term for term in topological((end,)) if term in inside]


def _operands(term: Term) -> tuple[Term, ...]:
    return tuple(i for i in node_of(term).inputs if i is not None and not i.is_constant)


def _aligned(mine: Sequence[Term], other: Sequence[Term], agreeing: dict[Term, Term]) -> Iterator[tuple[Term, Term]]:
    """Yield pairs of the same operator whose operands, in any order, agree or are constants."""
    for a in mine:
        operands = _operands(a)
        if not operands or not all(i in agreeing for i in operands):
            continue
        for b in other:
            if _operator(a) == _operator(b) and {agreeing[i] for i in operands} == set(_operands(b)):
                yield a, b


def _operator(term: Term) -> tuple[object, ...]:
    return node_of(term).op, output_index(term), term.op
