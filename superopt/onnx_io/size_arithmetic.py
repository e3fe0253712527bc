"""Sizes that a written model computes at run time, from the shapes of tensors that it has by then.

A rewritten operator may need a free size as a number, for example as the target of a Reshape. Such a size is a
polynomial of symbols. A symbol is a size of some tensor: of an input of the graph, or of the operator that a size comes
from (NonZero). Nodes of the same operator over the same inputs are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import onnx

from superopt.ir.dim import Atom, Dim, Quotient, Size, Sizes, symbol
from superopt.ir.types import TensorType
from superopt.onnx_io.model import Array, ModelError
from superopt.onnx_io.static_values import is_never_negative

__all__ = ["Emit", "SizeArithmetic"]

# Appends a node of this operator with these inputs and attributes to the model; returns the name of its output.
Emit: TypeAlias = Callable[[str, Sequence[str], dict[str, int]], str]

_FIRST_SHAPE_WITH_RANGE = 15  # opset
_FIRST_MOD = 10  # opset
_INTEGER = onnx.AttributeProto.INT


class SizeArithmetic:
    """Nodes for sizes, made by `emit`. `constant` gives the name of a constant tensor."""

    def __init__(self, opset: int, emit: Emit, constant: Callable[[Array, str], str]) -> None:
        self._opset, self._emit, self._constant = opset, emit, constant
        self._places: dict[Dim, tuple[str, int, int]] = {}  # a size: tensor, axis and rank, of the first that has it
        self._made: dict[tuple[object, ...], str] = {}

    def learn(self, name: str, type: TensorType | None) -> None:
        """Record that the tensor called `name` may be read from here on."""
        shape: Sizes = () if type is None or type.shape is None else type.shape
        for axis, size in enumerate(shape):
            if isinstance(size, Dim):
                self._places.setdefault(size, (name, axis, len(shape)))

    def reuse(self, node: onnx.NodeProto) -> None:
        """Record a node of the model: one that is asked for later and computes the same is not written."""
        if not node.domain and len(node.output) == 1 and all(a.type == _INTEGER for a in node.attribute):
            attributes = sorted((a.name, a.i) for a in node.attribute)
            self._made.setdefault((node.op_type, *node.input, *attributes), node.output[0])

    def vector(self, sizes: Sequence[Size]) -> str:
        """Return the name of a list of integers that has these values. Raises ModelError if a size is not available."""
        parts: list[str] = []
        at = 0
        while at < len(sizes):
            end = at + 1
            while end < len(sizes) and self._source(sizes[end]) == self._source(sizes[at]) != "":
                end += 1
            parts.append(self._part(sizes[at:end]))
            at = end
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, axis=0)

    def scalar(self, size: Size) -> str:
        """Return the name of a tensor of rank 0 with the value `size`. Raises ModelError if it is not available."""
        return self.node("Squeeze", [self.vector([size])])

    def _source(self, size: Size) -> str | None:
        """Return the tensor that has the size, None for a number, or an empty text for a size to be computed."""
        return self._places.get(size, ("", 0, 0))[0] if isinstance(size, Dim) else None

    def _part(self, sizes: Sequence[Size]) -> str:
        """Return the name of a list of numbers, of sizes of one tensor, or of one size to be computed."""
        numbers = [size for size in sizes if isinstance(size, int)]
        if len(numbers) == len(sizes):
            return self._numbers(*numbers)
        places = [self._places[size] for size in sizes if isinstance(size, Dim) and size in self._places]
        if not places:
            return self._computed(sizes[0])
        name, _, rank = places[0]
        axes = [axis for _, axis, _ in places]
        if axes == list(range(rank)):
            return self.node("Shape", [name])
        if self._opset >= _FIRST_SHAPE_WITH_RANGE and axes == list(range(axes[0], axes[-1] + 1)):
            return self.node("Shape", [name], start=axes[0], end=axes[-1] + 1)
        return self.node("Gather", [self.node("Shape", [name]), self._numbers(*axes)], axis=0)

    def _computed(self, size: Size) -> str:
        """Return the name of a list with the one value `size`, a sum of products."""
        if isinstance(size, int) or size in self._places:
            return self._part([size])
        total = ""
        for product, count in sorted(size.terms, key=lambda term: term[1] < 0):  # so that no sum begins with a minus
            factors = [self._atom(atom) for atom in product]
            if not factors or abs(count) != 1 or (count < 0 and not total):
                factors.append(self._numbers(abs(count) if total else count))
            value = factors[0]
            for factor in factors[1:]:
                value = self.node("Mul", [value, factor])
            total = self.node("Sub" if count < 0 else "Add", [total, value]) if total else value
        return total

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, str):
            return self._symbol(symbol(atom))
        assert isinstance(atom, Quotient)  # no size is an element of a tensor
        numerator, denominator = self._computed(atom.numerator), self._computed(atom.denominator)
        if not is_never_negative(atom.numerator):  # ONNX's Div rounds towards zero, a quotient of sizes down
            if self._opset < _FIRST_MOD:
                raise ModelError(f"opset {self._opset} has no Mod (new in {_FIRST_MOD}), to compute the size {atom}")
            remainder = self.node("Mod", [numerator, denominator])
            numerator = self.node("Sub", [numerator, remainder])
        return self.node("Div", [numerator, denominator])

    def _symbol(self, size: Dim) -> str:
        """Return the name of a list with the one value of a symbol, by solving c * symbol + d if no tensor has it."""
        if size in self._places:
            return self._part([size])
        for dim in self._places:
            terms = dict(dim.terms)
            factor, rest = terms.pop(size.terms[0][0], 0), terms.pop((), 0)
            if factor and not terms:
                value = self._part([dim])
                value = self.node("Sub", [value, self._numbers(rest)]) if rest else value
                return self.node("Div", [value, self._numbers(factor)]) if factor != 1 else value
        raise ModelError(f"the size {size} is needed before a tensor has it")

    def _numbers(self, *values: int) -> str:
        return self._constant(np.array(values, np.int64), "int64")

    def node(self, op: str, inputs: Sequence[str], **attributes: int) -> str:
        """Return the name of the operator's result. There is one node for all that ask for the same."""
        key = (op, *inputs, *sorted(attributes.items()))
        if key not in self._made:
            self._made[key] = self._emit(op, inputs, attributes)
        return self._made[key]
