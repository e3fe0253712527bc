"""Two models as terms over the same leaves, so that regions of equal structure are one term.

Inputs correspond by name, their free sizes by place, and weights by content. A free size of the right model that no
input has gets a name of its own: two models may use one name for different sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import numpy_helper
from onnx.defs import OpSchema

from superopt.check.meanings import Meanings, StructureKey
from superopt.evaluate import numpy_dtype
from superopt.evaluate.indices import Array
from superopt.ir.dim import Dim, Size, evaluate, floor_div, symbol, symbols_of
from superopt.ir.infer import OPERATORS, make, remake
from superopt.ir.operator import IllTyped, fits
from superopt.ir.term import Attr, Term, Types, topological
from superopt.ir.types import FLOAT_DTYPES, TensorType
from superopt.onnx_io import Model, ModelError
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.model import EqualSizes
from superopt.onnx_io.schemas import schema_of, standard_name
from superopt.onnx_io.tensors import from_proto

__all__ = ["by_digest", "free_sizes", "joined", "other_sizes", "over_inputs", "restated", "sizes_in"]

# Operators that may compute the shape of their result, with what says that a size of 0 is meant as such.
_TO_COMPUTED_SHAPE: Mapping[str, dict[str, Attr]] = {"Reshape": {"allowzero": 1}, "Expand": {}}
_OTHER_NODES = 1 << 32  # more nodes than a file has: nodes of two models that draw random numbers are never one


def joined(left: Model, right: Model) -> tuple[Model, Model]:
    """Return both models over the same leaves.

    A term of the right model that applies the same operator to the same operands as a term of the left model is
    replaced by that term, even if the files state different types for it. An operator without a definition that the two
    files define differently has the attribute `other_version` in the right model. `Model.light` and `Model.as_read`
    still have the old names of free sizes. Raises ModelError if the inputs do not correspond: other names, element
    types, ranks, sizes, or default values.
    """
    sizes = _sizes_by_place(left, right)
    taken = free_sizes(left) | frozenset(sizes)
    for name in sorted(free_sizes(right) - sizes.keys()):
        sizes[name] = symbol(_unused(name, taken))
    weights = {**right.weights, **left.weights}
    inputs = {_name(term): term for term in left.inputs}
    known: dict[StructureKey, Term] = {}
    one = _placed_over(left, inputs, {}, weights, known)
    return one, _placed_over(right, inputs, sizes, weights, known, one)


def by_digest(roots: Iterable[Term]) -> dict[str, Term]:
    """Return all terms below `roots` by their digests."""
    return {term.digest: term for term in topological(roots)}


def over_inputs(model: Model, inputs: Mapping[str, Term], further: Iterable[Term]) -> Model:
    """Return `model` over other `inputs`, given by the names of its own, and `further` ones that nothing reads."""
    placed = _placed_over(model, inputs, {}, model.weights, {})
    return replace(placed, inputs=(*dict.fromkeys(placed.inputs), *further))


def _placed_over(
    model: Model,
    inputs: Mapping[str, Term],
    sizes: Mapping[str, Size],
    weights: dict[str, Any],
    known: dict[StructureKey, Term],
    left: Model | None = None,
) -> Model:
    """Return `model` over other inputs and sizes. `known` has terms by structure, and gets those of this model.

    `left` is the left model, placed, if this is the right one.
    """
    meaning, needed, live = Meanings(model), _needed_outputs(model), frozenset(topological(model.outputs))
    other_targets: dict[Term, Term] = {}
    others = meaning if left is None else Meanings(left)
    new: dict[Term, Term] = {}
    given = sizes_in(tuple(leaf.type for leaf in inputs.values()))
    for term in topological((*model.outputs, *model.names, *model.inputs)):
        if term.op == "Var" and _name(term) in inputs:
            new[term] = inputs[_name(term)]
            continue
        operands = tuple(None if i is None else new[i] for i in term.inputs)
        node = term.inputs[0] if term.op == "Out" else None
        if node is not None and (needed.get(node) == 1 or _index(term) >= needed.get(node, len(node.types))):
            new[term] = new[node] if _index(term) == 0 else term
            continue
        made = _renamed(_as_proven(term, model, int(left is not None)), operands, sizes)
        if term in needed:
            made = Term.of(made.op, made.inputs, dict(made.attrs), made.types[: needed[term]])
        if term in model.proven_shapes and sizes_in(made.types) <= given:
            made = _with_target(made)
            if left is not None:
                made = restated(made, left.other_targets)
            elif term in live and (other := _of_as_many_elements(made)) is not made:
                other_targets[made] = other
                made = other
        made = _written_out(made, weights)
        if (computed := _computed_sizes(term, model, sizes, given)) is not None:
            new[term] = known.setdefault(computed, made)
            continue
        if meaning.version(made) != others.version(made):
            made = Term.of(made.op, made.inputs, {**dict(made.attrs), "other_version": 1}, made.types)
        if meaning.is_random(term) and left is not None:
            number = int(str(made.attr("node"))) + _OTHER_NODES
            new[term] = Term.of(made.op, made.inputs, {**dict(made.attrs), "node": number}, made.types)
        elif meaning.is_random(term):
            new[term] = made
        else:
            new[term] = known.setdefault(meaning.key(made, made.inputs), made)
    return replace(
        model,
        outputs=tuple(new[term] for term in model.outputs),
        inputs=tuple(new[term] for term in model.inputs),
        weights=weights,
        position=_moved(model.position, new),
        names=_moved(model.names, new),
        nodes=_moved(model.nodes, new),
        sizes={str(sizes.get(name, name)): value for name, value in model.sizes.items()},
        listed_weights={name: new.get(term, term) for name, term in model.listed_weights.items()},
        proven_shapes={new[t]: shape for t, shape in model.proven_shapes.items() if t in new and not sizes},
        assumed_sizes={name: {other_sizes(one, sizes) for one in found} for name, found in model.assumed_sizes.items()},
        other_targets=other_targets,
        as_read=model.as_read or model,
    )


def restated(term: Term, targets: Mapping[Term, Term]) -> Term:
    """Return what `targets` has in place of a Reshape of known sizes, if it has it, else `term`."""
    return targets.get(term, term) if term.op == "Reshape" else term


def other_sizes(equal: EqualSizes, sizes: Mapping[str, Size]) -> EqualSizes:
    """Return sizes that are equal with other names."""
    return frozenset(
        frozenset(evaluate(part, sizes) for part in size) if isinstance(size, frozenset) else evaluate(size, sizes)
        for size in equal
    )


def _needed_outputs(model: Model) -> dict[Term, int]:
    """Return how many outputs are read of nodes without a definition, if the others are optional, and the last ones.

    Some tools remove the names of outputs that nothing reads, for example of states after the last step. (The number of
    outputs of a BatchNormalization says before opset 14 whether it computes the statistics of the batch.)
    """
    read: dict[Term, int] = {}
    for term in topological(model.outputs):
        if term.op == "Out" and (node := term.inputs[0]) is not None and node.op not in OPERATORS:
            read[node] = max(read.get(node, 0), _index(term) + 1)
    found: dict[Term, int] = {}
    for node, count in read.items():
        op = standard_name(node.op)
        schema = None if op is None or op == "BatchNormalization" else schema_of(op, model.opset)
        if schema is not None and count < len(node.types) <= len(schema.outputs):
            others = schema.outputs[count : len(node.types)]
            if all(output.option == OpSchema.FormalParameterOption.Optional for output in others):
                found[node] = count
    return found


def _index(term: Term) -> int:
    return int(str(term.attr("index")))


def _as_proven(term: Term, model: Model, side: int) -> Term:
    """Return `term` with the sizes in its types that follow from the inputs' types, and new free sizes for the others.

    A file may state outdated sizes of tensors inside, and runtimes ignore them. So no proof may depend on them.
    """
    if term.is_constant or term.op in ("Var", "Out"):
        return term
    types: list[TensorType | None] = []
    for k, type in enumerate(term.types):
        if type is not None and type.shape is not None:
            proven = model.proven_shapes.get(term if len(term.types) == 1 else term.out(k), ())
            if len(proven) != len(type.shape):
                proven = tuple(symbol(f"unproven_{side}_{term.digest}_{k}_{d}") for d in range(len(type.shape)))
            type = TensorType(type.dtype, proven)
        types.append(type)
    return term if tuple(types) == term.types else Term.of(term.op, term.inputs, dict(term.attrs), tuple(types))


def _computed_sizes(term: Term, model: Model, sizes: Mapping[str, Size], given: frozenset[str]) -> StructureKey | None:
    """Return a key that tensors share whose elements are the same sizes of the inputs, however they are computed."""
    elements = model.computed_sizes.get(term)
    shape = None if term.type is None else term.type.concrete()
    if elements is None or term.type is None or shape is None:
        return None
    found = tuple(evaluate(size, sizes) for size in elements)
    return ("sizes", term.type.dtype, shape, found) if sizes_in(found) <= given else None


def _with_target(term: Term) -> Term:
    """Return a Reshape or Expand to a computed shape as one whose attribute is the shape of its result.

    The operand and the shape of the result determine both, so the kernel need not know how the shape was computed.
    `term` must have proven sizes that follow from those of inputs.
    """
    op = standard_name(term.op)
    if op is None or op not in _TO_COMPUTED_SHAPE or len(term.inputs) != 2 or term.type is None:
        return term
    shape = term.type.shape or ()
    try:
        made = make(op, term.inputs[:1], {"shape": shape, **_TO_COMPUTED_SHAPE[op]})
    except IllTyped:
        return term
    return made if made.types == (TensorType(term.type.dtype, shape),) else term


def _of_as_many_elements(term: Term) -> Term:
    """Return a Reshape with one size in place of another, so that it has as many elements as its operand, if it can be.

    A Reshape from (h w, 8) to (w, 8) is defined for h = 1 only, and there it is one to (h w, 8). Nothing is claimed of
    sizes at which the left model is not defined.
    """
    operand = term.inputs[0] if term.op == "Reshape" and term.attr("allowzero") == 1 else None
    if operand is None or operand.type is None or term.type is None:
        return term
    shape, whole = term.type.shape or (), math.prod(operand.type.shape or ())
    if math.prod(shape) == whole:
        return term
    for k in (k for k, size in enumerate(shape) if isinstance(size, Dim) and size not in (operand.type.shape or ())):
        rest = math.prod((*shape[:k], *shape[k + 1 :]))
        if rest != 0 and floor_div(whole, rest) * rest == whole:
            wanted = (*shape[:k], floor_div(whole, rest), *shape[k + 1 :])
            made = make("Reshape", term.inputs, {**dict(term.attrs), "shape": wanted})
            return made if made.types == (TensorType(term.type.dtype, wanted),) else term
    return term


def _renamed(term: Term, operands: tuple[Term | None, ...], sizes: Mapping[str, Size]) -> Term:
    """Return `term` over other operands, with other names of free sizes."""

    def rename(value: Attr) -> Attr:
        if isinstance(value, tuple):
            return tuple(map(rename, value))
        return evaluate(value, sizes) if isinstance(value, Dim) else value

    if sizes:
        types: Types = tuple(None if type is None else type.with_sizes(dict(sizes)) for type in term.types)
        term = Term.of(term.op, term.inputs, {name: rename(value) for name, value in term.attrs}, types)
    if operands == term.inputs:
        return term
    try:
        return remake(term, operands)
    except IllTyped:  # the files state types that contradict one another
        return term.over(operands)


def _written_out(term: Term, weights: Mapping[str, Any]) -> Term:
    """Return a constant with its value as an attribute, so that proofs may use it: a number, or equal truth values.

    A mask that hides nothing is such a constant, and so are weights that ConstantOfShape makes.
    """
    type = term.type
    shape = None if type is None else type.concrete()
    if type is None or shape is None or type.dtype not in (*FLOAT_DTYPES, "bool") or not math.prod(shape):
        return term
    source = term.inputs[0] if term.op == "Cast" else term
    elements = None if source is None else _elements(source, weights)
    if elements is None or not elements.size or not (elements == elements[0]).all():
        return term
    array = elements[:1].reshape(())
    value = float(array.astype(np.float64))
    if source is not term and (array.dtype.kind not in "iub" or float(array.astype(numpy_dtype(type.dtype))) != array):
        return term  # the conversion rounds
    if not fits(value, type.dtype) or (value == 0 and math.copysign(1, value) < 0):
        return term  # not finite, or below the normal numbers, which a runtime may flush to 0
    attrs: dict[str, Attr] = {"shape": shape, "value": value}
    return Term.of("ConstantOfShape", (), attrs, (type,))


def _elements(term: Term, weights: Mapping[str, Any]) -> Array | None:
    """Return the elements of a constant that is one number or a mask, or the number of a generated one, or None."""
    type = term.type
    shape = None if type is None else type.concrete()
    if type is None or shape is None:
        return None
    if term.op == "Const" and (math.prod(shape) == 1 or type.dtype == "bool"):
        return np.asarray(weights[str(term.attr("hash"))]).reshape(-1)
    sizes = term.inputs[0] if standard_name(term.op) == "ConstantOfShape" and term.inputs else None
    if sizes is None or sizes.op != "Const" or tuple(weights[str(sizes.attr("hash"))].reshape(-1)) != shape:
        return None
    for attribute in unpack(term.attrs):
        if attribute.name == "value":
            return from_proto(attribute.t, term.op)[0].reshape(-1)
    return None


def _moved(table: Mapping[Term, Any], new: Mapping[Term, Term]) -> dict[Term, Any]:
    moved: dict[Term, Any] = {}
    for term, value in table.items():
        moved.setdefault(new.get(term, term), value)
    return moved


# Inputs and sizes.


def _sizes_by_place(left: Model, right: Model) -> dict[str, Size]:
    """Return the left model's size for each free size of the right model's inputs. Raises ModelError."""
    theirs = {_name(term): term for term in right.inputs}
    ours = {_name(term): term for term in left.inputs}
    for name in (*ours, *theirs):
        if name not in ours or name not in theirs:
            raise ModelError(f"only the {'first' if name in ours else 'second'} model has an input {name!r}")
    found: dict[str, Size] = {}
    for name, term in ours.items():
        one, other = term.type, theirs[name].type
        if one is None or other is None or one.shape is None or other.shape is None:
            if (one and one.dtype) != (other and other.dtype) or (one and one.shape) != (other and other.shape):
                raise ModelError(f"input {name!r} is {one} in the first model and {other} in the second")
            continue
        if one.dtype != other.dtype or len(one.shape) != len(other.shape):
            raise ModelError(f"input {name!r} is {one} in the first model and {other} in the second")
        for size, free in zip(one.shape, other.shape, strict=True):
            if isinstance(free, int) and free == size:
                continue
            if isinstance(free, int) or found.setdefault(str(free), size) != size:
                raise ModelError(f"input {name!r} is {one} in the first model and {other} in the second")
    if _defaults(left) != _defaults(right):
        raise ModelError("inputs have other default values in the second model")
    return found


def _defaults(model: Model) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for tensor in model.skeleton.graph.initializer:
        array = numpy_helper.to_array(tensor)
        found[tensor.name] = tensor.data_type, array.shape, array.tobytes()
    for sparse in model.skeleton.graph.sparse_initializer:
        found[sparse.values.name] = (sparse.SerializeToString(deterministic=True),)
    return found


def free_sizes(model: Model) -> frozenset[str]:
    """Return the names of all free sizes in a model's terms."""
    terms = topological((*model.outputs, *model.names, *model.inputs))
    found = [sizes_in((*term.types, *(value for _, value in term.attrs))) for term in terms]
    return frozenset(model.sizes).union(*found, *map(sizes_in, model.proven_shapes.values()))


def sizes_in(value: object) -> frozenset[str]:
    """Return the names of the free sizes in a size, a type, or tuples of these."""
    if isinstance(value, TensorType):
        return sizes_in(value.shape or ())
    if isinstance(value, tuple):
        return frozenset().union(*map(sizes_in, value))
    return symbols_of(value) if isinstance(value, Dim) else frozenset()


def _unused(name: str, taken: frozenset[str]) -> str:
    while name in taken:
        name = f"{name}_"
    return name


def _name(term: Term) -> str:
    return str(term.attr("name"))
