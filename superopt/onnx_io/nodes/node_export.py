"""The state of one term's export: names, attributes and constant inputs of the node to be written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from superopt.evaluate import numpy_dtype
from superopt.ir.dim import Dim, Sizes
from superopt.ir.term import Term
from superopt.onnx_io.model import Array, ModelError
from superopt.onnx_io.size_arithmetic import SizeArithmetic
from superopt.properties import joins

__all__ = ["Constants", "Exporter", "NodeExport", "front_axes", "is_free", "operand_shape"]

# Gives the name of a constant input that holds an array of an element type.
Constants: TypeAlias = Callable[[Array, str], str]


@dataclass
class NodeExport:
    """A term about to be written at `opset`: `inputs` and `outputs` are names; parameters append to `inputs`."""

    term: Term
    opset: int
    inputs: list[str]
    outputs: Sequence[str]
    attrs: dict[str, Any]
    constants: Constants
    sizes: SizeArithmetic

    @property
    def dtype(self) -> str:
        """Element type of the result."""
        return self.term.type.dtype if self.term.type is not None else "float"

    def node(self, op: str = "", domain: str = "", **attributes: Any) -> onnx.NodeProto:
        """Return the node, under the term's own name unless `op` is given.

        Raises ModelError if an attribute has a free size.
        """
        for name, value in attributes.items():
            if is_free(value):
                raise ModelError(f"{self.term.op} takes {name} = {value} as a number only, and the size is free")
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        return helper.make_node(op or self.term.op, self.inputs, self.outputs, domain=domain or None, **attributes)

    def append(self, value: object, dtype: str = "int64") -> None:
        """Append an input of this value: a constant, or sizes that are computed if one of them is free."""
        if not is_free(value):
            self.inputs.append(self.constants(np.array(value, numpy_dtype(dtype)), dtype))
        elif isinstance(value, (list, tuple)):
            self.inputs.append(self.sizes.vector(value))
        else:
            assert isinstance(value, Dim)
            self.inputs.append(self.sizes.scalar(value))

    def front_axes(self, axes: Sequence[int]) -> list[int]:
        """Return `axes` counted from the front."""
        return front_axes(self.term, axes, self.opset)


def is_free(value: object) -> bool:
    """Return True if a size in `value` is not a number."""
    return any(map(is_free, value)) if isinstance(value, (list, tuple)) else isinstance(value, Dim)


def operand_shape(term: Term) -> Sizes | None:
    """Return the shape of the term's first input, or None if it is unknown."""
    operand = term.inputs[0] if term.inputs else None
    return None if operand is None or operand.type is None else operand.type.shape


Exporter: TypeAlias = Callable[[NodeExport], list[onnx.NodeProto]]


def front_axes(term: Term, axes: Sequence[int], opset: int) -> list[int]:
    """Return `axes` counted from the front if the rank is known.

    ONNX Runtime's optimizations look for axis 1, not for -3 (otherwise its blocked layout ends at every Concat).
    Opsets before 11 have no negative axes at all. Raises ModelError for such an opset if the rank is unknown.
    """
    same = term.inputs if joins(term.op) else term.inputs[:1]
    ranks = [i.type.rank for i in same if i is not None and i.type is not None and i.type.rank is not None]
    if joins(term.op) and term.type is not None and term.type.rank is not None:
        ranks.append(term.type.rank)
    if not ranks and opset >= 11:
        return list(axes)
    if not ranks:
        raise ModelError(f"{term.op}: its rank is unknown, and opset {opset} has no negative axes (new in 11)")
    rank = ranks[0] + (len(axes) if term.op == "Unsqueeze" else 0)
    return [axis % rank for axis in axes]
