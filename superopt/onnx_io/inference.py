"""Types of all tensors of a graph, by ONNX's shape inference over a copy without big weights."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto, helper

from superopt.ir.dim import Dim, Size, Sizes, symbol
from superopt.ir.types import TensorType
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.onnx_io.disputed_sizes import has_disputed_rank, has_disputed_sizes
from superopt.onnx_io.functions import can_be_expanded
from superopt.onnx_io.inference_process import infer
from superopt.onnx_io.propagated_values import infer_with_values
from superopt.onnx_io.schemas import DEFAULT_DOMAINS
from superopt.onnx_io.subgraphs import subgraphs
from superopt.onnx_io.tensor_types import (
    UNNAMED,
    has_shape,
    named_sizes,
    names_a_size,
    size_symbol,
    tensor_type,
    without_sizes,
)

__all__ = [
    "SMALL", "check", "forget_stated_shapes", "infer_types", "light_copy", "name_free_sizes", "proven_shapes",
    "sizes_at",
]  # fmt: skip

SMALL = 1024  # elements; smaller tensors keep their values, because inference reads shapes and axes
# Memory for inference. Propagating the values of a list of a billion integers takes one message for each of them.
_INFERENCE_BYTES = 1 << 26
_LONGEST_LIST = 1 << 20  # elements; a shape has few
_INFERENCE_BYTES_PER_BYTE = 16  # of the model without big weights
# CPU time for inference: it has no end for some damaged models (an Einsum of the equation "a-").
_INFERENCE_SECONDS, _BYTES_PER_INFERENCE_SECOND = 1, 200_000


def light_copy(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
    """Return `model` with `nodes` in place of its own, and with big weights as inputs without a value.

    Functions that stand for too many nodes are left out.
    """
    light = onnx.ModelProto(ir_version=max(model.ir_version, 4), domain=model.domain)
    light.opset_import.extend(model.opset_import)
    if can_be_expanded(model):
        light.functions.extend(model.functions)
    light.graph.name = model.graph.name or "graph"
    fixed = {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    light.graph.input.extend(value for value in model.graph.input if value.name not in fixed)
    light.graph.output.extend(model.graph.output)
    light.graph.value_info.extend(model.graph.value_info)
    given = {value.name for value in light.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name not in given:
            _weight(light, tensor.name, tensor)
    for sparse in model.graph.sparse_initializer:
        if sparse.values.name not in given:
            light.graph.input.append(
                helper.make_tensor_value_info(sparse.values.name, sparse.values.data_type, list(sparse.dims))
            )
    for node in nodes:
        big = is_constant_node(node) and len(node.attribute) == 1 and node.attribute[0].HasField("t")
        if big and len(node.output) == 1:
            _weight(light, node.output[0], node.attribute[0].t)
        else:
            light.graph.node.append(node)
    return light


def _weight(light: onnx.ModelProto, name: str, tensor: TensorProto) -> None:
    count = 1
    for size in tensor.dims:
        count *= size
    if count <= SMALL and tensor.data_location != TensorProto.EXTERNAL:
        copy = light.graph.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = name
    else:
        light.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, list(tensor.dims)))


def check(model: onnx.ModelProto) -> str | None:
    """Return the error of onnx.checker on one line, or None if it accepts `model`."""
    try:
        onnx.checker.check_model(model)
    except (onnx.checker.ValidationError, ValueError) as error:  # ValueError: its own reading of the bytes fails
        return " ".join(str(error).split())
    return None


def _lists(light: onnx.ModelProto) -> list[onnx.TypeProto.Tensor]:
    """Return the types of the inputs with one axis."""
    types = [value.type.tensor_type for value in light.graph.input]
    return [type for type in types if type.HasField("shape") and len(type.shape.dim) == 1]


def _inferred(light: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with ONNX's types of its tensors, or unchanged if inference fails or takes too much.

    Of results whose sizes are disputed (see `disputed_sizes.py`), and of what is computed from them, sizes are unknown.
    """
    found = _by_onnx(light)
    disputed: dict[str, bool] = {}  # names of results, and if their rank is disputed as well
    while new := dict(_disputed(found)):
        disputed |= new
        rest = onnx.ModelProto()
        rest.CopyFrom(light)
        del rest.graph.node[:], rest.graph.value_info[:]
        rest.graph.node.extend(node for node in light.graph.node if disputed.keys().isdisjoint(node.output))
        rest.graph.value_info.extend(value for value in light.graph.value_info if value.name not in disputed)
        types = {value.name: value.type for value in _values(found.graph)}
        for name, without_rank in sorted(disputed.items()):
            type = without_sizes(types[name], without_rank=without_rank) if name in types else None
            rest.graph.input.append(onnx.ValueInfoProto(name=name, type=type))
        found = _by_onnx(rest)
    return found


def _disputed(found: onnx.ModelProto) -> Iterator[tuple[str, bool]]:
    """Yield the names of results whose sizes are disputed, and if their rank is."""
    opset = next((entry.version for entry in found.opset_import if entry.domain in DEFAULT_DOMAINS), 0)
    shapes = {v.name: named_sizes(v.type) for v in _values(found.graph) if has_shape(v.type)}
    shapes |= {weight.name: list(weight.dims) for weight in found.graph.initializer}
    values = {weight.name: weight for weight in found.graph.initializer}
    for node in found.graph.node:
        if node.domain in DEFAULT_DOMAINS and has_disputed_sizes(node, opset, shapes, values):
            yield from ((name, has_disputed_rank(node, opset, shapes)) for name in node.output if name)


def _by_onnx(light: onnx.ModelProto) -> onnx.ModelProto:
    """Return what ONNX's inference makes of the model; `light` itself if it fails or takes too much.

    Without propagation of values if that tells all sizes, or if propagation fails. Of values, only the certain ones are
    propagated (see `propagated_values.py`).
    """
    data = light.SerializeToString()
    memory = _INFERENCE_BYTES + _INFERENCE_BYTES_PER_BYTE * len(data)
    seconds = _INFERENCE_SECONDS + len(data) // _BYTES_PER_INFERENCE_SECOND
    # Propagating values of shapes fails for some valid models. It makes a dimension for each element of a list, and has
    # no end if there are 2**40: where an allocation fails, it takes the next one page by page.
    longest = max((type.shape.dim[0].dim_value for type in _lists(light)), default=0)
    bare, taken_s = infer(data, memory, seconds, data_prop=False)
    found = _parsed(bare, len(data))
    left_s = math.ceil(seconds - taken_s)
    if longest <= _LONGEST_LIST and left_s > 0 and found is not None and not _all_known(found):

        def with_values(model: onnx.ModelProto) -> onnx.ModelProto | None:
            return _parsed(infer(model.SerializeToString(), memory, left_s, data_prop=True)[0], len(data))

        with contextlib.suppress(TimeoutError):
            found = infer_with_values(light, found, with_values) or found
    return light if found is None else found


def _parsed(found: bytes, before: int) -> onnx.ModelProto | None:
    """Return a model with types of tensors; None if inference has failed, or has added too much to `before` bytes."""
    return onnx.ModelProto.FromString(found) if 0 < len(found) < _INFERENCE_BYTES + 2 * before else None


def _all_known(model: onnx.ModelProto) -> bool:
    """Return True if all outputs of nodes have shapes whose sizes are numbers or have names that inputs have."""
    names = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim} - {""}
    known = {
        value.name
        for value in _values(model.graph)
        if value.type.WhichOneof("value") != "tensor_type"
        or (
            value.type.tensor_type.HasField("shape")
            and all(dim.HasField("dim_value") or dim.dim_param in names for dim in value.type.tensor_type.shape.dim)
        )
    }
    return all(not name or name in known for node in model.graph.node for name in node.output)


def infer_types(light: onnx.ModelProto, unnamed_as: str = UNNAMED) -> dict[str, TensorType]:
    """Return the types of the tensors (not of sequences and the like); each size without a name gets a new one.

    Raises TimeoutError if ONNX's inference has no end.
    """
    graph = _inferred(light).graph
    types: dict[str, TensorType] = {}
    unnamed = 0  # number of sizes without a name
    taken = {d.dim_param for v in _values(graph) for d in v.type.tensor_type.shape.dim}
    for value in _values(graph):
        found = tensor_type(value.type)
        if found is None:
            continue
        if found.shape is not None:
            sizes: list[Size] = []
            for size in found.shape:
                if size != -1:
                    sizes.append(size)
                    continue
                unnamed += 1
                while f"{unnamed_as}_{unnamed}" in taken:
                    unnamed += 1
                sizes.append(symbol(f"{unnamed_as}_{unnamed}"))
            found = TensorType(found.dtype, tuple(sizes))
        if value.name not in types or types[value.name].shape is None:
            types[value.name] = found
    return types


def proven_shapes(light: onnx.ModelProto) -> dict[str, Sizes]:
    """Return the shapes that follow from the shapes of inputs and weights alone.

    The sizes that a file states for other tensors may be outdated, or hold for a loop's first iteration only. Runtimes
    ignore them, so no rewrite may depend on them.
    """
    bare = onnx.ModelProto()
    bare.CopyFrom(light)
    _forget(bare.graph, inputs=False)
    found = infer_types(bare, "size")
    return {name: type.shape for name, type in found.items() if type.shape is not None}


def forget_stated_shapes(light: onnx.ModelProto) -> None:
    """Remove the shapes that a graph states for what operators of ONNX's own domain compute: they may be outdated.

    Runtimes ignore them. Of other operators nothing else is known. An output keeps its shape if no operator reads it.
    """
    computed = {name for node in light.graph.node if node.domain in DEFAULT_DOMAINS for name in node.output}
    read = {name for node in light.graph.node for name in node.input}
    inside = [*light.graph.value_info, *(value for value in light.graph.output if value.name in read)]
    for value in inside:
        if value.name in computed and has_shape(value.type):
            value.type.tensor_type.ClearField("shape")


def _forget(graph: onnx.GraphProto, inputs: bool) -> None:
    """Remove the shapes that a graph states for its own tensors, and for its inputs if `inputs`."""
    del graph.value_info[:]
    for value in (*graph.output, *(graph.input if inputs else ())):
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for inner in subgraphs(node):
            _forget(inner, inputs=True)


def _values(graph: onnx.GraphProto) -> Iterable[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.value_info
    yield from graph.output


def name_free_sizes(light: onnx.ModelProto) -> None:
    """Give each size of an input that is neither a number nor named a name of its own."""
    taken = {d.dim_param for v in _values(light.graph) for d in v.type.tensor_type.shape.dim}
    names = (name for k in itertools.count(1) if (name := f"{UNNAMED}_{k}") not in taken)
    for value in light.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            known = dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0
            if not known and not names_a_size(dim.dim_param):
                dim.dim_param = next(names)


def sizes_at(
    light: onnx.ModelProto, types: Mapping[str, TensorType], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, int]:
    """Return the values of the symbols in `types` for inputs of the given `shapes`."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(light)
    del fixed.graph.value_info[:]
    values: dict[str, int] = {}  # by the names in the file
    for graph_input in fixed.graph.input:
        for dim, size in zip(graph_input.type.tensor_type.shape.dim, shapes.get(graph_input.name, ()), strict=False):
            if names_a_size(dim.dim_param):
                values[dim.dim_param] = size
            dim.dim_value = size
    for value in (*fixed.graph.input, *fixed.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in values:
                dim.dim_value = values[dim.dim_param]
    at = infer_types(fixed)
    found = {str(size_symbol(name)): value for name, value in values.items()}
    for name, type in types.items():
        concrete = at[name].shape if name in at else None
        for at_any, at_these in zip(type.shape or (), concrete or (), strict=False):
            if isinstance(at_any, Dim) and isinstance(at_these, int) and at_any == symbol(str(at_any)):
                found.setdefault(str(at_any), at_these)
    return found
