"""A node as the readers of its family see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import AttributeProto, helper

from superopt.ir.dim import Sizes
from superopt.ir.term import Attr, Term

__all__ = ["ANY", "Canonical", "NodeView", "Reader", "Row", "Unreadable", "distinct", "negative", "plain", "rank"]

ANY = 1 << 30


@dataclass(frozen=True)
class Canonical:
    """What a node is in the table's terms."""

    op: str
    inputs: tuple[Term | None, ...]
    attrs: Mapping[str, Attr]


@dataclass(frozen=True)
class NodeView:
    """A node as the functions below see it: `inputs` without trailing absent ones, `value` for constant inputs."""

    node: onnx.NodeProto
    opset: int
    inputs: tuple[Term | None, ...]
    outputs: int
    out_shape: Sizes | None  # of the first output, as far as ONNX infers it
    value: Callable[[Term], np.ndarray[Any, np.dtype[Any]] | None]

    def shape(self, index: int) -> Sizes | None:
        """Shape of input `index`, None where it is absent or not known."""
        term = self.inputs[index] if index < len(self.inputs) else None
        return term.type.shape if term is not None and term.type is not None else None

    def integer(self, name: str, default: int) -> int:
        """An integer attribute."""
        return int(self._attribute(name, AttributeProto.INT, default))

    def real(self, name: str, default: float) -> float:
        """A real attribute: the float32 in the file, or the default as a float32."""
        return float(self._attribute(name, AttributeProto.FLOAT, float(np.float32(default))))

    def text(self, name: str, default: str) -> str:
        """A text attribute."""
        value = self._attribute(name, AttributeProto.STRING, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of integers, or None where the attribute is absent."""
        value = self._attribute(name, AttributeProto.INTS, None)
        return None if value is None else tuple(map(int, value))

    def _attribute(self, name: str, kind: int, default: Any) -> Any:
        for attribute in self.node.attribute:
            if attribute.name == name:
                if attribute.type != kind:
                    raise Unreadable(name)
                return helper.get_attribute_value(attribute)
        return default

    def list_input(self, index: int, ranks: Sequence[int] = (1,)) -> tuple[int, ...] | None:
        """The integers of a constant input; None where it is absent. Raises Unreadable where it is not constant, or no
        list (`ranks` says what else it may be)."""
        term = self.inputs[index] if index < len(self.inputs) else None
        if term is None:
            return None
        array = self.value(term)
        if array is None or array.dtype.kind not in "iu" or array.ndim not in ranks:
            raise Unreadable(f"input {index}")
        return tuple(map(int, array.reshape(-1)))

    def integer_input(self, index: int) -> int | None:
        """The integer of a constant input, a scalar or a list of one (which runtimes take for it); None where it is
        absent. Raises Unreadable where it is not constant, or not one integer."""
        values = self.list_input(index, (0, 1))
        if values is not None and len(values) != 1:
            raise Unreadable(f"input {index}")
        return None if values is None else values[0]

    def parameters(self, name: str, index: int, since: int) -> tuple[int, ...] | None:
        """A list that is an attribute before opset `since` and input `index` from then on."""
        return self.integers(name) if self.opset < since else self.list_input(index)


class Unreadable(Exception):
    """The node has no canonical form; it stays opaque."""


Reader: TypeAlias = Callable[[NodeView], "dict[str, Attr] | None"]


@dataclass(frozen=True)
class Row:
    """How nodes of one operator type are read: least and most tensor inputs, then the reader of its attributes.

    `parameters`: newer opsets give it further inputs, which become attributes. `op`: its name in the table.
    """

    least: int
    most: int
    read: Reader
    parameters: bool = False
    op: str = ""
    outputs: bool = False  # may have several
    gaps: bool = False  # optional inputs may be absent before others that are present
    places: tuple[int, ...] = ()  # those inputs that the table has; the others must be absent


def negative(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    if any(not -rank <= axis < rank for axis in axes):
        raise Unreadable("axes")
    return tuple(axis - rank if axis >= 0 else axis for axis in axes)


def rank(view: NodeView) -> int:
    shape = view.shape(0)
    if shape is None:
        raise Unreadable("rank")
    return len(shape)


def distinct(axes: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(axes)) != len(axes):
        raise Unreadable("axes")
    return axes


def plain(view: NodeView) -> dict[str, Attr] | None:
    """No attributes."""
    return None if view.node.attribute else {}
