"""Equality of constants by their values.

A constant that one model computes from weights, and that the other has in its file, was folded by a tool. The tool has
rounded after each operation, in an order of its own. So both are computed in float64, with a bound of the rounding
errors that any order may have: the first-order bound E of Higham, Accuracy and Stability of Numerical Algorithms,
chapter 3, in units of the roundoff. Without a rounded operation the constants must agree bit for bit. But if both
models have folded a weight, as two exporters do, no model says from what: then each element may differ by a few
roundings of itself. A bias, o - m s after a BatchNormalization, may be what that sum has left, and m s is the mean of
sums of products with the weights. So it may differ by a few roundings of such a sum as well, for inputs of size 1.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from superopt.check.bias_sums import common_sums
from superopt.check.constant_uses import ConstantUses
from superopt.check.sweep import Claim
from superopt.evaluate import can_evaluate, evaluate, numpy_dtype, rounding_decides
from superopt.evaluate.indices import Array
from superopt.ir.term import CLOSED_FORM, Term, topological, var
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io import Model
from superopt.onnx_io.moved_constants import MOVES, moved
from superopt.properties import adds_up, is_conversion, moves, rounds_at_most_once
from superopt.runtime import smallest_normal, unit_roundoff
from verify.prove.roundings import roundings

__all__ = ["Candidates", "ChangedWeight", "Constants", "rests_on"]

_GATHER = "ai.onnx::Gather"
_SECOND_ORDER = 1.01  # what the first-order bound leaves out, at up to 10,000 roundings in float32
_UNSEEN = 8  # roundings of two arrays: BatchNormalization in a weight, w s / sqrt(v + e), takes four
_CHANGED_SHARE = 1 / 32  # of the elements of a weight; all others are equal bit for bit
_SINGLE = unit_roundoff(np.dtype(np.float32))  # eight roundings in bfloat16 are 3%, which is no rounding any more
_MAX_ELEMENTS = 1 << 27
_SKETCHED = 48  # elements that are compared first
_MAX_ERROR = 2.0**-7  # relative to the largest element; a larger bound would say nothing


@dataclass(frozen=True)
class ChangedWeight:
    """A weight of the right model whose element at `place` is `right`, and `left` in the left model."""

    weight: Term
    place: tuple[int, ...]
    left: float
    right: float


class Candidates:
    """Constants of one type, of which a few elements are compared at once.

    Most constants are told apart so, without a bound on errors.
    """

    def __init__(self, constants: Constants, terms: Sequence[Term]) -> None:
        self._constants, self._terms = constants, terms
        sketches = {term: sketch for term in terms if (sketch := constants.sketch(term)) is not None}
        self._sketched = {term: row for row, term in enumerate(sketches)}
        self._sketches = np.array(list(sketches.values()))
        self._largest = np.abs(self._sketches).max(axis=1) if sketches else np.zeros(0)

    def near(self, constant: Term) -> list[Term]:
        """Return those whose elements, as far as they are known, do not differ from those of `constant`."""
        sketch = self._constants.sketch(constant)
        if sketch is None or not len(self._sketches):
            return list(self._terms)
        largest = np.maximum(self._largest, np.abs(sketch).max())
        with np.errstate(all="ignore"):
            gaps = np.abs(self._sketches - sketch)
            is_near = ~np.isfinite(largest) | (gaps <= 2 * _MAX_ERROR * largest[:, None]).all(axis=1)
        rows = self._sketched
        return [term for term in self._terms if term not in rows or is_near[rows[term]]]


class Constants:
    """Values and error bounds of constant terms in graphs that compute `outputs`, see `ConstantUses`.

    `weights` has the arrays of Const terms by hash.
    """

    def __init__(self, weights: Mapping[str, Array], outputs: Iterable[Term], in_body: bool = False) -> None:
        self._weights, self._uses = weights, ConstantUses(outputs, in_body)
        self._known: dict[Term, tuple[Array, Array | None] | None] = {}
        self._digests: dict[Term, str | None] = {}
        self._sketches: dict[Term, Array | None] = {}

    @classmethod
    def of_models(cls, left: Model, right: Model) -> Constants:
        """Return the constants of two joined models."""
        return cls(left.weights, (*left.outputs, *right.outputs), in_body=bool(left.reserved))

    def sketch(self, term: Term) -> Array | None:
        """Return some elements of a constant and its largest one; None if it has no elements or cannot be computed."""
        if term.op == "Neg" and (operand := term.inputs[0]) is not None:
            found = self.sketch(operand)
            return None if found is None else np.append(-found[:-1], found[-1])
        if term not in self._sketches:
            array = self._plain_value(term)
            if array is None or array.dtype.kind not in "fiub" or not array.size:
                self._sketches[term] = None
            else:
                flat = array.reshape(-1)
                places = np.random.default_rng(flat.size).integers(0, flat.size, _SKETCHED)
                self._sketches[term] = np.append(flat[places].astype(np.float64), float(np.abs(flat).max()))
        return self._sketches[term]

    def _plain_value(self, term: Term) -> Array | None:
        if term.op == "Const":
            return np.asarray(self._weights[str(term.attr("hash"))])
        parts = list(topological((term,)))
        if not self._is_small(term) or not all(p.op == "Const" or can_evaluate(p) for p in parts):
            return None
        if any(map(rounding_decides, parts)):
            return None
        try:
            with np.errstate(all="ignore"):
                value = evaluate([term], {}, self._weights)[0]
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None
        return value if isinstance(value, np.ndarray) else None

    def within(self, left: Model, right: Model, *, but_for_jumps: bool = False) -> Constants:
        """Return the same values for constants of two graphs into which rules may have rewritten the models.

        With `but_for_jumps`, constants may be rounded wherever functions that jump are all that forbids it.
        """
        found, outputs = copy(self), (*left.outputs, *right.outputs)
        found._uses = ConstantUses(outputs, in_body=bool(left.reserved), but_for_jumps=but_for_jumps)
        return found

    def difference(self, left: Term, right: Term, own: Term | None = None) -> float | None:
        """Return a bound of the relative error by which two constants differ, or None if they are not equal.

        The bound is 0 if they are equal bit for bit, and relative to the largest element. None if a value cannot be
        computed. `right` stands for the tensor `own` of the right model, by default for itself. The uses of that one
        say if roundings matter.
        """
        if left.type is None or right.type is None or left.type != right.type or left.type.concrete() is None:
            return None
        exact = self.digest(left)
        if exact is not None and exact == self.digest(right):
            return 0.0
        if left.type.dtype not in FLOAT_DTYPES:
            return None
        here, place = (_without_sign(left), _without_sign(right)), _without_sign(own or right)
        if not self._uses.has(place) or not all(map(self._uses.may_be_rounded, (*here, place))):
            return None
        ours, theirs = self._bounded(left), self._bounded(right)
        if ours is None or theirs is None:
            return None
        (a, one), (b, other) = ours, theirs
        if not (np.isfinite(a).all() and np.isfinite(b).all()) or not a.size:
            return None
        dtype = numpy_dtype(left.type.dtype)
        roundoff = unit_roundoff(dtype)
        bound = _SECOND_ORDER * roundoff * (one + other + np.abs(a) + np.abs(b)) + _least_error(dtype)
        largest = float(max(np.abs(a).max(), np.abs(b).max()))
        if not largest:  # zeros of other signs
            return None
        if not one.any() and not other.any():  # nothing that we see was rounded
            if not all(one.op == "Const" and self._uses.has(one) for one in here) or a.size == 1 or roundoff > _SINGLE:
                return None
            gap, size = np.abs(a - b), np.maximum(np.abs(a), np.abs(b))
            error = float(gap.max())
            if error > _MAX_ERROR * largest:
                return None
            if not (gap <= _UNSEEN * roundoff * size).all():
                size = size + common_sums(*here, self._uses, self._weights)
                if not (gap <= _UNSEEN * roundoff * size).all():
                    return None
            return error / largest
        if not (np.abs(a - b) <= bound).all() or not float(bound.max()) <= _MAX_ERROR * largest:
            return None
        return float(bound.max()) / largest

    def bears(self, claim: Claim | None, left: Term, right: Term) -> bool:
        """Return True if there is no claim, or one that may read literals as it does (`ConstantUses.bears`)."""
        return claim is None or self._uses.bears(claim, left, right)

    def jump_behind(self, terms: Iterable[Term]) -> Term | None:
        """Return a function that jumps behind one of `terms`, which then may not be rounded; or None."""
        return next(filter(None, map(self._uses.jump_behind, map(_without_sign, terms))), None)

    def changed(self, left: Term, right: Term) -> ChangedWeight | None:
        """Return how a weight of the right model was changed if a few elements alone are not those of `left`.

        Another order of roundings gives many elements other last digits, so such elements were changed by themselves.
        """
        if right.op != "Const" or left.type is None or left.type != right.type or left.type.concrete() is None:
            return None
        if left.type.dtype not in FLOAT_DTYPES:
            return None
        ours, theirs = self._bounded(left), self._bounded(right)
        if ours is None or theirs is None:
            return None
        (a, error), (b, _) = ours, theirs
        dtype = numpy_dtype(left.type.dtype)
        bound = _SECOND_ORDER * unit_roundoff(dtype) * (error + np.abs(a) + np.abs(b)) + _least_error(dtype)
        bound = bound if error.any() else np.zeros(())
        places = np.argwhere(~(np.abs(a - b) <= bound))
        if not 0 < len(places) <= _CHANGED_SHARE * a.size:
            return None
        place = tuple(map(int, places[0]))
        return ChangedWeight(right, place, float(a[place]), float(b[place]))

    def digest(self, term: Term) -> str | None:
        """Return a hash of the value of a constant without rounded operations, or None."""
        if term not in self._digests:
            self._digests[term] = self._hashed(term)
        return self._digests[term]

    def _hashed(self, term: Term) -> str | None:
        if term.type is None or not self._is_small(term) or not all(map(_is_exact, topological((term,)))):
            return None
        if term.op == "Const":
            array = np.asarray(self._weights[str(term.attr("hash"))])
        else:
            try:
                array = self._moved(term).astype(numpy_dtype(term.type.dtype))
            except (ArithmeticError, LookupError, TypeError, ValueError):
                return None
        digest = hashlib.blake2b(f"{term.type.dtype} {array.shape}|".encode(), digest_size=16)
        digest.update(repr(array.tolist()).encode() if array.dtype == object else np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def _moved(self, term: Term) -> Array:
        """Return the value of a constant without rounded operations. Raises LookupError and others."""
        rows: dict[Term, Array] = {}
        for part in topological((term,)):
            if part.op != _GATHER and part.op not in MOVES:
                continue
            inputs = evaluate([i for i in part.inputs if i is not None], rows, self._weights)
            if part.op == _GATHER:  # by computed indices
                axis = dict(part.attrs).get("axis", 0)
                assert isinstance(axis, int)
                rows[part] = np.take(inputs[0], inputs[1], axis)
            elif (value := moved(part, inputs)) is not None:
                rows[part] = value
        found: Array = evaluate([term], rows, self._weights)[0]
        return found

    def _is_small(self, term: Term) -> bool:
        types = [type for part in topological((term,)) for type in part.types if type is not None]
        shapes = [type.concrete() for type in types]
        return all(shape is not None and math.prod(shape) <= _MAX_ELEMENTS for shape in shapes)

    def _bounded(self, term: Term) -> tuple[Array, Array] | None:
        """Return the value of a constant and its error bound in units of the roundoff."""
        if not self._is_small(term):
            return None
        for part in topological((term,)):
            if part not in self._known:
                self._known[part] = self._computed(part)
        found = self._known[term]
        for part in [p for p in self._known if p is not term and p.inputs]:
            del self._known[part]
        return None if found is None or found[1] is None else (found[0], found[1])

    def _computed(self, term: Term) -> tuple[Array, Array | None] | None:
        if term.type is None or not can_evaluate(term):
            return None
        values: dict[Term, Array] = {}
        errors: dict[Term, Array | None] = {}
        for operand in term.inputs:
            if operand is not None:
                known = self._known[operand]
                if known is None:
                    return None
                values[operand], errors[operand] = known
        try:
            with np.errstate(all="ignore"):
                value = evaluate([term], values, self._weights)[0]
                if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
                    return None
                return value, self._error(term, value, values, errors)
        except (ArithmeticError, LookupError, TypeError, ValueError):
            return None

    def _error(
        self, term: Term, value: Array, values: Mapping[Term, Array], errors: Mapping[Term, Array | None]
    ) -> Array | None:
        if term.op == "Const" or term.op in CLOSED_FORM or value.dtype.kind != "f":
            exact = all(error is not None and not error.any() for error in errors.values())
            return np.zeros(value.shape) if exact else None
        operands = [i for i in term.inputs if i is not None]
        if any(errors[i] is None for i in operands):
            return None
        if term.op == "Out" or term.type is None:
            return None
        names = [None if i is None else var(f"x{k}", i.type) for k, i in enumerate(term.inputs)]
        here = [name for name in names if name is not None]
        placed = term.over(names)

        def again(*new: Array) -> Array:
            """Return the operator's result on other operands."""
            found: Array = evaluate([placed], dict(zip(here, new, strict=True)), {})[0]
            return found

        xs = [np.abs(values[i]) for i in operands]
        es = [error for i in operands if (error := errors[i]) is not None]
        if is_conversion(term.op) and term.type is not None and not _is_real(operands[0]):
            largest = 1 / unit_roundoff(numpy_dtype(term.type.dtype))  # up to which the type has all integers
            return np.where(np.abs(value) <= largest, 0.0, np.abs(value))
        if moves(term.op):
            return again(*(e if _is_real(i) else values[i] for i, e in zip(operands, es, strict=True)))
        if adds_up(term.op) and all(value >= 0 for _, value in term.attrs if isinstance(value, float)):
            # A sum, linear in each operand: that of the absolute values bounds each partial sum.
            count, whole = roundings((placed,)), again(*xs)
            carried = again(*(x + e for x, e in zip(xs, es, strict=True))) - whole
            return np.asarray(carried + count * whole) if isinstance(count, int) else None
        if term.op == "BatchNormalization" and not (es[1].any() or es[4].any()):
            # (x - m) s / sqrt(v + e) + o in any order: up to eight roundings of |x| + |m| times the factor, plus |o|.
            variance = values[operands[4]]
            carried = again(es[0], xs[1], es[2], -es[3], variance)
            return np.asarray(carried + 8 * again(xs[0], xs[1], xs[2], -xs[3], variance))
        if term.op == "ReduceL2":
            # ||x + d| - |x|| <= |d|; a sum of n squares has n roundings, which a root halves, and one of its own.
            return np.asarray(again(es[0]) + (0.5 * xs[0].size / max(value.size, 1) + 1) * value)
        rule = _ERRORS.get(term.op)
        if rule is None or len(xs) < len(term.inputs):
            return None
        bound: Array = rule(xs, es, np.abs(value))
        if not rounds_at_most_once(term.op):
            return bound
        # x - 0 and x * 1 round nothing: else a rule that adds a zero would allow another last digit.
        rounded = value != value.astype(numpy_dtype(term.type.dtype))
        return np.where(rounded | np.any(np.broadcast_arrays(*es), axis=0), bound, 0.0)


def rests_on(constant: Term, rounded: Set[Term]) -> bool:
    """Return True if a constant is computed from `rounded` ones.

    Their bounds do not hold for what is computed from them, and a second bound would add to the first.
    """
    return not rounded.isdisjoint(topological((constant,)))


def _least_error(dtype: np.dtype[Any]) -> float:
    """Return a bound of errors that are not relative: numbers below the normal ones may have been flushed to 0.

    ONNX Runtime keeps those of float16, and rounds to multiples of the least one.
    """
    if dtype == np.float16:
        return _UNSEEN * float(np.finfo(np.float16).smallest_subnormal)
    return smallest_normal(dtype)


def _without_sign(term: Term) -> Term:
    operand = term.inputs[0] if term.op == "Neg" else None
    return term if operand is None else operand


def _is_real(term: Term) -> bool:
    return term.type is not None and term.type.dtype in FLOAT_DTYPES


def _is_exact(term: Term) -> bool:
    """Return True if an operator rounds nothing: it moves elements or signs, or computes with no real numbers."""
    if term.op in ("Const", "Out", "Neg", _GATHER, *MOVES) or term.op in CLOSED_FORM or moves(term.op):
        return True
    types: Iterable[Any] = [type for part in (term, *term.inputs) if part is not None for type in part.types]
    return all(type is not None and type.dtype not in FLOAT_DTYPES for type in types)


# Roundings of a function in a library: two units in the last place, for a bounded function of its largest value.
_LIBRARY = 4
_Bound = Callable[[list[Array], list[Array], Array], Array]
# The error of a result y from the absolute values x and the errors e of operands.
_ERRORS: Mapping[str, _Bound] = {
    "Add": lambda x, e, y: e[0] + e[1] + y,
    "Sub": lambda x, e, y: e[0] + e[1] + y,
    "Mul": lambda x, e, y: x[0] * e[1] + e[0] * x[1] + y,
    "Div": lambda x, e, y: e[0] / x[1] + x[0] * e[1] / x[1] ** 2 + y,
    "Neg": lambda x, e, y: e[0],
    "Abs": lambda x, e, y: e[0],
    "Reciprocal": lambda x, e, y: e[0] / x[0] ** 2 + y,
    "Sqrt": lambda x, e, y: e[0] / (2 * np.sqrt(x[0])) + y,
    "Pow": lambda x, e, y: y * (x[1] * e[0] / x[0] + np.abs(np.log(x[0])) * e[1] + _LIBRARY),
    "Exp": lambda x, e, y: y * (e[0] + _LIBRARY),
    "Log": lambda x, e, y: e[0] / x[0] + _LIBRARY * np.maximum(y, 1),
    **dict.fromkeys(("Cos", "Sin", "Tanh"), lambda x, e, y: e[0] + _LIBRARY),
    "Sigmoid": lambda x, e, y: e[0] / 4 + _LIBRARY,
}
