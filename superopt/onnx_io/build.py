"""Construction of models from terms alone, without a file: regions to measure, operators to test."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx
from onnx import TensorProto, helper

from superopt.ir.term import Term, topological
from superopt.ir.types import TensorType
from superopt.onnx_io.model import Array, Model, ModelError

__all__ = ["new_model", "value_info"]


def new_model(
    outputs: Iterable[Term],
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = 17,
    extra_opsets: Mapping[str, int] | None = None,
) -> Model:
    """Return a model whose inputs are the variables below `outputs`, in topological order; its outputs are y0, y1, ...

    All variables and outputs must be tensors of known rank. Raises ModelError otherwise.
    """
    outputs = tuple(outputs)
    inputs = tuple(term for term in topological(outputs) if term.op == "Var")
    taken = {str(term.attr("name")) for term in inputs}
    prefix = "y"
    while any(f"{prefix}{k}" in taken for k in range(len(outputs))):
        prefix += "_"
    graph = helper.make_graph(
        [],
        "superopt",
        [value_info(str(term.attr("name")), term.type) for term in inputs],
        [value_info(f"{prefix}{k}", term.type) for k, term in enumerate(outputs)],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in {"": opset, **(extra_opsets or {})}.items()]
    skeleton = helper.make_model(graph, opset_imports=imports, ir_version=_ir_version(opset))
    return Model(outputs=outputs, inputs=inputs, weights=dict(weights or {}), skeleton=skeleton)


def _ir_version(opset: int) -> int:
    """Return the oldest version of the format, but at least 8, that has the operator set."""
    table = helper.OP_SET_ID_VERSION_MAP
    return max(8, table.get(("ai.onnx", opset), onnx.IR_VERSION))


def value_info(name: str, type: TensorType | None) -> onnx.ValueInfoProto:
    """Return the declaration of an input or output. Raises ModelError if its type is unknown."""
    if type is None or type.shape is None:
        raise ModelError(f"{name}: its type is unknown; make the term of typed variables")
    shape = [size if isinstance(size, int) else str(size) for size in type.shape]
    return helper.make_tensor_value_info(name, TensorProto.DataType.Value(type.dtype.upper()), shape)
