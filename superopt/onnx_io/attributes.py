"""Attributes of opaque nodes: ONNX's protobufs to the values of terms and back, without loss."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable

from onnx import AttributeProto, TensorProto, helper, numpy_helper

from superopt.ir.term import Attr

__all__ = ["RESERVED", "pack", "unpack"]

# Names of attributes that terms add: the number of a node that must not be merged, the names of the tensors that bodies
# capture, the number of declared inputs, the outputs that are left out, the overload of a function, and a mark of
# operators that another version of the operator set defines.
RESERVED = frozenset({"node", "captures", "declared", "absent", "overload", "other_version"})

_PROTO = "proto:"


def pack(attribute: AttributeProto) -> tuple[str, Attr]:
    """Return name and value. Numbers, text and lists are kept as such; anything else is the protobuf in hexadecimal.

    -0.0 and NaN are stored as protobufs: as numbers they would compare equal to 0.0, and unequal to themselves. A
    tensor is stored without its name and in one form, so that equal ones are equal attributes.
    """
    plain: Attr | None = None
    if attribute.type == AttributeProto.INT:
        plain = attribute.i
    elif attribute.type == AttributeProto.FLOAT and _safe(attribute.f):
        plain = attribute.f
    elif attribute.type == AttributeProto.STRING:
        plain = _text(attribute.s)
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        plain = tuple(attribute.ints)
    elif attribute.type == AttributeProto.FLOATS and attribute.floats and all(map(_safe, attribute.floats)):
        plain = tuple(attribute.floats)
    elif attribute.type == AttributeProto.STRINGS and attribute.strings:
        texts = [text for text in map(_text, attribute.strings) if text is not None]
        plain = tuple(texts) if len(texts) == len(attribute.strings) else None
    if plain is None or attribute.name in RESERVED or ":" in attribute.name or attribute.ref_attr_name:
        return _PROTO + attribute.name, _canonical(attribute).SerializeToString(deterministic=True).hex()
    return attribute.name, plain


def _canonical(attribute: AttributeProto) -> AttributeProto:
    """Return the attribute without comments, and its tensor without a name and as bytes."""
    found = AttributeProto()
    found.CopyFrom(attribute)
    found.ClearField("doc_string")
    if found.type == AttributeProto.TENSOR and found.t.data_type != TensorProto.STRING:
        tensor = found.t
        if tensor.data_location != TensorProto.EXTERNAL and not tensor.HasField("segment"):
            with contextlib.suppress(ValueError, TypeError, KeyError):  # a damaged tensor stays as it is
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)))
        tensor.ClearField("name")
        tensor.ClearField("doc_string")
    return found


def _safe(value: float) -> bool:
    return not math.isnan(value) and (value != 0 or math.copysign(1, value) > 0)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None  # kept as bytes, in the protobuf


def unpack(attrs: Iterable[tuple[str, Attr]]) -> list[AttributeProto]:
    """Return the attributes that `pack` made, without the reserved ones."""
    return [_attribute(name, value) for name, value in attrs if name not in RESERVED]


def _attribute(name: str, value: Attr) -> AttributeProto:
    if name.startswith(_PROTO):
        attribute: AttributeProto = AttributeProto.FromString(bytes.fromhex(str(value)))
        return attribute
    return helper.make_attribute(name, value)
