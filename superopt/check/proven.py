"""The findings of a proof that two models are equal: tensors that are, tensors that may not be, and outputs."""

from __future__ import annotations

from dataclasses import dataclass

from superopt.check.certificate import Certificate
from superopt.check.constants import ChangedWeight
from superopt.ir.term import Term
from superopt.onnx_io import Model

__all__ = ["Equality", "Match"]


@dataclass(frozen=True)
class Match:
    """A tensor of the left model and one of the right model that are proven equal.

    `by` says how: "same" (one structure), "kernel" (a proof of their cones), "rules" (one structure after rewriting),
    "values" (constants that were compared), "runtime" (constants of which ONNX Runtime computed one), or "bodies" (If,
    Loop or Scan with equal bodies). `error` bounds the relative error of weights that one model folded; 0 means bit for
    bit.
    """

    left: Term
    right: Term
    by: str
    error: float = 0.0


@dataclass(frozen=True)
class Equality:
    """The result of a proof that two models are equal.

    `models` are the models whose tensors are compared, which rules may have rewritten. `unproven` has pairs of tensors
    with equal values that were not proven equal, with the reason in one line. `outputs` says for each output if it is
    proven equal. `certificate` is None unless all are. `changed` are weights of which a few elements differ; if there
    are any, all outputs would be equal with equal weights there. `jumps` are operators that jump; if there are any, all
    outputs would be equal if roundings of weights and literals did not matter there.
    """

    models: tuple[Model, Model]
    matches: tuple[Match, ...]
    unproven: tuple[tuple[Term, Term, str], ...]
    outputs: tuple[bool, ...]
    certificate: Certificate | None
    changed: tuple[ChangedWeight, ...] = ()
    jumps: frozenset[str] = frozenset()
