"""Tensors of the second model that its terms no longer compute, and that may fail: no proof asks for them."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Set
from functools import cache

import onnx
from onnx import numpy_helper

from superopt.check.joining import other_sizes, sizes_in
from superopt.check.meanings import Meanings
from superopt.ir.dim import Dim, Size, Sizes, symbol
from superopt.ir.operator import OPERATORS
from superopt.ir.term import CLOSED_FORM, Term, topological
from superopt.onnx_io import Model
from superopt.onnx_io.model import EqualSizes
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, standard_name
from superopt.onnx_io.subgraphs import captured, needed, subgraphs
from superopt.properties import SIZE_READERS, is_conversion

__all__ = ["fails_at_sizes_only", "fails_never", "is_computed_as_often"]

# Operators that fail at no values, if the sizes of their result are known, besides elementwise ones.
_NEED_SIZES_ONLY = frozenset(
    [
        "Cast",
        "Concat",
        "Constant",
        "ConstantOfShape",
        "DequantizeLinear",
        "Gemm",
        "MatMul",
        "MatMulInteger",
        "Reshape",
        "Slice",
        "Split",
        "Squeeze",
        "Transpose",
        "Unsqueeze",
    ]
)
_OF_NUMBERS = frozenset({"DequantizeLinear", "MatMulInteger"})  # with scales or zero points: one number each
_NO_SHAPE = (symbol("no shape"),)


@cache
def fails_at_sizes_only(op: str) -> bool:
    """Return True for elementwise operators of ONNX that fail at no values, if their operands can be broadcast."""
    entry = OPERATORS.get(op)
    if entry is None or entry.domain or not entry.elementwise or entry.integers == "partial" or is_conversion(op):
        return False
    most = onnx.defs.get_schema(op).max_input
    return entry.inputs[1] in (None, most)  # further ones are parameters of a node, which may be invalid


def fails_never(op: str) -> bool:
    """Return True for those with one operand: then there is nothing to broadcast."""
    return fails_at_sizes_only(op) and OPERATORS[op].inputs == (1, 1)


def is_computed_as_often(left: Model, right: Model) -> bool:
    """Return False if `right` may fail to compute a tensor of which no proof asks that it is computed as `left` is.

    A Concat of n and m rows is computed for n = m only. If nothing but its sizes is left, no proof will ask for that.
    Nor for a Reshape or Expand to a computed shape, whose term has the shape of the result. Nor for nodes that are left
    out: ONNX Runtime runs them all the same.
    """
    one, other = left.as_read or left, right.as_read or right
    live, needed_by_right = _live(left), _live(right)
    # Whoever runs nodes that no output needs, runs those of both models.
    theirs = {
        is_live: frozenset().union(*(found for name, found in one.assumed_sizes.items() if name in live or not is_live))
        for is_live in (True, False)
    }
    kept = {right.names.get(term) for term in topological(right.outputs) if term.op not in ("Expand", "Reshape")}
    sizes = _corresponding_sizes(left, right)

    def is_needed_by_left(name: str, equal: EqualSizes) -> bool:
        if len(equal) == 1:
            return True
        found = theirs[name in needed_by_right]
        ours = other_sizes(equal, sizes) if _names_in(equal) <= sizes.keys() else None
        return ours is not None and (ours in found or ours - {1} in found)

    lost = ((name, equal) for name, found in other.assumed_sizes.items() if name not in kept for equal in found)
    if not all(is_needed_by_left(name, equal) for name, equal in lost):
        return False
    left_out = _left_out(right)
    return not left_out or left_out <= Counter(digest for digest, _ in _nodes(left))


def _corresponding_sizes(left: Model, right: Model) -> dict[str, Size]:
    """Return sizes of the left model, as it was read, by the names that they have in the right one, as it was read.

    They are those of inputs, and of tensors that are one term in the joined models.
    """
    one, other = left.as_read or left, right.as_read or right
    ours, theirs = ({name: term for term, name in model.names.items()} for model in (one, other))
    names = {term: name for term, name in left.names.items() if name in ours}
    both = [(names[term], name) for term, name in right.names.items() if term in names and name in theirs]
    pairs = [(ours[name], theirs[named]) for name, named in both]
    leaves = {str(leaf.attr("name")): leaf for leaf in one.inputs}
    pairs += [(leaves[name], leaf) for leaf in other.inputs if (name := str(leaf.attr("name"))) in leaves]
    found: dict[str, Size] = {}
    for here, there in pairs:
        for ours_size, size in zip(_shape(here, one), _shape(there, other), strict=False):
            if isinstance(size, Dim) and size == symbol(str(size)):
                found.setdefault(str(size), ours_size)
    return found


def _shape(term: Term, model: Model) -> Sizes:
    own = term.type.shape if term.type is not None else None
    return model.proven_shapes.get(term, own or ())


def _names_in(equal: EqualSizes) -> frozenset[str]:
    return sizes_in(tuple(tuple(size) if isinstance(size, frozenset) else size for size in equal))


def _first(model: Model) -> Model:
    """Return what the first reading of the file gave, over its own leaves."""
    read = model.as_read or model
    return read.first or read


def _live(model: Model) -> Set[str]:
    light = _first(model).light
    return frozenset() if light is None else needed(light.graph)


def _left_out(model: Model) -> Counter[str]:
    """Return the nodes that no output needs, or of which the terms have the shape only, and that may fail.

    An If that was read as one of its branches stands for such nodes in this branch.
    """
    read = _first(model)
    given = sizes_in(tuple(leaf.type for leaf in read.inputs))
    live = _read_for_values(read, given)
    sizes = {size for term in live for size in read.proven_shapes.get(term, ())}  # of tensors: they are not negative

    def is_kept(term: Term) -> bool:
        # A constant that cannot be computed fails in every run, but that of a body only if it is this body's turn.
        is_value = term.op == "Const" or term.op in CLOSED_FORM or (term.is_constant and not read.reserved)
        return term in live or term in read.computed_sizes or is_value

    def is_safe(term: Term) -> bool:
        return _has_result(term, read.proven_shapes.get(term, _NO_SHAPE), read, given, sizes)

    kept = {name for term, name in read.names.items() if is_kept(term)}
    safe = {name for term, name in read.names.items() if name not in kept and is_safe(term)}
    named = frozenset(read.names.values())

    def may_fail(node: onnx.NodeProto, is_safe: bool) -> bool:
        if node.op_type == "Dropout":  # at a share that is not in [0, 1), which every run tells of a constant
            return any(name and name not in kept for name in node.input[1:])
        if node.domain in DEFAULT_DOMAINS and (node.op_type in SIZE_READERS or fails_never(node.op_type)):
            return False
        needs_sizes_only = node.op_type in _NEED_SIZES_ONLY or fails_at_sizes_only(node.op_type)
        return node.domain not in DEFAULT_DOMAINS or not needs_sizes_only or not is_safe

    def is_left_out(node: onnx.NodeProto) -> bool:
        if (branch := read.branches.get(next(iter(node.output), ""))) is not None:
            return any(not is_kept(term) and may_fail(inner, is_safe(term)) for inner, term in branch)
        is_unread = kept.isdisjoint(node.output) and not named.isdisjoint(node.output)
        return is_unread and may_fail(node, safe >= {*node.output})

    return Counter(digest for digest, node in _nodes(model) if is_left_out(node))


def _read_for_values(model: Model, given: Set[str]) -> frozenset[Term]:
    """Return the terms below the outputs, but for those of which the shape alone is read, and is known.

    `given` are the symbols of the inputs' shapes.
    """
    sizes = {term for term, found in model.computed_sizes.items() if sizes_in(found) <= given}
    found: set[Term] = set()
    stack = list(model.outputs)
    while stack:
        term = stack.pop()
        if term not in found:
            found.add(term)
            stack += [i for i in term.inputs if i is not None] if term not in sizes else []
    return frozenset(found)


def _has_result(term: Term, shape: Sizes, model: Model, given: Set[str], sizes: Set[Size]) -> bool:
    """Return True if an operator has a result of this shape if it needs no more than sizes, and its operands have.

    That of a Reshape must not change the number of elements, the parts of a Split must add up to its operand, no text
    is cast, and scales are numbers. `given` are the symbols of the inputs' shapes. A constant may also have the `sizes`
    of other tensors.
    """
    operand, op = term.inputs[0] if term.inputs else None, standard_name(term.op)
    if not sizes_in(shape) <= given:
        return op == "ConstantOfShape" and all(isinstance(size, int) or size in sizes for size in shape)
    if op == "Out":
        return operand is not None and operand.op == "Split" and _adds_up(operand, model)
    if op == "Gemm":
        return op == term.op  # ONNX's inference says nothing of the third operand
    if op in _OF_NUMBERS:
        others = (i for i in term.inputs[1 if op == "DequantizeLinear" else 2 :] if i is not None)
        return all(i.type is not None and i.type.shape in ((), (1,)) for i in others)
    if op == "Cast":
        return operand is not None and operand.type is not None and operand.type.dtype != "string"
    if op != "Reshape" or operand is None:
        return True
    return math.prod(model.proven_shapes.get(operand, _NO_SHAPE)) == math.prod(shape)


def _adds_up(split: Term, model: Model) -> bool:
    """Return True if the parts of a Split are as large together as its operand."""
    axis, parts = split.attr("axis"), split.attr("split")
    shape = () if split.inputs[0] is None else model.proven_shapes.get(split.inputs[0], ())
    assert isinstance(axis, int) and isinstance(parts, tuple)
    sizes = [part for part in parts if isinstance(part, (int, Dim))]
    return -len(shape) <= axis < len(shape) and sum(sizes) == shape[axis]


def _nodes(model: Model) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Yield the nodes of a file, each with a digest of what it computes: nodes of two files may share one.

    Tensors of `joined` models that are one term are one, however the files compute them.
    """
    read = _first(model)
    if read.light is None:
        return
    graph, meanings = read.light.graph, Meanings(read)
    known = {str(leaf.attr("name")): f"input {leaf.attr('name')}" for leaf in read.inputs}
    known |= {name: f"weight {term.attr('hash')}" for term, name in read.names.items() if term.op == "Const"}
    for tensor in graph.initializer:
        is_text = tensor.data_type == onnx.TensorProto.STRING  # any bytes
        values = list(tensor.string_data) if is_text else numpy_helper.to_array(tensor).tolist()
        known[tensor.name] = f"{tensor.data_type} {tensor.dims} {values}"

    joined = {name: term.digest for term, name in model.names.items() if term.op != "Const"}

    def source(name: str) -> str:
        return joined.get(name) or known.get(name, f"{name} of {id(model)}") if name else ""

    for node in graph.node:
        bodies = list(subgraphs(node))
        version = meanings.version_of(node.op_type, node.domain, has_bodies=bool(bodies))
        attributes = sorted(one.SerializeToString(deterministic=True) for one in node.attribute)
        outer = [(name, source(name)) for body in bodies for name in captured(body)]
        facts = (node.op_type, node.domain, node.overload, version, attributes, [*map(source, node.input)], outer)
        digest = hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()
        known |= {name: f"{digest} {number}" for number, name in enumerate(node.output)}
        if node.op_type == "Identity" and node.domain in DEFAULT_DOMAINS:
            known[node.output[0]] = source(node.input[0])
        yield digest, node
