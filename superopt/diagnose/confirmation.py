"""Counterexamples run in ONNX Runtime: both sides of a refuted equation as models, on the same tensors.

The kernel refutes an equation by its own definitions of operators. If ONNX Runtime computes equal values but the
kernel different ones, a definition in the kernel is wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import defs

from superopt.evaluate import numpy_dtype
from superopt.ir.dim import Dim, Size, evaluate
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Attr, AttrVar, Term, topological, var
from superopt.ir.types import TensorType
from superopt.onnx_io import ModelError, new_model, write_model
from superopt.runtime import CannotRun, RuntimeUnavailable, Target, open_session
from verify.diagnose.counterexample import distinct_texts
from verify.verdict import Counterexample

__all__ = [
    "SIDES_AGREE", "VALUES_DIFFER", "ONE_SIDE_FAILS", "TYPES_DIFFER", "CANNOT_RUN", "Confirmation", "confirm",
    "run_terms", "runnable",
]  # fmt: skip

VALUES_DIFFER, TYPES_DIFFER, ONE_SIDE_FAILS = "the values differ", "the types differ", "one side does not run"
SIDES_AGREE, CANNOT_RUN = "the sides agree", "cannot be run here"

_OLDEST_OPSET = 17  # tried first; newer ones follow if it lacks an operator
_DOMAINS = {"com.microsoft": 1}
# Rounding error of float32 in the few operators of a rule, relative to the larger side.
_ROUNDING_NOISE = 1e-4


@dataclass(frozen=True)
class Confirmation:
    """Result of running a counterexample in ONNX Runtime.

    `outcome` is one of the constants above. `left` and `right` are the values of both sides at the counterexample's
    index, or their types if these differ. `reason` says why the counterexample could not be checked.
    """

    outcome: str
    left: str = ""
    right: str = ""
    reason: str = ""

    @property
    def contradicts(self) -> bool:
        """True if the sides are equal in ONNX Runtime although the kernel says that they differ."""
        return self.outcome == SIDES_AGREE

    def __str__(self) -> str:
        sides = f": left {self.left}, right {self.right}" if self.left else ""
        if self.outcome in (VALUES_DIFFER, TYPES_DIFFER):
            return f"confirmed by ONNX Runtime{sides}"
        if self.outcome == SIDES_AGREE:
            return f"CONTRADICTED by ONNX Runtime, which finds both sides equal{sides}: an error of the kernel"
        return f"not confirmed by ONNX Runtime, {self.outcome}: {self.reason}"


def confirm(rule: Rule, signature: Signature, example: Counterexample) -> Confirmation:
    """Run both sides of `rule` in ONNX Runtime, unoptimized, at the sizes and on the tensors of `example`.

    An example without tensors (the types differ) is run on ones.
    """
    try:
        bindings = _concrete_bindings(signature, example)
        left = instantiate(rule.lhs, bindings, bindings.dtype() or "float")
        feeds = {name: _array(term, example.tensors.get(name)) for name, term in bindings.terms.items()}
    except (IllTyped, ValueError) as error:
        return Confirmation(CANNOT_RUN, reason=f"the left side cannot be made: {error}")
    try:
        right = instantiate(rule.rhs, bindings, bindings.dtype() or "float")
    except IllTyped as error:
        ran = run_terms(left, feeds)
        if isinstance(ran, str):
            return Confirmation(CANNOT_RUN, reason=f"left: {ran}")
        return Confirmation(ONE_SIDE_FAILS, reason=f"the left side runs, the right side has no type ({error})")
    a, b = run_terms(left, feeds), run_terms(right, feeds)
    if isinstance(a, str) or isinstance(b, str):
        failed = [f"{side}: {ran}" for side, ran in (("left", a), ("right", b)) if isinstance(ran, str)]
        return Confirmation(ONE_SIDE_FAILS if len(failed) == 1 else CANNOT_RUN, reason="; ".join(failed))
    return _compared(np.asarray(a[example.output]), np.asarray(b[example.output]), example)


def _compared(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], example: Counterexample) -> Confirmation:
    if left.shape != right.shape:
        return Confirmation(TYPES_DIFFER, str(list(left.shape)), str(list(right.shape)))
    if left.dtype != right.dtype:
        return Confirmation(TYPES_DIFFER, str(left.dtype), str(right.dtype))
    try:
        claimed = float(example.left), float(example.right)
    except ValueError:  # by the kernel the types differ; in ONNX Runtime they do not
        return Confirmation(SIDES_AGREE, str(list(left.shape)), str(list(right.shape)))
    a, b = float(left[example.index]), float(right[example.index])
    shown = distinct_texts(a, b)
    if _differ(a, b):
        return Confirmation(VALUES_DIFFER, *shown)
    if np.isnan(claimed[1]):
        return Confirmation(
            CANNOT_RUN, *shown, reason="over the reals the right side is undefined; the machine's is not"
        )
    if not _differ(*claimed):
        return Confirmation(CANNOT_RUN, *shown, reason="the difference is too small for float32")
    return Confirmation(SIDES_AGREE, *shown)


def _differ(a: float, b: float) -> bool:
    if np.isfinite(a) and np.isfinite(b):
        return abs(a - b) > _ROUNDING_NOISE * max(abs(a), abs(b))
    return not (a == b or (np.isnan(a) and np.isnan(b)))


def _concrete_bindings(signature: Signature, example: Counterexample) -> Bindings:
    """Bind the variables at the sizes of the counterexample. Raises ValueError for a size left open."""
    symbolic = signature.bindings()
    sizes: dict[str, Size] = dict(example.sizes)
    terms: dict[str, Term] = {}
    for name, term in symbolic.terms.items():
        assert term.type is not None
        type = term.type.with_sizes(sizes)
        if type.concrete() is None:
            raise ValueError(f"the size of {name} is left open")
        terms[name] = var(name, type)
    return Bindings(
        terms, {name: _concrete_attr(value, sizes, example.reals) for name, value in symbolic.attrs.items()}
    )


def _concrete_attr(value: Attr, sizes: Mapping[str, Size], reals: Mapping[str, float]) -> Attr:
    if isinstance(value, tuple):
        return tuple(_concrete_attr(item, sizes, reals) for item in value)
    if isinstance(value, AttrVar):
        if value.name not in reals:
            raise ValueError(f"the value of {value.name} is left open")
        return reals[value.name]
    return evaluate(value, sizes) if isinstance(value, Dim) else value


def _array(term: Term, values: object) -> np.ndarray[Any, Any]:
    type = term.type
    assert isinstance(type, TensorType)
    dtype, shape = numpy_dtype(type.dtype), type.concrete()
    assert shape is not None
    return np.ones(shape, dtype) if values is None else np.array(values).astype(dtype).reshape(shape)


def run_terms(outputs: tuple[Term, ...], feeds: Mapping[str, np.ndarray[Any, Any]]) -> list[Any] | str:
    """Run terms in ONNX Runtime, unoptimized; return the outputs, or the reason why they do not run."""
    return runnable(outputs)(feeds)


def runnable(outputs: tuple[Term, ...]) -> Callable[[Mapping[str, np.ndarray[Any, Any]]], list[Any] | str]:
    """Return `run_terms` for these terms: they are loaded once, and may be run on many feeds."""
    names = {str(term.attr("name")) for term in topological(outputs) if term.op == "Var"}
    try:
        session = open_session(_model(outputs), Target(), level="none")
    except (ModelError, CannotRun, RuntimeUnavailable, onnx.checker.ValidationError) as error:
        reason = _one_line(error)
        return lambda feeds: reason

    def run(feeds: Mapping[str, np.ndarray[Any, Any]]) -> list[Any] | str:
        try:
            return session.run({name: array for name, array in feeds.items() if name in names})
        except (CannotRun, RuntimeUnavailable) as error:
            return _one_line(error)

    return run


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _model(outputs: tuple[Term, ...]) -> onnx.ModelProto:
    """Write one side as a model of the oldest operator set that has all its operators. Raises ModelError."""
    newest = defs.onnx_opset_version()
    for opset in range(_OLDEST_OPSET, newest):
        with contextlib.suppress(ModelError):
            return write_model(new_model(outputs, opset=opset, extra_opsets=_DOMAINS))
    return write_model(new_model(outputs, opset=newest, extra_opsets=_DOMAINS))
