"""Types of all tensors of a graph, by ONNX's shape inference over a copy without big weights."""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from superopt.evaluate import dtype_name
from superopt.evaluate.indices import Array
from superopt.ir.dim import Dim, Size, Sizes, symbol
from superopt.ir.types import TensorType
from superopt.onnx_io.constant_nodes import is_constant_node
from superopt.onnx_io.disputed_sizes import has_disputed_sizes
from superopt.onnx_io.functions import can_be_expanded
from superopt.onnx_io.inference_process import infer
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, schema_of
from superopt.onnx_io.subgraphs import subgraphs

__all__ = [
    "LARGEST_SIZE",
    "SMALL",
    "check",
    "forget_stated_shapes",
    "infer_node",
    "infer_types",
    "is_named",
    "light_copy",
    "merged_type",
    "name_free_sizes",
    "names_a_size",
    "node_types",
    "proven_shapes",
    "size_symbol",
    "sizes_at",
    "sizes_by_text",
    "stated_shape",
    "tensor_type",
    "type_proto",
]

LARGEST_SIZE = 2**63 - 1  # a size in a file is an int64
SMALL = 1024  # elements; smaller tensors keep their values, because inference reads shapes and axes
# Memory for inference. Propagating the values of a list of a billion integers takes one message for each of them.
_INFERENCE_BYTES = 1 << 26
_LONGEST_LIST = 1 << 20  # elements; a shape has few
_INFERENCE_BYTES_PER_BYTE = 16  # of the model without big weights
# CPU time for inference: it has no end for some damaged models (an Einsum of the equation "a-").
_INFERENCE_SECONDS, _BYTES_PER_INFERENCE_SECOND = 1, 200_000
_MAX_RANK = 1024  # tensors of more axes count as tensors of unknown rank

_UNNAMED = "unk"  # begins the names of sizes without a name, in ONNX's inference (unk__1) as well
_DTYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}


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
    except onnx.checker.ValidationError as error:
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
    ranks = {v.name: len(v.type.tensor_type.shape.dim) for v in _values(found.graph) if _has_shape(v.type)}
    ranks |= {weight.name: len(weight.dims) for weight in light.graph.initializer}
    values = {weight.name: weight for weight in light.graph.initializer}
    disputed = [
        node
        for node in found.graph.node
        if node.domain in DEFAULT_DOMAINS and has_disputed_sizes(node, *_known(node, ranks, values))
    ]
    if not disputed:
        return found
    outputs = {name for node in disputed for name in node.output}
    rest = onnx.ModelProto()
    rest.CopyFrom(light)
    del rest.graph.node[:], rest.graph.value_info[:]
    rest.graph.node.extend(node for node in light.graph.node if outputs.isdisjoint(node.output))
    rest.graph.value_info.extend(value for value in light.graph.value_info if value.name not in outputs)
    for value in _values(found.graph):
        if value.name in outputs:
            outputs.remove(value.name)
            rest.graph.input.append(onnx.ValueInfoProto(name=value.name, type=_without_sizes(value.type)))
    rest.graph.input.extend(onnx.ValueInfoProto(name=name) for name in sorted(outputs) if name)
    return _by_onnx(rest)


def _has_shape(type: onnx.TypeProto) -> bool:
    return type.WhichOneof("value") == "tensor_type" and bool(type.tensor_type.HasField("shape"))


def _known(
    node: onnx.NodeProto, ranks: Mapping[str, int], values: Mapping[str, TensorProto]
) -> tuple[Callable[[int], int | None], Callable[[int], Array | None]]:
    """Return functions that give the rank and the value of an input of `node`, as far as they are known."""

    def rank(index: int) -> int | None:
        return ranks.get(node.input[index])

    def value(index: int) -> Array | None:
        tensor = values.get(node.input[index])
        return None if tensor is None else numpy_helper.to_array(tensor)

    return rank, value


def _without_sizes(type: onnx.TypeProto) -> onnx.TypeProto:
    found = onnx.TypeProto()
    found.CopyFrom(type)
    if _has_shape(found):
        for dim in found.tensor_type.shape.dim:
            dim.Clear()
    return found


def _by_onnx(light: onnx.ModelProto) -> onnx.ModelProto:
    """Return what ONNX's inference makes of the model; `light` itself if it fails or takes too much.

    Without propagation of values if that tells all sizes, or if propagation fails.
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
    if longest <= _LONGEST_LIST and left_s > 0 and not (found is not None and _all_known(found)):
        with contextlib.suppress(TimeoutError):
            found = _parsed(infer(data, memory, left_s, data_prop=True)[0], len(data)) or found
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


# Names that exporters use for all unknown sizes alike (Paddle: ?), so that equal names do not mean equal sizes.
_NO_NAME = re.compile(r"[^A-Za-z]*|none|null|unknown|dynamic", re.IGNORECASE)


_PLAIN = re.compile(r"\w[\w.:-]*")  # what no size that is computed from others, such as 2*n, has for its text


def size_symbol(name: str, axis: int | None = None) -> Size:
    """Return the symbol of a size that a file calls `name`, or of an `axis` of a tensor of that name.

    No two of them, and no size that is computed from them, have the same text.
    """
    quoted = "'" + name.replace("'", "''") + "'"
    if axis is not None:
        return symbol(f"[{axis}]{quoted}")
    return symbol(name if _PLAIN.fullmatch(name) else quoted)


def is_named(size: Size) -> bool:
    """Return True for a number, and for a size to which the file itself gives a name."""
    return isinstance(size, int) or (size == symbol(str(size)) and not str(size).startswith(f"{_UNNAMED}_"))


def names_a_size(text: str) -> bool:
    """Return True if dimensions with the name `text` have equal sizes, False if exporters use it for any size."""
    return not _NO_NAME.fullmatch(text)


def infer_types(light: onnx.ModelProto, unnamed_as: str = _UNNAMED) -> dict[str, TensorType]:
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


def type_proto(dtype: str, shape: Sizes | None) -> onnx.TypeProto:
    """Return the protobuf of a tensor's type, with free sizes by their texts (`sizes_by_text` has them again).

    A size is an int64 in a file. A greater one, which the arithmetic of damaged shapes can give, is left unknown.
    """
    dims = None if shape is None else [_dimension(size) for size in shape]
    return helper.make_tensor_type_proto(TensorProto.DataType.Value(dtype.upper()), dims)


def _dimension(size: Size) -> int | str | None:
    if not isinstance(size, int):
        return str(size)
    return size if size <= LARGEST_SIZE else None


def infer_node(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, onnx.TypeProto],
    values: Mapping[str, TensorProto],
) -> dict[str, onnx.TypeProto]:
    """Return the types of the outputs of a node of ONNX's own domain, as far as inference for it alone finds them.

    `types` are those of its inputs, `values` the values of some. Nothing is found for Einsum, for which inference has
    no end if its equation is damaged.
    """
    schema = schema_of(node.op_type, opset)
    if schema is None or node.op_type == "Einsum" or len(node.input) < schema.min_input:
        return {}
    try:
        found = shape_inference.infer_node_outputs(
            schema, node, dict(types), dict(values), opset_imports=[helper.make_opsetid("", opset)]
        )
    except (shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError, ValueError, KeyError):
        return {}
    ranks = {name: len(type.tensor_type.shape.dim) for name, type in types.items() if _has_shape(type)}
    if has_disputed_sizes(node, *_known(node, ranks, values)):
        return {name: _without_sizes(type) for name, type in found.items()}
    return dict(found)


def node_types(node: onnx.NodeProto, opset: int, inputs: Iterable[TensorType | None]) -> tuple[TensorType | None, ...]:
    """Return the types of the outputs of a node of ONNX's own domain, as far as the types of its inputs tell them."""
    given = {name: type for name, type in zip(node.input, inputs, strict=False) if type is not None}
    sizes = sizes_by_text(type.shape for type in given.values())
    protos = infer_node(node, opset, {name: type_proto(type.dtype, type.shape) for name, type in given.items()}, {})
    found = {name: (tensor_type(proto), stated_shape(proto, sizes)) for name, proto in protos.items()}
    types = (found.get(name, (None, None)) for name in node.output)
    return tuple(None if known is None else TensorType(known.dtype, shape) for known, shape in types)


def sizes_by_text(shapes: Iterable[Sizes | None]) -> dict[str, Size]:
    """Return the free sizes of `shapes` by the text that `type_proto` gives them; no two sizes have one text."""
    return {str(size): size for shape in shapes for size in shape or () if isinstance(size, Dim)}


def stated_shape(type: onnx.TypeProto, sizes: Mapping[str, Size]) -> Sizes | None:
    """Return the shape that a type states, with `sizes` by their texts; None if a size is unknown."""
    if not _has_shape(type):
        return None
    dims = type.tensor_type.shape.dim
    found = [d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param) for d in dims]
    return None if None in found else tuple(size for size in found if size is not None)


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
        if value.name in computed and _has_shape(value.type):
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


def tensor_type(proto: onnx.TypeProto) -> TensorType | None:
    """Return the type of a dense tensor, with -1 for an unknown size, or None for any other type."""
    if proto.WhichOneof("value") != "tensor_type" or proto.tensor_type.elem_type not in _DTYPES:
        return None
    tensor = proto.tensor_type
    dtype = dtype_name(tensor.elem_type)
    if not tensor.HasField("shape") or len(tensor.shape.dim) > _MAX_RANK:
        return TensorType(dtype, None)
    sizes: list[Size] = []
    for dim in tensor.shape.dim:
        known = dim.WhichOneof("value")
        if known == "dim_value" and dim.dim_value >= 0:
            sizes.append(dim.dim_value)
        else:
            named = known == "dim_param" and names_a_size(dim.dim_param)
            sizes.append(size_symbol(dim.dim_param) if named else -1)
    return TensorType(dtype, tuple(sizes))


def name_free_sizes(light: onnx.ModelProto) -> None:
    """Give each size of an input that is neither a number nor named a name of its own."""
    taken = {d.dim_param for v in _values(light.graph) for d in v.type.tensor_type.shape.dim}
    names = (name for k in itertools.count(1) if (name := f"{_UNNAMED}_{k}") not in taken)
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


def merged_type(ours: TensorType | None, theirs: TensorType | None) -> TensorType | None:
    """Return our type of a tensor, with numbers for the sizes that only ONNX's inference knows."""
    if ours is None or ours.shape is None or theirs is None or theirs.shape is None:
        return ours if ours is not None and ours.shape is not None else theirs or ours
    if len(ours.shape) != len(theirs.shape):
        return ours
    sizes = tuple(
        t if isinstance(t, int) and not isinstance(o, int) else o for o, t in zip(ours.shape, theirs.shape, strict=True)
    )
    return TensorType(ours.dtype, sizes)
