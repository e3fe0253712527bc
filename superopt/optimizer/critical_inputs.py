"""Inputs around the constants of a model: where (x - mean) / std is near 0, most digits of x cancel.

A path of affine and invertible operators with constants leads from an input to a later value, for example Sub, Div and
BatchNormalization. A standard normal value at its end is carried back to the input: x = mean + std * N(0, 1).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from superopt.evaluate import can_evaluate, evaluate
from superopt.ir.term import Term, topological
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io import Model
from superopt.properties import is_conversion
from superopt.runtime import Feeds

__all__ = ["critical_inputs"]

_Array: TypeAlias = "np.ndarray[Any, Any]"

_MAX_PATHS = 16  # looked at for each input
_MAX_LENGTH = 16  # operators of a path
_MAX_CONSTANT_BYTES = 1 << 24  # larger constants are weights, not offsets


class _Step(NamedTuple):
    """An operator of a path, and the position of the operand that comes from the input."""

    term: Term
    position: int


# Value of the path's operand from a value of the result, the operands (None: the path's own), and the term.
_Inverse: TypeAlias = Callable[[_Array, list[Any], Term], _Array]


def _subtraction(y: _Array, xs: list[Any], term: Term) -> _Array:
    return np.asarray(xs[0] - y if xs[0] is not None else y + xs[1])


def _quotient(y: _Array, xs: list[Any], term: Term) -> _Array:
    return np.asarray(xs[0] / y if xs[0] is not None else y * xs[1])


def _constant_of(xs: list[Any]) -> Any:
    return xs[1] if xs[0] is None else xs[0]


def _batch_normalization(y: _Array, xs: list[Any], term: Term) -> _Array:
    scale, bias, mean, variance = (x.reshape(-1, *(1,) * (y.ndim - 2)) for x in xs[1:5])
    epsilon = dict(term.attrs)["epsilon"]
    assert isinstance(epsilon, (int, float))
    return np.asarray((y - bias) / scale * np.sqrt(variance + epsilon) + mean)


def _transpose(y: _Array, xs: list[Any], term: Term) -> _Array:
    perm = dict(term.attrs)["perm"]
    assert isinstance(perm, tuple)
    return y.transpose(np.argsort([int(str(p)) for p in perm]))


_INVERSES: Mapping[str, _Inverse] = {
    "Add": lambda y, xs, term: y - _constant_of(xs),
    "Sub": _subtraction,
    "Mul": lambda y, xs, term: y / _constant_of(xs),
    "Div": _quotient,
    "Neg": lambda y, xs, term: -y,
    "Log": lambda y, xs, term: np.exp(y),
    "Exp": lambda y, xs, term: np.log(np.abs(y)),
    "Sqrt": lambda y, xs, term: y * y,
    "BatchNormalization": _batch_normalization,
    "Transpose": _transpose,
}
_OFFSETS = frozenset({"Add", "Sub", "BatchNormalization"})
_RESHAPES = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def critical_inputs(model: Model, feeds: Feeds, seed: int) -> Iterator[tuple[str, _Array]]:
    """Yield pairs of an input and a value of it in float64, for each input the most extreme value first.

    `feeds` are inputs of the same shapes. An input yields nothing if no constant is added to it. How extreme a value is
    tells the ratio of its distance from 0 to its spread.
    """
    users: dict[Term, list[_Step]] = defaultdict(list)
    for term in topological(model.outputs):
        for position, i in enumerate(term.inputs):
            if i is not None:
                users[i].append(_Step(term, position))
    for number, term in enumerate(model.inputs):
        name = str(term.attr("name"))
        if name not in feeds or feeds[name].dtype.kind not in "fiuV" or not feeds[name].size:
            continue
        rng = np.random.default_rng([seed, number])
        found: list[tuple[float, _Array]] = []
        for path in _paths(term, users):
            with np.errstate(all="ignore"):
                value = _carried_back(path, model, rng)
            if value is not None and np.all(np.isfinite(value[0])):
                found.append((value[1], value[0]))
        for _, array in sorted(found, key=lambda pair: -pair[0]):
            yield name, array


def _paths(start: Term, users: Mapping[Term, list[_Step]]) -> list[list[_Step]]:
    """Return the longest paths of invertible operators from `start` that add a constant."""
    found: list[list[_Step]] = []
    stack: list[tuple[Term, list[_Step]]] = [(start, [])]
    while stack and len(found) < _MAX_PATHS:
        end, path = stack.pop()
        following = [step for step in users[end] if len(path) < _MAX_LENGTH and _is_invertible(step)]
        stack += [(step.term, [*path, step]) for step in following]
        if not following and any(step.term.op in _OFFSETS for step in path):
            found.append(path)
    return found


def _is_invertible(step: _Step) -> bool:
    term, position = step
    others = [i for k, i in enumerate(term.inputs) if k != position]
    if len(term.types) != 1 or not all(map(_can_compute, others)):
        return term.op == "Concat" and len(term.types) == 1
    if term.op in _RESHAPES or (is_conversion(term.op) and term.type is not None and term.type.dtype in FLOAT_DTYPES):
        return True
    return term.op in _INVERSES and (term.op != "BatchNormalization" or position == 0)


def _can_compute(operand: Term | None) -> bool:
    return operand is not None and operand.is_constant and all(map(can_evaluate, topological((operand,))))


def _carried_back(path: list[_Step], model: Model, rng: np.random.Generator) -> tuple[_Array, float] | None:
    """Return the input for which the end of `path` is standard normal, and how extreme it is; None if it has none."""
    shape = _shape(path[-1].term, model)
    if shape is None:
        return None
    ends = [rng.standard_normal(shape), np.zeros(shape)]
    for step in reversed(path):
        operand = step.term.inputs[step.position]
        assert operand is not None
        size, xs = _shape(operand, model), _constants(step, model)
        if size is None or xs is None or not ends[0].size:  # of an empty result an operand has no value
            return None
        try:
            ends = [_inverted(y, xs, step, size, model) for y in ends]
        except ValueError:  # a shape that the constants do not have
            return None
    drawn, centre = ends
    spread = float(np.median(np.abs(drawn - centre)))
    return drawn, float(np.max(np.abs(drawn))) / spread if spread else 0.0


def _shape(term: Term, model: Model) -> tuple[int, ...] | None:
    return None if term.type is None else model.concrete(term.type).concrete()


def _constants(step: _Step, model: Model) -> list[Any] | None:
    """Return the operands of a step, None for the one that comes from the input and those that a Concat joins to it.

    None instead of a list if a constant is too large.
    """
    found: list[Any] = []
    for k, i in enumerate(step.term.inputs):
        if k == step.position or i is None or step.term.op == "Concat":
            found.append(None)
            continue
        shape = _shape(i, model)
        if shape is None or 8 * int(np.prod(shape, dtype=object)) > _MAX_CONSTANT_BYTES:
            return None
        found.append(evaluate([i], {}, model.weights)[0])
    return found


def _inverted(y: _Array, xs: list[Any], step: _Step, size: tuple[int, ...], model: Model) -> _Array:
    """Return the value of the step's operand, of shape `size`, for the value `y` of its result."""
    term, position = step
    if term.op == "Concat":
        axis = dict(term.attrs)["axis"]
        assert isinstance(axis, int)
        before = [_shape(i, model) for i in term.inputs[:position] if i is not None]
        start = sum(shape[axis] if shape is not None else 0 for shape in before)
        return np.take(y, np.arange(start, start + size[axis]), axis)
    if term.op in _RESHAPES:
        return y.reshape(size)
    if term.op not in _INVERSES:  # a conversion
        return y
    found = _INVERSES[term.op](y, xs, term)
    while found.ndim > len(size):  # the operand was broadcast: one of its copies decides
        found = found[0]
    kept = tuple(slice(0, 1) if n == 1 else slice(None) for n in size)
    return np.asarray(found[kept]).reshape(size)
