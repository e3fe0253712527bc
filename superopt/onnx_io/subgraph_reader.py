"""Reading of the bodies of If, Loop and Scan as separate models.

The inputs of such a model are the body's inputs and the outer tensors that it captures. An outer constant is a constant
of the model as well; the written body captures it again. The types of a body's inputs come from its node, because
exporters leave out declarations in bodies or get them wrong. The first iteration has the types of the node's inputs.
All iterations share the types that one iteration preserves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx

from superopt.evaluate import evaluate, numpy_dtype
from superopt.ir.term import CLOSED_FORM, Attr, Term, topological
from superopt.ir.types import TensorType
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.model import Array, Model, ModelError
from superopt.onnx_io.simplify import read_simplified
from superopt.onnx_io.subgraphs import captured
from superopt.onnx_io.tensor_types import size_symbol, tensor_type, type_proto
from superopt.onnx_io.tensors import fill_proto

__all__ = ["Body", "BodyKey", "body_interface", "read_bodies"]

# A body is identified by the number of its node (attribute "node" of the term) and the attribute that holds it.
BodyKey: TypeAlias = tuple[int, str]

_FIRST_SCAN_OPSET = 9  # in older opsets Scan has a batch axis
_MAX_TYPE_ROUNDS = 4


@dataclass(frozen=True)
class Body:
    """A body, as the graph in the file and as a model."""

    key: BodyKey
    owner: Term
    graph: onnx.GraphProto
    model: Model
    constants: dict[str, Array]  # captured tensors that are constants


def read_bodies(model: Model) -> Iterator[Body]:
    """Yield the bodies of the nodes of `model` that can be read as models; others are left out."""
    if model.skeleton.ir_version < 4:  # constants would be inputs of the bodies' models
        return
    reserved = model.reserved | set(model.names.values()) | set(model.output_names)
    reserved |= {value.name for value in model.skeleton.graph.input}
    for term in topological(model.outputs):
        if term.op == "Scan" and model.opset < _FIRST_SCAN_OPSET:
            continue
        if term.op in ("If", "Loop", "Scan") and any(name == "captures" for name, _ in term.attrs):
            for attribute in unpack(term.attrs):
                if attribute.HasField("g"):
                    try:
                        found = _read(model, term, attribute, frozenset(reserved))
                    except ModelError:
                        found = None
                    if found is not None:
                        yield found


def _read(model: Model, term: Term, attribute: onnx.AttributeProto, reserved: frozenset[str]) -> Body | None:
    graph, (declared, outer) = attribute.g, body_interface(term)
    proto = onnx.ModelProto(ir_version=model.skeleton.ir_version)
    proto.opset_import.extend(model.skeleton.opset_import)
    proto.functions.extend(model.skeleton.functions)
    proto.graph.CopyFrom(graph)
    for values in (proto.graph.input, proto.graph.output, proto.graph.value_info):
        del values[:]
    # Declared sizes may be those of one iteration; they are inferred below.
    for value in graph.output:
        declared_type = tensor_type(value.type)
        proto.graph.output.append(
            value if declared_type is None else _value_info(value.name, TensorType(declared_type.dtype, None))
        )
    constants: dict[str, Array] = {}
    outer_types: dict[str, TensorType] = {}
    cost_shapes: dict[str, tuple[int, ...] | None] = {}  # sizes for the cost model
    for name in captured(graph):
        tensor = outer[name]
        if tensor.type is None:
            return None
        array = _constant_value(model, tensor)
        if array is not None:
            fill_proto(proto.graph.initializer.add(), array, tensor.type.dtype, name)
            constants[name] = array
        else:
            certain = _proven(model, tensor)
            assert certain is not None
            outer_types[name] = certain
            cost_shapes[name] = model.concrete(tensor.type).concrete()
    types = _first_iteration_types(
        term, [_proven(model, i) if i is not None else None for i in term.inputs[:declared]], graph
    )
    if types is None or not types.keys().isdisjoint(outer_types):
        return None
    claimed = [None if i is None else i.type for i in term.inputs[:declared]]
    for name, type in (_first_iteration_types(term, claimed, graph) or {}).items():
        cost_shapes[name] = model.concrete(type).concrete()
    shapes = {name: shape for name, shape in cost_shapes.items() if shape is not None}
    for _ in range(_MAX_TYPE_ROUNDS):
        del proto.graph.input[:]
        proto.graph.input.extend(_value_info(name, type) for name, type in (*types.items(), *outer_types.items()))
        inner = read_simplified(proto, shapes, reserved=reserved)
        preserved = _preserved_types(term, types, inner)
        if preserved is None:
            return None
        if preserved == types:
            node = term.attr("node")
            assert isinstance(node, int)
            return Body((node, attribute.name), term, graph, inner, constants)
        types = preserved
    return None


def body_interface(term: Term) -> tuple[int, dict[str, Term]]:
    """Return the number of inputs that the node declares, and the outer tensors by their names in its bodies."""
    declared, names = term.attr("declared"), term.attr("captures")
    assert isinstance(declared, int) and isinstance(names, tuple)
    outer: dict[str, Term] = {}
    for name, there in zip(names, term.inputs[declared:], strict=True):
        assert there is not None
        outer[str(name)] = there
    return declared, outer


def _constant_value(model: Model, term: Term) -> Array | None:
    if term.type is None or term.type.dtype == "string" or term.type.concrete() is None:
        return None
    if term.op == "Const":
        return model.weights[str(term.attr("hash"))]
    return evaluate([term], {}, {})[0].astype(numpy_dtype(term.type.dtype)) if term.op in CLOSED_FORM else None


def _value_info(name: str, type: TensorType) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=type_proto(type.dtype, type.shape))


def _proven(model: Model, term: Term) -> TensorType | None:
    """Return the type of `term`, with its shape if that is certain."""
    if term.type is None:
        return None
    known = term.op == "Const" or term.op in CLOSED_FORM
    return term.type if known else TensorType(term.type.dtype, model.proven_shapes.get(term))


def _first_iteration_types(
    term: Term, inputs: Sequence[TensorType | None], graph: onnx.GraphProto
) -> dict[str, TensorType] | None:
    """Return the types of the body's inputs in the first iteration, by name, or None if one is unknown.

    `inputs` are the types of the node's inputs.
    """
    types: list[TensorType | None] = []
    if term.op == "Loop" and len(inputs) >= 2 and len(graph.input) == len(inputs):
        types = [_counter_type(graph.input[0], "int64"), _counter_type(graph.input[1], "bool"), *inputs[2:]]
    elif term.op == "Scan":
        scanned = _scanned(term)
        axes = dict(term.attrs).get("scan_input_axes", (0,) * scanned)
        assert isinstance(axes, tuple)
        if len(axes) == scanned <= len(inputs):
            states = len(inputs) - scanned
            types = [*inputs[:states], *(_slice_type(t, a) for t, a in zip(inputs[states:], axes, strict=True))]
    found = [type for type in types if type is not None]
    if not len(found) == len(types) == len(graph.input):
        return None
    return dict(zip((value.name for value in graph.input), found, strict=True))


def _scanned(term: Term) -> int:
    count = dict(term.attrs).get("num_scan_inputs", 0)
    return count if isinstance(count, int) else 0


def _slice_type(type: TensorType | None, axis: Attr) -> TensorType | None:
    """Return the type of the slice that a Scan gives to its body: the tensor without `axis`."""
    if (
        type is None
        or type.shape is None
        or not isinstance(axis, int)
        or not -len(type.shape) <= axis < len(type.shape)
    ):
        return None if type is None else TensorType(type.dtype, None)
    return TensorType(type.dtype, tuple(s for k, s in enumerate(type.shape) if k != axis % len(type.shape)))


def _counter_type(value: onnx.ValueInfoProto, dtype: str) -> TensorType | None:
    """Return the type of a scalar, or of a one-element list if the body declares one (ONNX Runtime passes that)."""
    known = tensor_type(value.type)
    if known is not None and known.shape is not None:
        return TensorType(dtype, (1,)) if len(known.shape) == 1 else TensorType(dtype, ()) if not known.shape else None
    return TensorType(dtype, ())


def _preserved_types(term: Term, own: dict[str, TensorType], inside: Model) -> dict[str, TensorType] | None:
    """Return the types of the body's inputs without the sizes that an iteration may change."""
    first, results = (2, inside.outputs[1:]) if term.op == "Loop" else (0, inside.outputs)
    states = 0 if term.op == "If" else len(own) - first - _scanned(term)
    if not 0 <= states <= len(results):
        return None
    kept = dict(own)
    carried = zip(list(own)[first : first + states], inside.inputs[first:], results[:states], strict=False)
    for name, before, after in carried:
        had, made = _proven(inside, before), _proven(inside, after)
        if had is None or made is None or had.dtype != made.dtype:
            return None
        shape = own[name].shape
        if shape is None or had.shape is None or made.shape is None or len(shape) != len(made.shape):
            kept[name] = TensorType(had.dtype, None)
        else:
            same = [h == m for h, m in zip(had.shape, made.shape, strict=True)]
            sizes = (s if keeps else size_symbol(name, k) for k, (s, keeps) in enumerate(zip(shape, same, strict=True)))
            kept[name] = TensorType(had.dtype, tuple(sizes))
    return kept
