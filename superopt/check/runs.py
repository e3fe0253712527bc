"""Constants as ONNX Runtime computes them.

A tool that folds constants lets a runtime compute them. Where a step jumps (a position becomes a bucket: Cast to
integers of a logarithm), no bound on rounding errors says what the result may be. But a constant has no inputs, so a
model has one value for it, and one run shows it.
"""

from __future__ import annotations

import numpy as np

from superopt.check.meanings import Meanings
from superopt.evaluate.indices import Array
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model, ModelError, new_model, write_model
from superopt.onnx_io.schemas import standard_name
from superopt.runtime import CannotRun, RuntimeUnavailable, Target, open_session

__all__ = ["ConstantRuns"]

_CPU = Target("cpu", 1)
_MOST_NODES = 2000


class ConstantRuns:
    """Runs of constants of two joined models in ONNX Runtime, without its optimizations."""

    def __init__(self, left: Model, right: Model) -> None:
        self._models = (left, right)
        self._meanings = (Meanings(left), Meanings(right))
        self._known: dict[tuple[Term, int], Array | None] = {}

    def agree(self, left: Term, right: Term) -> bool:
        """Return True if a constant of the left model and one of the right have the same value, bit for bit."""
        if left.type is None or left.type != right.type or left.op == right.op == "Const":
            return False  # weights of files are compared without a run
        one, other = self._value(left, 0), self._value(right, 1)
        same = one is not None and other is not None and (one.dtype, one.shape) == (other.dtype, other.shape)
        return same and one is not None and other is not None and one.tobytes() == other.tobytes()

    def _value(self, term: Term, side: int) -> Array | None:
        if (term, side) not in self._known:
            may_run = all(self._has_its_meaning(part, side) for part in topological((term,)))
            self._known[term, side] = self._computed(term, self._models[side]) if may_run else None
        return self._known[term, side]

    def _has_its_meaning(self, term: Term, side: int) -> bool:
        """Return True if an operator means in the file of one model what it means in a term, maybe of the other one.

        Operators of other domains may be functions of a file, so they have none here.
        """
        if standard_name(term.op) is None or not side or any(name == "other_version" for name, _ in term.attrs):
            return standard_name(term.op) is not None
        left, right = self._meanings
        return left.version(term) == right.version(term)

    def _computed(self, term: Term, model: Model) -> Array | None:
        if term.op == "Const":
            array = model.weights[str(term.attr("hash"))]
            return None if array.dtype == object else np.asarray(array)
        parts = list(topological((term,)))
        if len(parts) > _MOST_NODES or any(part.op == "Var" for part in parts):
            return None
        weights = {
            name: model.weights[name] for part in parts if part.op == "Const" for name in [str(part.attr("hash"))]
        }
        try:
            proto = write_model(new_model((term,), weights, opset=model.opset), fold=False)
            (value,) = open_session(proto, _CPU, level="none").run({})
        except (ModelError, CannotRun, RuntimeUnavailable):
            return None
        return value if isinstance(value, np.ndarray) else None
