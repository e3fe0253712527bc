"""Access to a node's attributes and inputs for the importers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper

from superopt.ir.dim import Sizes
from superopt.ir.term import Attr, Term
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, OpSchema, formal_input, schema_of

__all__ = ["Canonical", "NodeView", "Unreadable", "distinct", "negative"]


class Unreadable(Exception):
    """Raised for a node that has no canonical form; it stays opaque."""


@dataclass(frozen=True)
class Canonical:
    """A node in canonical form: an operator of the registry, its operands and its attributes."""

    op: str
    inputs: tuple[Term | None, ...]
    attrs: Mapping[str, Attr]


@dataclass(frozen=True)
class NodeView:
    """A node with access to its attributes and constant inputs; `inputs` without trailing absent ones.

    `used` collects the names of the attributes that were read, so that the remaining ones can be checked.
    """

    node: onnx.NodeProto
    opset: int
    inputs: tuple[Term | None, ...]
    outputs: int
    out_shape: Sizes | None  # of the first output, as far as ONNX infers it
    value: Callable[[Term], np.ndarray[Any, np.dtype[Any]] | None]  # the value of a constant input
    used: set[str] = field(default_factory=set)

    @property
    def schema(self) -> OpSchema | None:
        """Schema of the operator in the node's opset; None for operators that ONNX does not define."""
        return schema_of(self.node.op_type, self.opset) if self.node.domain in DEFAULT_DOMAINS else None

    def shape(self, index: int) -> Sizes | None:
        """Return the shape of input `index`, or None if the input is absent or its shape is unknown."""
        term = self.inputs[index] if index < len(self.inputs) else None
        return term.type.shape if term is not None and term.type is not None else None

    def dtype(self, index: int) -> str | None:
        """Return the element type of input `index`, or None if the input is absent or its type is unknown."""
        term = self.inputs[index] if index < len(self.inputs) else None
        return None if term is None or term.type is None else term.type.dtype

    @property
    def rank(self) -> int:
        """Rank of the first input. Raises Unreadable if it is unknown."""
        shape = self.shape(0)
        if shape is None:
            raise Unreadable("rank")
        return len(shape)

    def integer(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        return int(self.attribute(name, AttributeProto.INT, default))

    def real(self, name: str, default: float) -> float:
        """Return a real attribute: the float32 in the file, or the default as a float32."""
        return float(self.attribute(name, AttributeProto.FLOAT, float(np.float32(default))))

    def text(self, name: str, default: str) -> str:
        """Return a text attribute."""
        value = self.attribute(name, AttributeProto.STRING, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return a list of integers, or None if the attribute is absent."""
        value = self.attribute(name, AttributeProto.INTS, None)
        return None if value is None else tuple(map(int, value))

    def reals(self, name: str) -> list[float] | None:
        """Return a list of real numbers, or None if the attribute is absent."""
        value = self.attribute(name, AttributeProto.FLOATS, None)
        return None if value is None else list(value)

    def attribute(self, name: str, kind: int, default: Any) -> Any:
        """Return the value of an attribute, or `default`. Raises Unreadable if it is not of `kind` or not finite."""
        self.used.add(name)
        for attribute in self.node.attribute:
            if attribute.name == name:
                numbers = (attribute.f, *attribute.floats)
                if attribute.type != kind or attribute.ref_attr_name or not all(map(math.isfinite, numbers)):
                    raise Unreadable(name)
                return helper.get_attribute_value(attribute)
        return default

    def array_input(self, index: int) -> np.ndarray[Any, np.dtype[Any]] | None:
        """Return the value of a constant input, or None if it is absent. Raises Unreadable if it is not constant."""
        term = self.inputs[index] if index < len(self.inputs) else None
        if term is None:
            return None
        array = self.value(term)
        if array is None:
            raise Unreadable(f"input {index}")
        return array

    def list_input(self, index: int, ranks: Sequence[int] = (1,)) -> tuple[int, ...] | None:
        """Return the integers of a constant input, or None if it is absent.

        Raises Unreadable if the input is not constant, or its rank is not among `ranks`.
        """
        array = self.array_input(index)
        if array is not None and (array.dtype.kind not in "iu" or array.ndim not in ranks):
            raise Unreadable(f"input {index}")
        return None if array is None else tuple(map(int, array.reshape(-1)))

    def integer_input(self, index: int) -> int | None:
        """Return the integer of a constant input: a scalar, or a list of one, which runtimes accept as well.

        None if the input is absent. Raises Unreadable if it is not constant, or not one integer.
        """
        values = self.list_input(index, (0, 1))
        if values is not None and len(values) != 1:
            raise Unreadable(f"input {index}")
        return None if values is None else values[0]

    def parameter(self, name: str) -> tuple[int, ...] | None:
        """Return a list that is an attribute in some opsets and a constant input in others, or None if it is absent."""
        index = None if self.schema is None else formal_input(self.schema, name)
        return self.integers(name) if index is None else self.list_input(index)


def negative(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return `axes` counted from the end. Raises Unreadable for an axis outside `rank`."""
    if any(not -rank <= axis < rank for axis in axes):
        raise Unreadable("axes")
    return tuple(axis - rank if axis >= 0 else axis for axis in axes)


def distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return `axes`. Raises Unreadable if an axis is repeated."""
    if len(set(axes)) != len(axes):
        raise Unreadable("axes")
    return axes
