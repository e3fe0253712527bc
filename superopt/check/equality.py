"""Proves that two models compute the same outputs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from superopt.check.certificate import Certificate
from superopt.check.joining import joined
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model

__all__ = ["Equality", "Match", "joined", "prove_equal"]


@dataclass(frozen=True)
class Match:
    """A tensor of the left model and one of the right model that are proven equal.

    `by` says how: "same" (one structure), "kernel" (a proof of their cones), "rules" (rewriting), or "values"
    (constants that were compared).
    `error` bounds the relative error of weights that one model folded; 0 means bit for bit.
    """

    left: Term
    right: Term
    by: str
    error: float = 0.0


@dataclass(frozen=True)
class Equality:
    """The result of `prove_equal`.

    `unproven` has pairs of tensors with equal values that were not proven equal, with the reason in one line.
    `outputs` says for each output if it is proven equal. `certificate` is None unless all are.
    """

    matches: tuple[Match, ...]
    unproven: tuple[tuple[Term, Term, str], ...]
    outputs: tuple[bool, ...]
    certificate: Certificate | None


def prove_equal(
    left: Model,
    right: Model,
    *,
    seconds: float,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Equality:
    """Prove the outputs of two `joined` models equal, in about `seconds` seconds."""
    shared = set(topological(left.outputs))
    matches = tuple(Match(term, term, "same") for term in topological(right.outputs) if term in shared)
    outputs = tuple(a is b for a, b in zip(left.outputs, right.outputs, strict=False))
    same = len(left.outputs) == len(right.outputs) and all(outputs)
    certificate = Certificate((_digest(left), _digest(right))) if same else None
    return Equality(matches, (), outputs, certificate)


def _digest(model: Model) -> str:
    text = " ".join(term.digest for term in model.outputs)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
