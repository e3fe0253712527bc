"""Constants whose elements are moved by an operator without a definition: GatherElements, GatherND, or a Scatter.

Their values are known while a file is read. No element is computed, so every runtime has the same bits. Exporters leave
such operators where a program assigns to a part of a tensor (the masks of shifted windows).

Sources: the operators' pages of the ONNX specification, GatherElements-13, GatherND-13, ScatterElements-18,
ScatterND-18.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import MutableMapping

import numpy as np
from onnx import helper, numpy_helper

from superopt.evaluate import constant, evaluate, folded, numpy_dtype
from superopt.evaluate.indices import Array
from superopt.ir.infer import replace
from superopt.ir.term import CLOSED_FORM, Term, topological
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.schemas import has_doubtful_attributes

__all__ = ["MOVES", "MovedConstants", "moved"]

MOVES = frozenset({"GatherElements", "GatherND", "ScatterElements", "ScatterND"})

_FILLED = "ai.onnx::ConstantOfShape"  # of many elements, which stays a node
# Elements in all: a small graph may describe huge constants.
_ROOM = 1 << 22


class MovedConstants:
    """Finds the values of terms that move elements of constants. `weights` are the arrays of Const terms by hash."""

    def __init__(self, weights: MutableMapping[str, Array]) -> None:
        self._weights, self._room = weights, _ROOM

    def find(self, term: Term) -> Array | None:
        """Return the value of a term in its element type, or None if it is not known."""
        if term.op not in MOVES or not term.is_constant or term.type is None or term.type.dtype == "string":
            return None
        inputs = [self._value(i) for i in term.inputs]
        known = [x for x in inputs if x is not None]
        found = moved(term, known) if len(known) == len(inputs) else None
        if found is None or term.type.concrete() not in (None, found.shape):
            return None
        self._room -= found.size
        return found if self._room >= 0 else None

    def _value(self, term: Term | None) -> Array | None:
        """Return the value of a constant of bounded size that is computed without rounding, in its element type."""
        if term is None or not self._fits(term):
            return None
        made: MutableMapping[str, Array] = ChainMap({}, self._weights)
        filled = {part: constant(*_filled(part), made) for part in topological((term,))
                  if part.op == _FILLED and self._fits(part)}  # fmt: skip
        (term,) = replace((term,), filled)
        leaf = folded([term], made, exact=True).get(term, term)
        if leaf.op == "Const":
            return made.get(str(leaf.attr("hash")))
        if leaf.op not in CLOSED_FORM or leaf.type is None:
            return None
        return evaluate([leaf], {}, {})[0].astype(numpy_dtype(leaf.type.dtype))

    def _fits(self, term: Term) -> bool:
        shape = None if term.type is None else term.type.concrete()
        return shape is not None and math.prod(shape) <= self._room


def _filled(term: Term) -> tuple[Array, str]:
    """Return the value of a ConstantOfShape of known shape, and its element type."""
    assert term.type is not None
    values = [numpy_helper.to_array(attribute.t) for attribute in unpack(term.attrs)]
    return np.full(term.type.concrete() or (), values[0].reshape(()) if values else np.float32(0)), term.type.dtype


def moved(term: Term, inputs: list[Array]) -> Array | None:
    """Return the value of a term of an operator of `MOVES` with these inputs.

    None if ONNX does not say (an index out of range, two updates of one element), or if elements are added or the like.
    """
    stated = unpack(term.attrs)
    if has_doubtful_attributes(term.op, stated):
        return None
    attrs = {attribute.name: helper.get_attribute_value(attribute) for attribute in stated}
    if attrs.get("batch_dims", 0) or attrs.get("reduction", b"none") != b"none":
        return None
    data, indices = inputs[:2]
    places: list[Array]
    if term.op in ("GatherElements", "ScatterElements"):
        places = list(np.indices(indices.shape, sparse=True))
        axis = attrs.get("axis", 0)
        if not -len(places) <= axis < len(places):
            return None
        places[axis] = indices
    else:
        places = list(np.moveaxis(indices, -1, 0))
    sizes = data.shape[: len(places)]
    try:
        places = [np.where(place < 0, place + size, place) for place, size in zip(places, sizes, strict=True)]
        numbers = np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), sizes)
    except (ValueError, TypeError):  # an index out of range, or none
        return None
    result: Array = data[tuple(places)]
    if len(inputs) == 2:
        return result
    updates = inputs[2]
    if len(np.unique(numbers)) < numbers.size or updates.shape != result.shape or updates.dtype != data.dtype:
        return None
    result = data.copy()
    result[tuple(places)] = updates
    return result
