"""Single mutations of a model: a weight, an axis, a pad, an operand, an operator, or a rule where its guard fails.

Each function changes the model in place and says what it did, or returns None if there is nothing to change. Whether
the result is still a model, and whether it computes something else, is for the caller to find out.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, numpy_helper

from superopt.onnx_io import ModelError, read_simplified, write_model
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.occurrence import Match
from verify.proof_book import Book

from .attacks import matcher_for, proofs, rewritten

__all__ = ["MUTATIONS", "Mutation"]

Mutation = Callable[[onnx.ModelProto, random.Random], str | None]

_STEP = 1.01
_AXES = {"axis", "axes", "perm", "batch_dims"}
_WINDOWS = {"pads", "strides", "dilations", "kernel_shape", "group", "ceil_mode", "count_include_pad", "output_padding"}
# Values of an attribute, and operators, that may stand for one another.
_WORDS = [
    {"nearest", "linear", "cubic"}, {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"},
    {"constant", "reflect", "edge", "wrap"}, {"none", "tanh"}, {"SAME_UPPER", "SAME_LOWER", "VALID"}, {"DCR", "CRD"},
    {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"}, {"none", "add", "mul", "max", "min"},
]  # fmt: skip
_KIN = [
    {"Add", "Sub", "Mul", "Div", "Max", "Min"}, {"Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Identity", "Erf"},
    {"ReduceSum", "ReduceMax", "ReduceMean", "ReduceMin"}, {"MaxPool", "AveragePool"}, {"And", "Or", "Xor"},
    {"GlobalMaxPool", "GlobalAveragePool"}, {"Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"},
    {"Softmax", "LogSoftmax", "Hardmax"}, {"Exp", "Sqrt", "Log"}, {"Floor", "Ceil", "Round"},
]  # fmt: skip
_MOST_MATCHES = 4000


def _element(model: onnx.ModelProto, rng: random.Random) -> str | None:
    return _weight(model, rng, whole=False)


def _tensor(model: onnx.ModelProto, rng: random.Random) -> str | None:
    return _weight(model, rng, whole=True)


def _weight(model: onnx.ModelProto, rng: random.Random, whole: bool) -> str | None:
    """Multiply a whole weight, or one of its elements, by 1.01."""
    found = _initializers(model, "f")
    if not found:
        return None
    tensor, values = rng.choice(found)
    places = np.flatnonzero(values)
    if not places.size:
        return None
    chosen = places if whole else places[[rng.randrange(places.size)]]
    values.flat[chosen] = (values.flat[chosen].astype(np.float64) * _STEP).astype(values.dtype)
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    what = "all elements" if whole else f"element {int(chosen[0])}"
    return f"{what} of weight {tensor.name} times {_STEP}"


def _integer(model: onnx.ModelProto, rng: random.Random) -> str | None:
    """Add 1 to an element of an integer weight, or subtract it: indices, shapes, axes, zero points."""
    found = _initializers(model, "iu")
    if not found:
        return None
    tensor, values = rng.choice(found)
    place, step = rng.randrange(values.size), rng.choice([-1, 1])
    ends = np.iinfo(values.dtype)
    values.flat[place] = min(max(int(values.flat[place]) + step, int(ends.min)), int(ends.max))
    tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return f"element {place} of weight {tensor.name} plus {step}"


def _initializers(model: onnx.ModelProto, kinds: str) -> list[tuple[TensorProto, np.ndarray[Any, Any]]]:
    """Return the initializers that have elements of such a kind, as copies."""
    arrays = ((tensor, numpy_helper.to_array(tensor).copy()) for tensor in model.graph.initializer)
    return [(tensor, values) for tensor, values in arrays if values.dtype.kind in kinds and values.size]


def _axis(model: onnx.ModelProto, rng: random.Random) -> str | None:
    return _attribute(model, rng, lambda name: name in _AXES)


def _window(model: onnx.ModelProto, rng: random.Random) -> str | None:
    return _attribute(model, rng, lambda name: name in _WINDOWS)


def _setting(model: onnx.ModelProto, rng: random.Random) -> str | None:
    return _attribute(model, rng, lambda name: name not in _AXES | _WINDOWS)


def _attribute(model: onnx.ModelProto, rng: random.Random, wanted: Callable[[str], bool]) -> str | None:
    """Change an attribute whose name is `wanted`."""
    found = [(node, a) for node in model.graph.node for a in node.attribute if wanted(a.name)]
    if not found:
        return None
    node, attribute = rng.choice(found)
    before = str(onnx.helper.get_attribute_value(attribute))
    match attribute.type:
        case AttributeProto.INT:
            attribute.i += rng.choice([-1, 1])
        case AttributeProto.FLOAT:
            attribute.f = attribute.f * _STEP or 0.01
        case AttributeProto.INTS if attribute.ints:
            place = rng.randrange(len(attribute.ints))
            if rng.random() < 0.5:
                attribute.ints[place] += rng.choice([-1, 1])
            else:
                other = rng.randrange(len(attribute.ints))
                attribute.ints[place], attribute.ints[other] = attribute.ints[other], attribute.ints[place]
        case AttributeProto.STRING:
            alike = next((words for words in _WORDS if attribute.s.decode() in words), set())
            attribute.s = rng.choice(sorted(alike) or [attribute.s.decode()]).encode()
        case _:
            return None
    after = str(onnx.helper.get_attribute_value(attribute))
    return None if before == after else f"{_name(node)}: {attribute.name} {after} instead of {before}"


def _operands(model: onnx.ModelProto, rng: random.Random) -> str | None:
    """Swap two operands of a node."""
    found = [node for node in model.graph.node if len({name for name in node.input if name}) > 1]
    if not found:
        return None
    node = rng.choice(found)
    first, second = rng.sample([k for k, name in enumerate(node.input) if name], 2)
    if node.input[first] == node.input[second]:
        return None
    node.input[first], node.input[second] = node.input[second], node.input[first]
    return f"{_name(node)}: operands {first} and {second} swapped"


def _operand(model: onnx.ModelProto, rng: random.Random) -> str | None:
    """Let a node read another tensor of the same type that is there before it."""
    types = _types(model)
    place = rng.randrange(len(model.graph.node))
    node = model.graph.node[place]
    if not node.input:
        return None
    k = rng.randrange(len(node.input))
    later = {name for other in model.graph.node[place:] for name in other.output}
    alike = [n for n, t in types.items() if t == types.get(node.input[k]) and n not in later and n != node.input[k]]
    if node.input[k] not in types or not alike:
        return None
    before, node.input[k] = node.input[k], rng.choice(sorted(alike))
    return f"{_name(node)}: reads {node.input[k]} instead of {before}"


def _types(model: onnx.ModelProto) -> dict[str, tuple[int, str]]:
    """Return element types and shapes of tensors, as far as they are known."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    found = {tensor.name: (tensor.data_type, str(list(tensor.dims))) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info):
        tensor = value.type.tensor_type
        found[value.name] = tensor.elem_type, str([d.dim_param or d.dim_value for d in tensor.shape.dim])
    return found


def _operator(model: onnx.ModelProto, rng: random.Random) -> str | None:
    """Exchange an operator for a similar one."""
    found = [(node, kin) for node in model.graph.node for kin in _KIN if node.op_type in kin and not node.domain]
    if not found:
        return None
    node, kin = rng.choice(found)
    before, node.op_type = node.op_type, rng.choice(sorted(kin - {node.op_type}))
    return f"{_name(node)}: {node.op_type} instead of {before}"


def _rule(model: onnx.ModelProto, rng: random.Random) -> str | None:
    """Apply a rule where it is proven for other sizes or attributes only: a condition of its proof does not hold."""
    terms, book = read_simplified(model), proofs("real-only")
    matches = islice(matcher_for(terms.opset).matches(GraphIndex(terms.outputs)), _MOST_MATCHES)
    for match in _shuffled((m for m in matches if _violates(m, book)), rng):
        try:
            model.CopyFrom(write_model(rewritten(terms, match), fold=False))
        except ModelError:
            continue
        return f"rule {match.compiled.rule_id} where its guard fails"
    return None


def _shuffled(matches: Iterator[Match], rng: random.Random) -> list[Match]:
    found = list(matches)
    rng.shuffle(found)
    return found


def _violates(match: Match, book: Book) -> bool:
    """Return True if a proof covers the match but for its conditions."""
    rule, bindings = match.compiled.rule, match.bindings
    covering = [signature for signature in rule.signatures if signature.covers(bindings)]
    return bool(covering) and not any(book.allows(rule, signature, bindings) for signature in covering)


def _name(node: NodeProto) -> str:
    return f"{node.op_type} {node.output[0]}"


MUTATIONS: dict[str, Mutation] = {
    "element": _element,
    "tensor": _tensor,
    "integer": _integer,
    "axis": _axis,
    "window": _window,
    "setting": _setting,
    "operands": _operands,
    "operand": _operand,
    "operator": _operator,
    "rule": _rule,
}
