"""Bodies of If, Loop and Scan as models of their own, and back into their nodes.

The inputs of such a model are the body's inputs and the outer tensors that it captures; an outer constant is one inside
as well, and on the way back it is captured again. What the types of a body's inputs are is not taken from its
declarations, which exporters leave out or get wrong, but from the node: the first iteration has the types of the node's
inputs, and what an iteration keeps, all have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto

from superopt.evaluate import evaluate, numpy_dtype
from superopt.ir.dim import symbol
from superopt.ir.infer import replace
from superopt.ir.term import CLOSED_FORM, Attr, Term, topological
from superopt.ir.types import TensorType
from superopt.onnx_io.attributes import pack, unpack
from superopt.onnx_io.inference import tensor_type
from superopt.onnx_io.model import Array, Model, ModelError
from superopt.onnx_io.simplify import read_reduced
from superopt.onnx_io.subgraphs import captured
from superopt.onnx_io.tensors import from_proto, to_proto
from superopt.onnx_io.writer import write_model

__all__ = ["Body", "Place", "bodies", "put_back", "write_body"]

# Which body: the number of its node (attribute "node" of the term) and the name of the attribute that holds it.
Place = tuple[int, str]

_FIRST_SCAN = 9  # before it Scan has a batch axis
_ROUNDS = 4


@dataclass(frozen=True)
class Body:
    """A body as the file has it, and as a model."""

    place: Place
    owner: Term
    graph: onnx.GraphProto
    model: Model
    constants: dict[str, Array]  # captured tensors that are constants


def bodies(model: Model) -> Iterator[Body]:
    """The bodies of the nodes of `model` that can be read as models. What is odd about a body leaves it out."""
    if model.skeleton.ir_version < 4:  # its constants would be inputs
        return
    reserved = model.reserved | set(model.names.values()) | set(model.output_names)
    reserved |= {value.name for value in model.skeleton.graph.input}
    for term in topological(model.outputs):
        if term.op == "Scan" and model.opset < _FIRST_SCAN:
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
    graph, (declared, outer) = attribute.g, _interface(term)
    proto = onnx.ModelProto(ir_version=model.skeleton.ir_version)
    proto.opset_import.extend(model.skeleton.opset_import)
    proto.functions.extend(model.skeleton.functions)
    proto.graph.CopyFrom(graph)
    for values in (proto.graph.input, proto.graph.output, proto.graph.value_info):
        del values[:]
    # Declared sizes may be those of one iteration; they are found out here.
    for value in graph.output:
        known = tensor_type(value.type)
        proto.graph.output.append(value if known is None else _value(value.name, TensorType(known.dtype, None)))
    constants: dict[str, Array] = {}
    around: dict[str, TensorType] = {}
    given: dict[str, tuple[int, ...] | None] = {}  # sizes to reckon costs with
    for name in captured(graph):
        there = outer[name]
        if there.type is None:
            return None
        array = _constant(model, there)
        if array is not None:
            proto.graph.initializer.append(to_proto(array, there.type.dtype, name))
            constants[name] = array
        else:
            certain = _proven(model, there)
            assert certain is not None
            around[name] = certain
            given[name] = model.concrete(there.type).concrete()
    own = _first(term, [_proven(model, i) if i is not None else None for i in term.inputs[:declared]], graph)
    if own is None or not own.keys().isdisjoint(around):
        return None
    claimed = [None if i is None else i.type for i in term.inputs[:declared]]
    for name, type in (_first(term, claimed, graph) or {}).items():
        given[name] = model.concrete(type).concrete()
    shapes = {name: shape for name, shape in given.items() if shape is not None}
    for _ in range(_ROUNDS):
        del proto.graph.input[:]
        proto.graph.input.extend(_value(name, type) for name, type in (*own.items(), *around.items()))
        inside = read_reduced(proto, shapes, reserved=reserved)
        kept = _kept(term, own, inside)
        if kept is None:
            return None
        if kept == own:
            node = term.attr("node")
            assert isinstance(node, int)
            return Body((node, attribute.name), term, graph, inside, constants)
        own = kept
    return None


def _interface(term: Term) -> tuple[int, dict[str, Term]]:
    """How many inputs the node declares, and the outer tensors by the names that its bodies have for them."""
    declared, names = term.attr("declared"), term.attr("captures")
    assert isinstance(declared, int) and isinstance(names, tuple)
    outer: dict[str, Term] = {}
    for name, there in zip(names, term.inputs[declared:], strict=True):
        assert there is not None
        outer[str(name)] = there
    return declared, outer


def _constant(model: Model, term: Term) -> Array | None:
    if term.type is None or term.type.dtype == "string" or term.type.concrete() is None:
        return None
    if term.op == "Const":
        return model.weights[str(term.attr("hash"))]
    return evaluate([term], {}, {})[0].astype(numpy_dtype(term.type.dtype)) if term.op in CLOSED_FORM else None


def _value(name: str, type: TensorType) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name=name)
    value.type.tensor_type.elem_type = TensorProto.DataType.Value(type.dtype.upper())
    if type.shape is not None:
        value.type.tensor_type.shape.SetInParent()
        for size in type.shape:
            dim = value.type.tensor_type.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = str(size)
    return value


def _proven(model: Model, term: Term) -> TensorType | None:
    """The type of `term`, with its shape where that is certain."""
    if term.type is None:
        return None
    known = term.op == "Const" or term.op in CLOSED_FORM
    return term.type if known else TensorType(term.type.dtype, model.proven.get(term))


def _first(term: Term, inputs: Sequence[TensorType | None], graph: onnx.GraphProto) -> dict[str, TensorType] | None:
    """Types of the body's inputs in the first iteration, by name, from those of the node's; None where one is not
    known."""
    types: list[TensorType | None] = []
    if term.op == "Loop" and len(inputs) >= 2 and len(graph.input) == len(inputs):
        types = [_counter(graph.input[0], "int64"), _counter(graph.input[1], "bool"), *inputs[2:]]
    elif term.op == "Scan":
        scanned = _scanned(term)
        axes = dict(term.attrs).get("scan_input_axes", (0,) * scanned)
        assert isinstance(axes, tuple)
        if len(axes) == scanned <= len(inputs):
            states = len(inputs) - scanned
            types = [*inputs[:states], *(_slice(t, a) for t, a in zip(inputs[states:], axes, strict=True))]
    found = [type for type in types if type is not None]
    if not len(found) == len(types) == len(graph.input):
        return None
    return dict(zip((value.name for value in graph.input), found, strict=True))


def _scanned(term: Term) -> int:
    count = dict(term.attrs).get("num_scan_inputs", 0)
    return count if isinstance(count, int) else 0


def _slice(type: TensorType | None, axis: Attr) -> TensorType | None:
    """What a Scan gives to its body of a tensor: one place of `axis`."""
    if (
        type is None
        or type.shape is None
        or not isinstance(axis, int)
        or not -len(type.shape) <= axis < len(type.shape)
    ):
        return None if type is None else TensorType(type.dtype, None)
    return TensorType(type.dtype, tuple(s for k, s in enumerate(type.shape) if k != axis % len(type.shape)))


def _counter(value: onnx.ValueInfoProto, dtype: str) -> TensorType | None:
    """A scalar, or the list of one that ONNX Runtime gives to a body that declares that."""
    known = tensor_type(value.type)
    if known is not None and known.shape is not None:
        return TensorType(dtype, (1,)) if len(known.shape) == 1 else TensorType(dtype, ()) if not known.shape else None
    return TensorType(dtype, ())


def _kept(term: Term, own: dict[str, TensorType], inside: Model) -> dict[str, TensorType] | None:
    """The types of the body's inputs with what an iteration is not seen to keep taken away."""
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
            sizes = (
                s if keeps else symbol(f"{name}[{k}]") for k, (s, keeps) in enumerate(zip(shape, same, strict=True))
            )
            kept[name] = TensorType(had.dtype, tuple(sizes))
    return kept


def write_body(
    body: Body, model: Model, origin: Mapping[Term, str] | None = None, exact: bool = False
) -> onnx.GraphProto:
    """`model`, which computes what `body.model` does, as a graph with the interface of `body.graph`.

    `origin` and `exact` as for `write_model`. Raises ModelError.
    """
    written = write_model(model, origin, exact).graph
    graph = onnx.GraphProto()
    graph.CopyFrom(written)
    del graph.input[:], graph.output[:], graph.initializer[:], graph.value_info[:]
    graph.input.extend(body.graph.input)
    graph.output.extend(body.graph.output)
    for tensor in written.initializer:
        captured_one = body.constants.get(tensor.name)
        if captured_one is None:
            graph.initializer.append(tensor)
        elif from_proto(tensor, "body")[0].tobytes() != captured_one.tobytes():
            raise ModelError(f"the body {body.place[1]} of {body.owner.op} would hide tensor {tensor.name!r}")
    there = {name for node in graph.node for name in node.output}
    graph.value_info.extend(value for value in body.graph.value_info if value.name in there)
    if not set(captured(graph)) <= set(captured(body.graph)):
        raise ModelError(f"the body {body.place[1]} of {body.owner.op} would read other tensors than before")
    return graph


def put_back(model: Model, written: Mapping[Place, onnx.GraphProto]) -> Model:
    """`model` with other bodies in its nodes (those of a node that is gone are left out)."""
    changes: dict[Term, Term] = {}
    for term in topological(model.outputs):
        names = dict(term.attrs)
        node = names.get("node")
        if "captures" not in names or not isinstance(node, int) or not any(place[0] == node for place in written):
            continue
        declared, outer = _interface(term)
        attributes = unpack(term.attrs)
        for attribute in attributes:
            if (node, attribute.name) in written:
                attribute.g.CopyFrom(written[node, attribute.name])
        reads = tuple(dict.fromkeys(name for a in attributes if a.HasField("g") for name in captured(a.g)))
        new = {**names, **dict(map(pack, attributes)), "captures": reads}
        inputs = [*term.inputs[:declared], *(outer[name] for name in reads)]
        changes[term] = Term.of(term.op, inputs, new, term.types)
    if not changes:
        return model
    return model.with_outputs(_replaced(model, changes), replaced=changes)


def _replaced(model: Model, changes: Mapping[Term, Term]) -> tuple[Term, ...]:
    """One node after the other, as one may read from another."""
    outputs, left = model.outputs, dict(changes)
    while left:
        old = next(iter(left))  # inputs come before users
        new = left.pop(old)
        outputs = replace(outputs, {old: new})
        left = dict(zip(replace(left.keys(), {old: new}), replace(left.values(), {old: new}), strict=True))
    return outputs
