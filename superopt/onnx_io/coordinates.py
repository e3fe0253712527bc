"""Tensors of indices that a model computes, and the selections by them that select everything in order.

PyTorch's exporter writes a mask of an attention, mask[b, s] for all b and s, as a Gather of computed indices:

    b = Unsqueeze(Range(0, batch, 1)), s = Range(0, sequence, 1), GatherND(mask, Concat(Expand(b), Expand(s)))

Each element of such a tensor is a polynomial of its place: i!0, i!1, ... are the indices along its axes. They are
integers modulo 2^64, as the tensors are, so sums and products are those of polynomials. Where the place of an element
is also the place that it selects, the selection only inserts axes of size 1, or reshapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from superopt.ir.dim import Size, Sizes, evaluate, symbol
from superopt.ir.infer import make
from superopt.ir.term import Attr, Term
from superopt.onnx_io.nodes import NodeView
from superopt.onnx_io.reshape_targets import FIRST_COMPUTED_RESHAPE, reshaped
from superopt.onnx_io.static_values import StaticValues

__all__ = ["Coordinates"]

_LONGEST = 64  # polynomial, by `_length`: places in tensors of 6 axes; squares of squares would grow without end


class Coordinates:
    """The elements of tensors of int64 as polynomials of their places, computed once for each term."""

    def __init__(self, known: StaticValues) -> None:
        self._shapes, self._known = known, dict[Term, Size | None]()
        self._all_true: set[Term] = set()

    def replaced(self, view: NodeView) -> Term | None:
        """Return a simpler term with the value of the node's first output, or None."""
        handler = _NODES.get(view.node.op_type)
        if handler is None or len(view.inputs) != 2 or None in view.inputs:
            return None
        return handler(self, view)

    def note(self, term: Term) -> None:
        """Note what is known of a term, after those below it: an index, or that all of index >= 0 is true."""
        if term.op in _ELEMENTS:
            self.element(term)
        if term.op != "GreaterOrEqual" or None in term.inputs:
            return
        left, right = (self.element(one) for one in term.inputs if one is not None)
        rank = len(self._shape(term.inputs[0]) or ())
        if left is not None and right == 0 and left in [symbol(f"i!{axis}") for axis in range(rank)]:
            self._all_true.add(term)

    def element(self, term: Term) -> Size | None:
        """Return the element at the place (i!0, i!1, ...) of a tensor of int64, or None if it is not known."""
        if term not in self._known:
            found = self._element(term)
            self._known[term] = None if found is None or _length(found) > _LONGEST else found
        return self._known[term]

    def _element(self, term: Term) -> Size | None:
        if term.type is None or term.type.dtype != "int64":
            return None
        values = self._shapes.sizes(term)
        if values is not None and values.size and all(value == values.flat[0] for value in values.flat):
            same: Size = values.flat[0]
            return same
        rule = _ELEMENTS.get(term.op)
        operands = [one for one in term.inputs if one is not None]
        if rule is None or len(operands) < len(term.inputs) or self._shape(term) is None:
            return None
        return rule(self, term, operands)

    def _shape(self, term: Term | None) -> Sizes | None:
        return self._shapes.shape(term)

    def _scalar(self, term: Term) -> Size | None:
        values = self._shapes.sizes(term)
        return None if values is None or values.size != 1 else values.flat[0]

    def _range(self, term: Term, operands: Sequence[Term]) -> Size | None:
        start, _, delta = (self._scalar(one) for one in operands)
        return None if start is None or delta is None else start + delta * symbol("i!0")

    def _unsqueezed(self, term: Term, operands: Sequence[Term]) -> Size | None:
        shape = self._shape(term) or ()
        new = {axis % len(shape) for axis in _integers(term.attr("axes"))}
        return self._moved(operands[0], [axis for axis in range(len(shape)) if axis not in new])

    def _squeezed(self, term: Term, operands: Sequence[Term]) -> Size | None:
        rank = len(self._shape(operands[0]) or ())
        gone = {axis % rank for axis in _integers(term.attr("axes"))} if rank else set()
        kept = [axis for axis in range(rank) if axis not in gone]
        return self._moved(operands[0], [kept.index(axis) if axis in kept else None for axis in range(rank)])

    def _broadcast(self, term: Term, operands: Sequence[Term]) -> Size | None:
        return self._aligned(operands[0], self._shape(term) or ())

    def _sum(self, term: Term, operands: Sequence[Term]) -> Size | None:
        left, right = (self._aligned(one, self._shape(term) or ()) for one in operands)
        return None if left is None or right is None else left + right

    def _product(self, term: Term, operands: Sequence[Term]) -> Size | None:
        left, right = (self._aligned(one, self._shape(term) or ()) for one in operands)
        if left is None or right is None or _length(left) * _length(right) > _LONGEST:
            return None
        return left * right

    def _aligned(self, operand: Term, shape: Sizes) -> Size | None:
        """Return an operand's element, by the place in a result of `shape` to which it is broadcast."""
        own = self._shape(operand)
        first = len(shape) - len(own or ())
        if own is None or first < 0 or any(size not in (1, shape[first + axis]) for axis, size in enumerate(own)):
            return None
        return self._moved(operand, [None if size == 1 else first + axis for axis, size in enumerate(own)])

    def _moved(self, operand: Term, axes: Sequence[int | None]) -> Size | None:
        """Return an operand's element with the indices of other axes for its own; None is the index 0."""
        element = self.element(operand)
        places = {f"i!{own}": 0 if axis is None else symbol(f"i!{axis}") for own, axis in enumerate(axes)}
        return None if element is None else evaluate(element, places)

    def _gathered(self, view: NodeView) -> Term | None:
        """Return the reshaped data if the indices of a Gather along the first axis are 0, 1, 2, ... in order."""
        data, indices = view.inputs
        shape, own = self._shape(indices), self._shape(data)
        if data is None or indices is None or not shape or not own or view.integer("axis", 0) != 0:
            return None
        if (
            math.prod(shape) != own[0]
            or self.element(indices) != _row_major(shape)
            or view.opset < FIRST_COMPUTED_RESHAPE
        ):
            return None
        return reshaped(data, (*shape, *own[1:]), self._shapes)

    def _gathered_elements(self, view: NodeView) -> Term | None:
        """Return the data with axes of size 1 inserted if each element of a GatherND is the one at its own place."""
        data, indices = view.inputs
        shape, own = self._shape(indices), self._shape(data)
        if data is None or indices is None or not shape or own is None or view.integer("batch_dims", 0) != 0:
            return None
        parts = indices.inputs if indices.op == "Concat" and indices.attr("axis") == -1 else (indices,)
        if len(parts) != shape[-1] or len(parts) > len(own):
            return None
        selected = []
        for part, size in zip(parts, own, strict=False):
            element, whole = None if part is None else self.element(part), self._shape(part)
            axes = [axis for axis in range(len(shape) - 1) if element == symbol(f"i!{axis}")]
            if not axes or whole is None or whole[:-1] != shape[:-1] or whole[-1] != 1 or shape[axes[0]] != size:
                return None
            selected += axes
        new = [axis for axis in range(len(shape) - 1) if axis not in selected]
        if selected != sorted(set(selected)) or any(shape[axis] != 1 for axis in new):
            return None
        rank = len(shape) - 1 + len(own) - len(parts)
        return make("Unsqueeze", (data,), {"axes": tuple(axis - rank for axis in new)}) if new else data

    def _and(self, view: NodeView) -> Term | None:
        """Return an operand of And, with axes of size 1 as long as the other's, if all of the other is true."""
        for truth, other in (view.inputs, view.inputs[::-1]):
            shape, own = self._shape(truth), self._shape(other)
            if truth not in self._all_true or other is None or shape is None or own is None:
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


def _length(element: Size) -> int:
    """Return the number of factors in all products of a polynomial, and one for each product."""
    return 1 if isinstance(element, int) else sum(1 + len(product) for product, _ in element.terms)


def _integers(value: Attr) -> tuple[int, ...]:
    return tuple(one for one in value if isinstance(one, int)) if isinstance(value, tuple) else ()


_Rule = Callable[[Coordinates, Term, Sequence[Term]], "Size | None"]
_ELEMENTS: dict[str, _Rule] = {
    "ai.onnx::Range": Coordinates._range,
    "Unsqueeze": Coordinates._unsqueezed,
    "Squeeze": Coordinates._squeezed,
    "Expand": Coordinates._broadcast,
    "Add": Coordinates._sum,
    "Mul": Coordinates._product,
}
_NODES: dict[str, Callable[[Coordinates, NodeView], Term | None]] = {
    "Gather": Coordinates._gathered,
    "GatherND": Coordinates._gathered_elements,
    "And": Coordinates._and,
}
