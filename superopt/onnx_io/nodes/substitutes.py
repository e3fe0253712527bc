"""Operators of ONNX Runtime's own for operators of ONNX, in models of an opset that does not have these yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from superopt.ir.term import Attr, Term

__all__ = ["Substitute", "substitute"]

_OWN_DOMAIN = "com.microsoft"


class Substitute(NamedTuple):
    """An operator, as a rule on the same operands; the domain "" is ONNX's, to which a runtime may add operators."""

    op: str
    domain: str = ""
    attributes: Mapping[str, Attr] = {}


def substitute(operator: Term) -> Substitute | None:
    """Return the operator of ONNX Runtime that computes `operator` in every opset, or None.

    Of a pattern, whose operands have no types, it may not be that of each match.
    """
    if operator.op == "Gelu":  # new in ONNX 20
        return Substitute("FastGelu" if operator.attr("approximate") == "tanh" else "Gelu", _OWN_DOMAIN)
    if operator.op == "RMSNormalization" and operator.attr("axis") == -1:  # new in ONNX 23
        scale = operator.inputs[1]
        if scale is not None and (scale.type is None or len(scale.type.shape or ()) == 1):
            attributes = {"axis": -1, "epsilon": operator.attr("epsilon")}
            return Substitute("SimplifiedLayerNormalization", attributes=attributes)
    if operator.op == "RotaryEmbedding":  # new in ONNX 23; its operands are those that `forms.attention` gives it
        return Substitute("RotaryEmbedding", _OWN_DOMAIN, dict(operator.attrs))
    return None
