"""Tensors of indices that a model computes, and the selections by them that select everything in order.

PyTorch's exporter writes a mask of an attention, mask[b, s] for all b and s, as a Gather of computed indices:

    b = Unsqueeze(Range(0, batch, 1)), s = Range(0, sequence, 1), GatherND(mask, Concat(Expand(b), Expand(s)))

Each element of such a tensor is a polynomial of its place: i!0, i!1, ... are the indices along its axes. They are
integers modulo 2^64, as the tensors are, so sums and products are those of polynomials. Where the place of an element
is also the place that it selects, the selection only inserts axes of size 1, or reshapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from superopt.ir.dim import Size, Sizes, evaluate, symbol
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term
from superopt.onnx_io.no_ops import broadcasts
from superopt.onnx_io.nodes import NodeView
from superopt.onnx_io.reshape_targets import FIRST_COMPUTED_RESHAPE, reshaped
from superopt.onnx_io.static_values import LONGEST_POLYNOMIAL, StaticValues, length
from superopt.ops.definition import NoSemantics, Operand

__all__ = ["Coordinates"]


class Coordinates:
    """The elements of tensors of int64 as polynomials of their places, computed once for each term."""

    def __init__(self, known: StaticValues) -> None:
        self._known, self._elements = known, dict[Term, Size | None]()
        self._all_true: set[Term] = set()

    def replaced(self, view: NodeView) -> Term | None:
        """Return a simpler term with the value of the node's first output, or None."""
        handler = _NODES.get(view.node.op_type)
        first, second = view.inputs if len(view.inputs) == 2 else (None, None)
        return None if handler is None or first is None or second is None else handler(self, view, first, second)

    def note(self, term: Term) -> None:
        """Note what is known of a term, after those below it: an index, or that all of index >= 0 is true."""
        if term.op in _READ:
            self.element(term)
        if term.op != "GreaterOrEqual" or None in term.inputs:
            return
        left, right = (self.element(one) for one in term.inputs if one is not None)
        rank = len(self._known.shape(term.inputs[0]) or ())
        if left is not None and right == 0 and left in [symbol(f"i!{axis}") for axis in range(rank)]:
            self._all_true.add(term)

    def element(self, term: Term) -> Size | None:
        """Return the element at the place (i!0, i!1, ...) of a tensor of int64, or None if it is not known."""
        if term not in self._elements:
            try:
                found = self._element(term)
            except NoSemantics:
                found = None
            self._elements[term] = None if found is None or length(found) > LONGEST_POLYNOMIAL else found
        return self._elements[term]

    def _element(self, term: Term) -> Size | None:
        """Return the element by the operator's definition, over those of its operands. Raises NoSemantics."""
        if term.type is None or term.type.dtype != "int64":
            return None
        values, shape = self._known.sizes(term), self._known.shape(term)
        if values is not None and values.size and all(value == values.flat[0] for value in values.flat):
            same: Size = values.flat[0]
            return same
        if term.op not in _READ or shape is None or None in term.inputs:
            return None
        if term.op == _RANGE:
            start, _, delta = (self._scalar(one) for one in term.inputs)
            return start + delta * symbol("i!0")
        operands = [self._operand(one, shape if term.op in _BROADCASTING else None) for one in term.inputs]
        meaning, place = OPERATORS[term.op].meaning, tuple(symbol(f"i!{axis}") for axis in range(len(shape)))
        assert meaning is not None
        found: Size = meaning(_Polynomials(), operands, dict(term.attrs), shape, place)
        return found

    def _operand(self, term: Term | None, to: Sizes | None) -> Operand:
        """Return an operand, which is broadcast `to` a shape. Raises NoSemantics."""
        shape, element = self._known.shape(term), None if term is None else self.element(term)
        if shape is None or element is None or (to is not None and not broadcasts(shape, to)):
            raise NoSemantics("an operand that is not known")
        return Operand(shape, "int64", lambda *index: evaluate(element, {f"i!{k}": i for k, i in enumerate(index)}))

    def _scalar(self, term: Term | None) -> Size:
        values = None if term is None else self._known.sizes(term)
        if values is None or values.size != 1:
            raise NoSemantics("a number that is not known")
        found: Size = values.flat[0]
        return found

    def _gathered(self, view: NodeView, data: Term, indices: Term) -> Term | None:
        """Return the reshaped data if the indices of a Gather are 0, 1, 2, ... in order, all along its axis."""
        shape, own = self._known.shape(indices), self._known.shape(data)
        if not shape or not own or view.opset < FIRST_COMPUTED_RESHAPE:
            return None
        axis = view.integer("axis", 0) % len(own)
        if math.prod(shape) != own[axis] or self.element(indices) != _row_major(shape):
            return None
        return reshaped(data, (*own[:axis], *shape, *own[axis + 1 :]), self._known)

    def _gathered_elements(self, view: NodeView, data: Term, indices: Term) -> Term | None:
        """Return the data with axes of size 1 inserted if each element of a GatherND is the one at its own place."""
        shape, own = self._known.shape(indices), self._known.shape(data)
        if not shape or own is None or view.integer("batch_dims", 0) != 0:
            return None
        parts = indices.inputs if indices.op == "Concat" and indices.attr("axis") == -1 else (indices,)
        if len(parts) != shape[-1] or len(parts) > len(own):
            return None
        selected = []
        for part, size in zip(parts, own, strict=False):
            element, whole = None if part is None else self.element(part), self._known.shape(part)
            axes = [axis for axis in range(len(shape) - 1) if element == symbol(f"i!{axis}")]
            if not axes or whole is None or whole[:-1] != shape[:-1] or whole[-1] != 1 or shape[axes[0]] != size:
                return None
            selected += axes
        new = [axis for axis in range(len(shape) - 1) if axis not in selected]
        if selected != sorted(set(selected)) or any(shape[axis] != 1 for axis in new):
            return None
        rank = len(shape) - 1 + len(own) - len(parts)
        return make("Unsqueeze", (data,), {"axes": tuple(axis - rank for axis in new)}) if new else data

    def _and(self, view: NodeView, left: Term, right: Term) -> Term | None:
        """Return an operand of And, with axes of size 1 as long as the other's, if all of the other is true."""
        for truth, other in ((left, right), (right, left)):
            shape, own = self._known.shape(truth), self._known.shape(other)
            if truth not in self._all_true or shape is None or own is None:
                continue
            if all(1 in sizes or sizes[0] == sizes[1] for sizes in zip(shape[::-1], own[::-1], strict=False)):
                return make("Expand", (other,), {"shape": shape})
        return None


def _row_major(shape: Sizes) -> Size:
    """Return the number of the place (i!0, i!1, ...) in a tensor of this shape, counted from 0."""
    number: Size = 0
    for axis, size in enumerate(shape):
        number = number * size + (0 if size == 1 else symbol(f"i!{axis}"))
    return number


class _Polynomials:
    """The algebra of sums and products of integers; other operations have no polynomial."""

    def add(self, *parts: Size) -> Size:
        return sum(parts, start=0)

    def multiply(self, left: Size, right: Size) -> Size:
        if length(left) * length(right) > LONGEST_POLYNOMIAL:
            raise NoSemantics("a product that is too long")
        return left * right


_RANGE = "ai.onnx::Range"
_BROADCASTING = frozenset({"Add", "Expand", "Mul"})
_READ = _BROADCASTING | {"Squeeze", "Unsqueeze", _RANGE}
_NODES: dict[str, Callable[[Coordinates, NodeView, Term, Term], Term | None]] = {
    "Gather": Coordinates._gathered,
    "GatherND": Coordinates._gathered_elements,
    "And": Coordinates._and,
}
