"""Types of tensors as protobufs and as types of terms, and the names of sizes in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import onnx
from onnx import TensorProto, helper

from superopt.evaluate import dtype_name
from superopt.ir.dim import Dim, Size, Sizes, symbol
from superopt.ir.types import TensorType

__all__ = [
    "LARGEST_SIZE", "UNNAMED", "has_shape", "is_named", "merged_type", "named_sizes", "names_a_size", "size_symbol",
    "sizes_by_text", "stated_shape", "tensor_type", "type_proto", "without_sizes",
]  # fmt: skip

LARGEST_SIZE = 2**63 - 1  # a size in a file is an int64
UNNAMED = "unk"  # begins the names of sizes without a name, in ONNX's inference (unk__1) as well
_MAX_RANK = 1024  # tensors of more axes count as tensors of unknown rank
_DTYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}
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


def names_a_size(text: str) -> bool:
    """Return True if dimensions with the name `text` have equal sizes, False if exporters use it for any size."""
    return not _NO_NAME.fullmatch(text)


def is_named(size: Size) -> bool:
    """Return True for a number, and for a size to which the file itself gives a name."""
    return isinstance(size, int) or (size == symbol(str(size)) and not str(size).startswith(f"{UNNAMED}_"))


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


def sizes_by_text(shapes: Iterable[Sizes | None]) -> dict[str, Size]:
    """Return the free sizes of `shapes` by the text that `type_proto` gives them; no two sizes have one text."""
    return {str(size): size for shape in shapes for size in shape or () if isinstance(size, Dim)}


def stated_shape(type: onnx.TypeProto, sizes: Mapping[str, Size]) -> Sizes | None:
    """Return the shape that a type states, with `sizes` by their texts; None if a size is unknown."""
    if not has_shape(type):
        return None
    dims = type.tensor_type.shape.dim
    found = [d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param) for d in dims]
    return None if None in found else tuple(size for size in found if size is not None)


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


def has_shape(type: onnx.TypeProto) -> bool:
    return type.WhichOneof("value") == "tensor_type" and bool(type.tensor_type.HasField("shape"))


def named_sizes(type: onnx.TypeProto) -> list[int | str]:
    """Return the size of each axis that a type states, or the name of it; an empty name if it states none."""
    return [d.dim_value if d.HasField("dim_value") else d.dim_param for d in type.tensor_type.shape.dim]


def without_sizes(type: onnx.TypeProto, *, without_rank: bool = False) -> onnx.TypeProto:
    found = onnx.TypeProto()
    found.CopyFrom(type)
    if has_shape(found) and without_rank:
        found.tensor_type.ClearField("shape")
    elif has_shape(found):
        for dim in found.tensor_type.shape.dim:
            dim.Clear()
    return found
