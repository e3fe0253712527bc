"""Reshapes and Expands to shapes that a model computes, as they are read: see `reshape_targets`."""

from __future__ import annotations

import onnx

from superopt.evaluate import constant
from superopt.ir.term import Attr, Term
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io.certain_sizes import CertainSizes
from superopt.onnx_io.model import Array
from superopt.onnx_io.nodes import NodeView
from superopt.onnx_io.nodes.view import Canonical
from superopt.onnx_io.reshape_targets import FIRST_COMPUTED_RESHAPE, computed_target, numeric_target, reshaped
from superopt.onnx_io.static_values import StaticValues

__all__ = ["ComputedTargets"]


class ComputedTargets:
    """Simplifies Reshape and Expand in a model of one opset, whose constants are in `weights`."""

    def __init__(self, known: StaticValues, certain: CertainSizes, opset: int, weights: dict[str, Array]) -> None:
        self._known, self._certain, self._opset, self._weights = known, certain, opset, weights

    def with_numbers(self, view: NodeView) -> tuple[onnx.NodeProto, list[Term | None]] | None:
        """Return the node and its inputs with a target of numbers, if it is computed, and numbers are equivalent."""
        target = numeric_target(view, self._known) if view.inputs else None
        if target is None:
            return None
        copying = onnx.NodeProto()
        copying.CopyFrom(view.node)
        del copying.attribute[:]
        copying.attribute.extend(one for one in view.node.attribute if one.name != "allowzero")
        return copying, [view.inputs[0], constant(target, "int64", self._weights)]

    def with_polynomials(self, view: NodeView) -> Canonical | None:
        """Return a node whose target is known as polynomials of the inputs' sizes in canonical form, or None."""
        target = computed_target(view, self._known, self._certain) if view.inputs else None
        if target is None:
            return None
        attrs: dict[str, Attr] = {"shape": target}
        if view.node.op_type == "Reshape":
            attrs["allowzero"] = 0
        return Canonical(view.node.op_type, view.inputs[:1], attrs)

    def as_one(self, term: Term) -> Term:
        """Return a Reshape of truth values or integers without those below it; rules do that for real numbers."""
        operand, shape = term.inputs[0] if term.inputs else None, self._known.shape(term)
        if term.op != "Reshape" or shape is None or term.type is None or term.type.dtype in FLOAT_DTYPES:
            return term
        if operand is None or self._opset < FIRST_COMPUTED_RESHAPE:
            return term
        found = reshaped(operand, shape, self._known)
        if found is None:
            return term
        self._known.shapes.setdefault(found, shape)
        return found
