"""Initial states of recurrent layers that are zeros, which ONNX takes where the input is absent.

PyTorch's exporter makes them by ConstantOfShape of computed sizes, of which a layer of two directions takes slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from superopt.evaluate.indices import Array
from superopt.ir.term import Term
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.schemas import standard_name
from superopt.onnx_io.static_values import StaticValues
from superopt.onnx_io.tensors import from_proto
from superopt.properties import rearranges

__all__ = ["without_zero_states"]

# Positions of the initial states among the inputs (pages of RNN, GRU and LSTM in the ONNX specification).
_STATES: Mapping[str, tuple[int, ...]] = {"RNN": (5,), "GRU": (5,), "LSTM": (5, 6)}


def without_zero_states(node: onnx.NodeProto, inputs: Sequence[Term | None], known: StaticValues) -> list[Term | None]:
    """Return the inputs of a node of the standard domain, with initial states left out that are zeros.

    A state of another shape than [directions, batch, hidden] stays, as the layer fails with it. So does that of an RNN
    whose recurrent weights may be infinite or NaN: 0 * inf is NaN, and ONNX Runtime multiplies no absent state.
    """
    found = list(inputs)
    x, recurrence = (known.shape(inputs[k]) if len(inputs) > k else None for k in (0, 2))
    plain = not any(attribute.name == "layout" and attribute.i for attribute in node.attribute)
    plain = plain and (node.op_type != "RNN" or _is_finite(inputs[2] if len(inputs) > 2 else None, known))
    if node.op_type in _STATES and plain and x is not None and recurrence is not None:
        for place in _STATES[node.op_type]:
            state = found[place] if place < len(found) else None
            if state is None or len(x) != 3 or len(recurrence) != 3:
                continue
            if known.shape(state) == (recurrence[0], x[1], recurrence[2]) and _is_zero(state, known):
                found[place] = None
    while found and found[-1] is None:
        found.pop()
    return found


def _is_finite(term: Term | None, known: StaticValues) -> bool:
    """Return True for a constant without infinities and NaN."""
    value = None if term is None else known.numbers(term)
    return value is not None and bool(np.isfinite(value).all())


def _is_zero(term: Term, known: StaticValues) -> bool:
    """Return True for zeros of any size that were made by ConstantOfShape and moved, and for constants."""
    if term.op == "Out" and term.inputs[0] is not None and rearranges(term.inputs[0].op):
        term = term.inputs[0]
    if standard_name(term.op) == "ConstantOfShape" and term.inputs:
        values = [from_proto(attribute.t, term.op)[0] for attribute in unpack(term.attrs) if attribute.name == "value"]
        return all(_positive_zeros(value) for value in values)
    if rearranges(term.op):
        return all(operand is None or _is_zero(operand, known) for operand in term.inputs)
    value = known.numbers(term)
    return value is not None and _positive_zeros(value)


def _positive_zeros(value: Array) -> bool:
    return value.dtype.kind == "f" and not value.any() and not np.signbit(value).any()
