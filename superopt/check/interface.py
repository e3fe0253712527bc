"""Comparison of what two models state about their inputs and outputs: names, element types, shapes, dynamic sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx

from superopt.ir.dim import Size, evaluate, symbols_of
from superopt.ir.types import TensorType
from superopt.onnx_io import Model
from superopt.onnx_io.subgraphs import subgraphs
from superopt.onnx_io.tensor_types import tensor_type
from superopt.runtime import InputSpec, Unfeedable, input_specs

__all__ = [
    "equal_in_left_only", "input_differences", "output_differences", "own_defaults", "renamed_by_position",
    "stated_shape", "with_weights_for_inputs",
]  # fmt: skip

# Sizes at which two expressions for one dynamic size are compared: distinct primes for distinct symbols.
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


def input_differences(left: onnx.ModelProto, right: onnx.ModelProto) -> list[str]:
    """Return a line for each difference of the inputs without default values, and of the outputs' names and types."""
    try:
        ours, theirs = ({spec.name: spec for spec in input_specs(model)} for model in (left, right))
    except Unfeedable:  # sequences and the like: their types must be the same to the letter
        ours, theirs = {}, {}
        named = [{v.name: v.type.SerializeToString() for v in model.graph.input} for model in (left, right)]
        if named[0] != named[1]:
            return ["inputs that are not tensors differ"]
    weights = _weights(left)
    lost = [name for name in theirs if name in weights]
    found = [f"B has no value for its input {name!r}, which is a weight of A" for name in lost]
    found += _names("input", list(ours), [name for name in theirs if name not in lost], ordered=False)
    for name, spec in ours.items():
        if name in theirs:
            found += _spec_differences(spec, theirs[name])
    names = [[value.name for value in model.graph.output] for model in (left, right)]
    found += _names("output", *names, ordered=True)
    return found


def equal_in_left_only(left: onnx.ModelProto, right: onnx.ModelProto) -> list[str]:
    """Return the names that several dynamic sizes of the left model's inputs share, and the same ones of the right do
    not: the right model may be given sizes that the left one rules out."""
    try:
        ours, theirs = ({spec.name: spec.symbols for spec in input_specs(model)} for model in (left, right))
    except Unfeedable:
        return []
    places: dict[str, list[str | None]] = {}
    for name, symbols in ours.items():
        for symbol, other in zip(symbols, theirs.get(name, ()), strict=False):
            if symbol:
                places.setdefault(symbol, []).append(other)
    return [name for name, others in places.items() if len(others) > 1 and (len(set(others)) > 1 or not others[0])]


def own_defaults(model: onnx.ModelProto, other: onnx.ModelProto) -> list[str]:
    """Return the inputs with default values that `model` has and `other` has not.

    Before version 4 of the format, all weights were listed as inputs and were none.
    """
    if model.ir_version < 4:
        return []
    given = {value.name for value in other.graph.input} - (_weights(other) if other.ir_version < 4 else set())
    weights = _weights(model)
    return [v.name for v in model.graph.input if v.name in weights and v.name not in given]


def with_weights_for_inputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """Return a copy of `model` in which the inputs `names` are constants of their default values."""
    made, constants = onnx.ModelProto(), set(names)
    made.CopyFrom(model)
    kept = [value for value in made.graph.input if value.name not in constants]
    del made.graph.input[:]
    made.graph.input.extend(kept)
    return made


def _weights(model: onnx.ModelProto) -> set[str]:
    return {i.name for i in model.graph.initializer} | {i.values.name for i in model.graph.sparse_initializer}


def _names(kind: str, ours: Sequence[str], theirs: Sequence[str], *, ordered: bool) -> list[str]:
    lost = [f"B has no {kind} {name!r}" for name in ours if name not in theirs]
    added = [f"A has no {kind} {name!r}" for name in theirs if name not in ours]
    if lost or added or not ordered or list(ours) == list(theirs):
        return lost + added
    return [f"the {kind}s are in another order: {', '.join(ours)} in A, {', '.join(theirs)} in B"]


def _spec_differences(ours: InputSpec, theirs: InputSpec) -> list[str]:
    if ours.elem_type != theirs.elem_type:
        types = [onnx.TensorProto.DataType.Name(spec.elem_type).lower() for spec in (ours, theirs)]
        return [f"input {ours.name!r} is {types[0]} in A and {types[1]} in B"]
    if ours.shape != theirs.shape:  # a dynamic size is None, whatever its name
        return [f"input {ours.name!r} has shape {stated_shape(ours)} in A and {stated_shape(theirs)} in B"]
    return []


def stated_shape(spec: InputSpec) -> str:
    """Return the shape of an input as the file states it, such as `batch x 3 x 224`; `scalar` without axes."""
    if spec.shape is None:
        return "of unknown rank"
    sizes = zip(spec.shape, spec.symbols, strict=True)
    return " x ".join(str(size if size is not None else symbol or "?") for size, symbol in sizes) or "scalar"


def output_differences(left: Model, right: Model) -> list[str]:
    """Return a line for each output whose element type, rank or sizes differ; both models are over the same inputs.

    A size that depends on values, that inference does not know, or that A needs to be equal to another one, differs
    from none. Neither may what B states about an output contradict A's type, unless A states the same.
    """
    free = {name for term in left.inputs for type in term.types for name in _symbols(type)} - _equal_elsewhere(left)
    found: list[str] = []
    stated = [{v.name: tensor_type(v.type) for v in model.skeleton.graph.output} for model in (left, right)]
    for name, ours, theirs in zip(left.output_names, left.outputs, right.outputs, strict=True):
        a, b = ours.type, theirs.type
        if a is None or b is None:
            continue
        said, claim = (one.get(name) for one in stated)
        if claim is not None and claim != said and not _holds(claim, a, said, free):
            found.append(f"output {name!r} is {_typed(said or a)} in A, and B states {_typed(claim)}")
            continue
        if a.dtype != b.dtype:
            found.append(f"output {name!r} is {a.dtype} in A and {b.dtype} in B")
        elif a.shape is not None and b.shape is not None and not _may_agree(a.shape, b.shape, free):
            found.append(f"output {name!r} has shape {_shown(a.shape)} in A and {_shown(b.shape)} in B")
    return found


def _equal_elsewhere(model: Model) -> set[str]:
    """Return the names of sizes that must be equal to other sizes for a tensor of the model to be computed."""
    assumed = (size for found in model.assumed_sizes.values() for one in found if len(one) > 1 for size in one)
    parts = (part for size in assumed for part in (size if isinstance(size, frozenset) else (size,)))
    return {name for part in parts for name in symbols_of(part)}


def _holds(claim: TensorType, actual: TensorType, said: TensorType | None, free: set[str]) -> bool:
    """Return False if the numbers in `claim`, a stated type, contradict the `actual` type, or else what A `said`."""
    if claim.dtype != actual.dtype:
        return False
    if claim.shape is None or actual.shape is None:
        return True
    if len(claim.shape) != len(actual.shape):
        return False
    same_rank = said is not None and said.shape is not None and len(said.shape) == len(claim.shape)
    others = said.shape if said is not None and said.shape is not None and same_rank else (None,) * len(claim.shape)
    for size, known, other in zip(claim.shape, actual.shape, others, strict=True):
        if not isinstance(size, int) or size == -1 or size == other:
            continue
        is_known = set(symbols_of(known)) <= free
        if (is_known and size != known) or (not is_known and isinstance(other, int) and other != -1):
            return False
    return True


def _typed(type: TensorType) -> str:
    sizes = "of unknown rank" if type.shape is None else " x ".join("?" if n == -1 else str(n) for n in type.shape)
    return f"{type.dtype} {sizes or 'scalar'}"


def _symbols(type: TensorType | None) -> Iterable[str]:
    sizes: tuple[Size, ...] = () if type is None or type.shape is None else type.shape
    return [name for size in sizes for name in symbols_of(size)]


def _may_agree(ours: Sequence[Size], theirs: Sequence[Size], free: set[str]) -> bool:
    """Return False if the shapes have other ranks, or other sizes for some sizes of the inputs."""
    if len(ours) != len(theirs):
        return False
    at = {name: _PRIMES[number % len(_PRIMES)] for number, name in enumerate(sorted(free))}
    for a, b in zip(ours, theirs, strict=True):
        if {*symbols_of(a), *symbols_of(b)} <= free and a != b and evaluate(a, at) != evaluate(b, at):
            return False
    return True


def _shown(shape: Sequence[Size]) -> str:
    return " x ".join(map(str, shape)) or "scalar"


def renamed_by_position(model: onnx.ModelProto, like: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of `model` whose inputs (without default) and outputs have the names of those of `like`, in order.

    Inputs or outputs beyond the shorter list keep their names.
    """
    renamed: dict[str, str] = {}
    for names in (_input_names, _output_names):
        for old, new in zip(names(model), names(like), strict=False):
            renamed.setdefault(old, new)
    made = onnx.ModelProto()
    made.CopyFrom(model)
    taken = set(renamed.values())

    def rename(name: str) -> str:
        if name in renamed:
            return renamed[name]
        return f"{name} (B)" if name in taken else name  # an inner tensor with the name of an input or output

    _rename_all(made.graph, rename)
    return made


def _input_names(model: onnx.ModelProto) -> list[str]:
    weights = _weights(model)
    return [value.name for value in model.graph.input if value.name not in weights]


def _output_names(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.output]


def _rename_all(graph: onnx.GraphProto, rename: Callable[[str], str]) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = rename(value.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = rename(sparse.values.name)
    for node in graph.node:
        for names in (node.input, node.output):
            names[:] = [rename(name) if name else "" for name in names]
        for inner in subgraphs(node):
            _rename_all(inner, rename)
