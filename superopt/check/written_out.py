"""Operators that stand for several others, written out as these, so that a model reads alike before and after fusion.

ONNX Runtime makes operators on quantized numbers of DequantizeLinear, an operator on real numbers and QuantizeLinear,
or of an integer product and what scales it. Over real numbers they are equal; how they round is compared by runs of the
files as they are. It also writes LayerNormalization into models of operator sets that lack it. Sources: QLinearConv,
QLinearMatMul and LayerNormalization of the ONNX specification, and the page of contrib operators of ONNX Runtime.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import onnx
from onnx import NodeProto, TensorProto, helper

from superopt.onnx_io.functions import domain_of, key_of
from superopt.onnx_io.schemas import opset_of
from superopt.onnx_io.subgraphs import local_names

__all__ = ["needs_writing_out", "written_out"]

_PER_AXIS = 13  # the first operator set whose DequantizeLinear has scales along an axis
_NORMALIZES = 17  # the first operator set with LayerNormalization


class _Unwritten(Exception):
    """A node that stays as it is."""


class _Writing:
    """The nodes that stand for one node."""

    def __init__(self, node: NodeProto, fresh: Iterator[str], opset: int) -> None:
        self.node, self._fresh, self._opset = node, fresh, opset
        self.nodes: list[NodeProto] = []

    def input(self, index: int) -> str:
        """Return the name of an input, or "" if it is absent."""
        return self.node.input[index] if index < len(self.node.input) else ""

    def attributes(self, *without: str) -> list[onnx.AttributeProto]:
        return [attribute for attribute in self.node.attribute if attribute.name not in without]

    def add(self, op: str, inputs: Iterable[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Add a node and return the names of its outputs."""
        names = [next(self._fresh) for _ in range(outputs)]
        inputs = list(inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names

    def real(self, first: int, axis: int = 1) -> str:
        """Return the real numbers of three inputs: quantized ones, scale and zero point."""
        return self.add("DequantizeLinear", [self.input(first + k) for k in range(3)], **self.along(axis))[0]

    def along(self, axis: int) -> dict[str, int]:
        """Return the attributes of a DequantizeLinear for scales along an axis. Older ones take numbers only."""
        return {"axis": axis} if self._opset >= _PER_AXIS else {}

    def quantized(self, real: str, first: int) -> str:
        """Return real numbers quantized by two inputs: scale and zero point. Raises _Unwritten without the latter.

        Then QuantizeLinear gives uint8, and the fused operator the type of its operand.
        """
        if not self.input(first + 1):
            raise _Unwritten
        return self.add("QuantizeLinear", [real, self.input(first), self.input(first + 1)])[0]

    def scaled(self, product: str, scales: Iterable[str], bias: str) -> str:
        """Return an integer product as real numbers: times both scales, plus a bias if there is one."""
        factor = self.add("Mul", scales)[0]
        result = self.add("Mul", [self.add("Cast", [product], to=TensorProto.FLOAT)[0], factor])[0]
        return self.add("Add", [result, bias])[0] if bias else result


def _layer_normalization(w: _Writing) -> str:
    """Write d / sqrt(mean(d^2) + epsilon) * scale + bias, with d = x - mean(x)."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in w.node.attribute}
    axes = [*range(given.get("axis", -1), 0)]
    x = w.input(0)
    centred = w.add("Sub", [x, w.add("ReduceMean", [x], axes=axes)[0]])[0]
    square = w.add("Mul", [centred, centred])[0]
    epsilon = w.add("Constant", [], value_float=given.get("epsilon", 1e-5))[0]
    variance = w.add("Add", [w.add("ReduceMean", [square], axes=axes)[0], epsilon])[0]
    result = w.add("Div", [centred, w.add("Sqrt", [variance])[0]])[0]
    result = w.add("Mul", [result, w.input(1)])[0]
    return w.add("Add", [result, w.input(2)])[0] if w.input(2) else result


def _unary(op: str) -> Callable[[_Writing], str]:
    def write(w: _Writing) -> str:
        result = w.add(op, [w.real(0)])[0]
        w.nodes[-1].attribute.extend(w.attributes("channels_last"))
        return w.quantized(result, 3)

    return write


def _binary(op: str) -> Callable[[_Writing], str]:
    return lambda w: w.quantized(w.add(op, [w.real(0), w.real(3)])[0], 6)


def _matrix_product(w: _Writing) -> str:
    return w.quantized(w.add("MatMul", [w.real(0), w.real(3, axis=-1)])[0], 6)


def _convolution(w: _Writing) -> str:
    operands = [w.real(0), w.real(3, axis=0)]
    if bias := w.input(8):  # integers in units of the product of both scales
        operands += w.add("DequantizeLinear", [bias, w.add("Mul", [w.input(1), w.input(4)])[0]], **w.along(0))
    result = w.add("Conv", operands)[0]
    w.nodes[-1].attribute.extend(w.attributes("channels_last"))
    return w.quantized(result, 6)


def _product_to_real(w: _Writing) -> str:
    product = w.add("MatMulInteger", [w.input(k) for k in (0, 1, 4, 5)])[0]
    return w.scaled(product, [w.input(2), w.input(3)], w.input(6))


def _product_of_real(w: _Writing) -> str:
    numbers, scale, zero = w.add("DynamicQuantizeLinear", [w.input(0)], outputs=3)
    product = w.add("MatMulInteger", [numbers, w.input(1), zero, w.input(3)])[0]
    return w.scaled(product, [scale, w.input(2)], w.input(4))


_WRITERS: Mapping[tuple[str, str], Callable[[_Writing], str]] = {
    ("", "QLinearConv"): _convolution,
    ("", "QLinearMatMul"): _matrix_product,
    ("com.microsoft", "DynamicQuantizeMatMul"): _product_of_real,
    ("com.microsoft", "MatMulIntegerToFloat"): _product_to_real,
    ("com.microsoft", "QLinearAdd"): _binary("Add"),
    ("com.microsoft", "QLinearConv"): _convolution,
    ("com.microsoft", "QLinearGlobalAveragePool"): _unary("GlobalAveragePool"),
    ("com.microsoft", "QLinearLeakyRelu"): _unary("LeakyRelu"),
    ("com.microsoft", "QLinearMul"): _binary("Mul"),
    ("com.microsoft", "QLinearSigmoid"): _unary("Sigmoid"),
}


def needs_writing_out(model: onnx.ModelProto) -> bool:
    """Return True if the graph of a model has such operators. (Bodies are left as they are.)"""
    writer = _writer_of(model)
    return any(map(writer, model.graph.node))


def written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model with each such operator written out, under names that the model does not have."""
    found = onnx.ModelProto()
    found.CopyFrom(model)
    graph = found.graph
    taken = local_names(graph)
    fresh = (name for k in itertools.count() if (name := f"written_out_{k}") not in taken)
    opset, writer_of = opset_of(model), _writer_of(model)
    nodes: list[NodeProto] = []
    for node in graph.node:
        writer = writer_of(node)
        if writer is None:
            nodes.append(node)
            continue
        writing = _Writing(node, fresh, opset)
        try:
            writer(writing)
        except _Unwritten:
            nodes.append(node)
            continue
        writing.nodes[-1].output[0] = node.output[0]
        nodes += writing.nodes
    del graph.node[:]
    graph.node.extend(nodes)
    return found


def _writer_of(model: onnx.ModelProto) -> Callable[[NodeProto], Callable[[_Writing], str] | None]:
    """Return a function that gives what writes a node out, or None. What a file defines itself stays as it is."""
    opset, functions = opset_of(model), set(map(key_of, model.functions))

    def writer(node: NodeProto) -> Callable[[_Writing], str] | None:
        if key_of(node) in functions:
            return None
        integers = {attribute.name: attribute.i for attribute in node.attribute}
        if domain_of(node) == "" and node.op_type == "LayerNormalization":
            is_plain = integers.get("axis", -1) < 0 and not any(node.output[1:])
            return _layer_normalization if opset < _NORMALIZES and is_plain else None
        return None if integers.get("channels_last") else _WRITERS.get((domain_of(node), node.op_type))

    return writer
