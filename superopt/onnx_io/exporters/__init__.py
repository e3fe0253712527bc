"""Operators of the table as nodes of a given opset: the canonical form undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from superopt.ir.term import Term
from superopt.onnx_io.exporters import (
    constants,
    contrib,
    conv,
    linear,
    logic,
    normalization,
    pool,
    rearrange,
    recurrent,
    reduce,
    scalar,
    select,
    standard,
)
from superopt.onnx_io.exporters.emission import Constants, Emission, Emitter
from superopt.onnx_io.model import ModelError

__all__ = ["Constants", "emit"]

_FAMILIES = (
    constants, contrib, conv, linear, logic, normalization, pool, rearrange, recurrent, reduce, scalar, select, standard
)  # fmt: skip
# Operators whose node has the term's name and attributes need no emitter.
EMITTERS: Mapping[str, Emitter] = {name: emitter for family in _FAMILIES for name, emitter in family.EMITTERS.items()}


def emit(
    term: Term, opset: int, inputs: Sequence[str], outputs: Sequence[str], constants: Constants
) -> list[onnx.NodeProto]:
    """The nodes (one, as a rule) that compute `term` at `opset`. Raises ModelError where the opset cannot say it."""
    for name, value in term.attrs:
        if not _literal(value):
            raise ModelError(f"{term.op}: attribute {name} = {value} is not a number")
    emission = Emission(term, opset, list(inputs), outputs, dict(term.attrs), constants)
    # What works on no axis at all is the identity; written out, an empty list would mean all axes, or nothing.
    if any(emission.attrs.get(name) == () for name in ("axes", "perm", "pads")):
        return emission.node("Identity")
    emitter = EMITTERS.get(term.op)
    return emission.node(**emission.attrs) if emitter is None else emitter(emission)


def _literal(value: object) -> bool:
    return all(map(_literal, value)) if isinstance(value, tuple) else isinstance(value, (int, float, str))
