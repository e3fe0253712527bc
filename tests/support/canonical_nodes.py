"""Nodes of files in the one form that terms have."""

from __future__ import annotations

import onnx

from superopt.ir.term import Term
from superopt.onnx_io import read_model
from tests.support.runtime_oracle import round_trip

__all__ = ["read", "shown"]


def read(model: onnx.ModelProto) -> Term:
    """The term that makes the graph's first output; the model is checked to survive a round trip."""
    round_trip(model)
    term = read_model(model).outputs[0]
    return term.inputs[0] if term.op == "Out" and term.inputs[0] is not None else term


def shown(term: Term) -> str:
    """The operator and its attributes."""
    return f"{term.op} " + " ".join(f"{name}={value}" for name, value in term.attrs)
