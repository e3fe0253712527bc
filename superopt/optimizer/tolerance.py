"""The number of roundings in a model, from which the tolerance of its outputs follows (`superopt.runtime.compare`)."""

from __future__ import annotations

import math

import onnx
from onnx import TensorProto, helper

from superopt.evaluate import numpy_dtype
from superopt.ir.types import FLOAT_DTYPES
from superopt.onnx_io import Model
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.onnx_io.schemas import DEFAULT_DOMAINS
from superopt.onnx_io.subgraphs import all_nodes
from superopt.ops.recurrent import RECURRENT
from superopt.properties import is_linear_product, is_matrix_product
from superopt.runtime import Tolerance, unit_roundoff

__all__ = ["derive_tolerance"]

# Assumed length of a sum whose operands are both computed at run time, so that no weight shows its length.
_ASSUMED_LENGTH = 256
# Operators whose sums have this length, besides reductions: their axes are no weight's, or any.
_ASSUMED = frozenset({"Einsum", "LayerNormalization", "LogSoftmax", "Softmax"})
# Operators without a definition here that add up products.
_CONVOLUTIONS = frozenset({"ConvInteger", "QLinearConv"})
_MATRIX_PRODUCTS = frozenset({"MatMulInteger", "QLinearMatMul"})
_QUANTIZED = frozenset({*_CONVOLUTIONS, *_MATRIX_PRODUCTS})
_QUANTIZED_ROUNDOFF = 2.0**-8  # of eight bits
_REAL = (TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
_RECURRENT = frozenset({"RNN", *RECURRENT})


def derive_tolerance(model: onnx.ModelProto, terms: Model | None = None) -> Tolerance:
    """Return the tolerance with D, L and P of `model`, each along the path where it is largest.

    `terms`, the model as it was read, has the types to which results are rounded; without it, those of the outputs
    count. Bodies of control flow count as one operator, however often they run. That may be too strict, never too wide.
    """
    shapes = {i.name: tuple(i.dims) for i in model.graph.initializer}
    for node in model.graph.node:
        if is_constant_node(node):
            for attribute in node.attribute:
                if attribute.name == "value":
                    shapes[node.output[0]] = tuple(attribute.t.dims)
    depth: dict[str, int] = {}
    length: dict[str, int] = {}
    products: dict[str, int] = {}
    squares: dict[str, float] = {}  # of the unit roundoffs
    stated = {} if terms is None else _stated_roundoffs(terms)
    roundoffs = dict(stated)
    for _ in range(2):  # nodes may be in any order: a second pass sees the producers that follow their users
        for node in model.graph.node:
            reached = 1 + max((depth.get(i, 0) for i in node.input), default=0)
            summed = _summands(node, shapes) + max((length.get(i, 0) for i in node.input), default=0)
            depth.update(dict.fromkeys(node.output, reached))
            length.update(dict.fromkeys(node.output, summed))
            multiplied = _is_product(node) + max((products.get(i, 0) for i in node.input), default=0)
            products.update(dict.fromkeys(node.output, multiplied))
            # A value that the reading left out is one of the operands, or its node was not read: it has their type.
            inherited, before = (max((of.get(i, 0.0) for i in node.input), default=0.0) for of in (roundoffs, squares))
            for name in node.output if node.input else ():
                roundoffs[name] = stated.get(name, inherited)
                squares[name] = before + roundoffs[name] ** 2
    outputs = [value.name for value in model.graph.output]
    return Tolerance(
        max((depth.get(name, 0) for name in outputs), default=0) + 1,
        max((length.get(name, 0) for name in outputs), default=0) + 1,
        coarsest=_coarsest(model.graph),
        products=max((products.get(name, 0) for name in outputs), default=0),
        rounded=math.sqrt(max((squares.get(name, 0.0) for name in outputs), default=0.0)),
    )


def _stated_roundoffs(terms: Model) -> dict[str, float]:
    """Return the unit roundoffs of the types of values, by name; 0 for types without roundings."""
    named = [*terms.names.items(), *((leaf, str(leaf.attr("name"))) for leaf in terms.inputs)]
    return {name: _roundoff_of(term.type.dtype) for term, name in named if term.type is not None}


def _is_product(node: onnx.NodeProto) -> bool:
    """Return True if a CUDA provider may take sums of products of `node` in TF32."""
    op, standard = node.op_type, node.domain in DEFAULT_DOMAINS
    return not standard or op in _RECURRENT or op == "Einsum" or is_linear_product(op) or is_matrix_product(op)


def _coarsest(graph: onnx.GraphProto) -> float:
    """Return the largest unit roundoff of the element types of `graph`; half a step where it quantizes."""
    found = 0.0
    for node in all_nodes(graph):
        if "Quantize" in node.op_type or node.op_type in _QUANTIZED:
            found = max(found, _QUANTIZED_ROUNDOFF)
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to":
                found = max(found, _roundoff(attribute.i))
    tensors = [tensor.data_type for tensor in graph.initializer]
    types = [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    return max(found, *map(_roundoff, (*tensors, *types)), 0.0)


def _roundoff_of(dtype: str) -> float:
    return unit_roundoff(numpy_dtype(dtype)) if dtype in FLOAT_DTYPES else 0.0


def _roundoff(elem_type: int) -> float:
    return unit_roundoff(helper.tensor_dtype_to_np_dtype(elem_type)) if elem_type in _REAL else 0.0


def _summands(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> int:
    """Number of products that are summed for one element of the output."""
    op, standard = node.op_type, node.domain in DEFAULT_DOMAINS
    if op in _ASSUMED or op.startswith("Reduce"):
        return _ASSUMED_LENGTH
    if op in _CONVOLUTIONS or (standard and is_linear_product(op) and not is_matrix_product(op)):
        weight = next((shapes[i] for i in node.input[1:] if len(shapes.get(i, ())) > 2), None)
        return math.prod(weight[1:]) if weight else _ASSUMED_LENGTH
    if op in _MATRIX_PRODUCTS or (standard and is_matrix_product(op)):
        matrices = [shapes[i] for i in node.input if len(shapes.get(i, ())) >= 2]
        return max(matrices[0][-2:]) if matrices else _ASSUMED_LENGTH
    if op in _RECURRENT:
        matrices = [shapes[i] for i in node.input if len(shapes.get(i, ())) >= 3]
        return sum(shape[-1] for shape in matrices) or _ASSUMED_LENGTH
    return 1
