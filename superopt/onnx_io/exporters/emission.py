"""What a family's emitter works with: the node to be, and its constant inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from superopt.evaluate import numpy_dtype
from superopt.ir.term import Term
from superopt.onnx_io.model import Array, ModelError

__all__ = ["Constants", "Emission", "Emitter", "front_axes", "reals"]

# Name of a constant input that holds an array of an element type.
Constants: TypeAlias = Callable[[Array, str], str]


@dataclass
class Emission:
    """A term about to be written at `opset`: `inputs` and `outputs` are names; parameters append to `inputs`."""

    term: Term
    opset: int
    inputs: list[str]
    outputs: Sequence[str]
    attrs: dict[str, Any]
    constants: Constants

    @property
    def dtype(self) -> str:
        """The element type of the result."""
        return self.term.type.dtype if self.term.type is not None else "float"

    def node(self, op: str = "", domain: str = "", **attributes: Any) -> list[onnx.NodeProto]:
        """The node, under the term's own name unless `op` is given."""
        return [helper.make_node(op or self.term.op, self.inputs, self.outputs, domain=domain or None, **attributes)]

    def parameter(self, name: str, value: Sequence[int], since: int) -> dict[str, Any]:
        """An attribute before opset `since`, one more constant input from then on."""
        if self.opset < since:
            return {name: list(value)}
        self.inputs.append(self.constants(np.array(value, np.int64), "int64"))
        return {}

    def scalar(self, value: float, dtype: str | None = None) -> None:
        """One more constant input: a scalar of the element type of the result, or of `dtype`."""
        dtype = dtype or self.dtype
        self.inputs.append(self.constants(np.array(value, numpy_dtype(dtype)), dtype))

    def needs(self, opset: int) -> None:
        """Raises ModelError where the operator is newer than the model's opset."""
        if self.opset < opset:
            raise ModelError(f"opset {self.opset} has no {self.term.op} (new in {opset})")


Emitter: TypeAlias = Callable[[Emission], list[onnx.NodeProto]]


def reals(attrs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The attributes, those that are named as floats."""
    return {name: float(value) if name in names else value for name, value in attrs.items()}


def front_axes(term: Term, axes: Sequence[int], opset: int) -> list[int]:
    """`axes` counted from the front where the rank is known. ONNX Runtime's optimizations look for axis 1, not for
    -3 (its blocked layout would be left at every Concat), and opsets before 11 have no negative axes."""
    same = term.inputs if term.op == "Concat" else term.inputs[:1]
    ranks = [i.type.rank for i in same if i is not None and i.type is not None and i.type.rank is not None]
    if term.op == "Concat" and term.type is not None and term.type.rank is not None:
        ranks.append(term.type.rank)
    if not ranks and opset >= 11:
        return list(axes)
    if not ranks:
        raise ModelError(f"{term.op}: rank not known, and opset {opset} has no negative axes")
    rank = ranks[0] + (len(axes) if term.op == "Unsqueeze" else 0)
    return [axis % rank for axis in axes]
