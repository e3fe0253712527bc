"""Operator schemas of the ONNX specification (`onnx.defs`), by version of the operator set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import onnx
from onnx import AttributeProto

from superopt.choices import FIRST_OPSET
from superopt.ir.types import TensorType

__all__ = [
    "DEFAULT_DOMAINS",
    "FIRST_OPSET",
    "TO_THE_END",
    "OpSchema",
    "attribute_kind",
    "first_opset",
    "formal_input",
    "has_doubtful_attributes",
    "is_extension",
    "opset_of",
    "schema_of",
    "specification",
    "standard_name",
    "text_of",
    "type_error",
]

OpSchema = onnx.defs.OpSchema

TO_THE_END = 2**31 - 1  # files write this, or more, for "to the end" of an axis
# Integers that stand for truth values. One of 2 is 0 for some operators of ONNX Runtime (`keepdims`), 1 for others
# (`transA`), and refused by others; ONNX's shape inference does not agree with it in all of them.
_TRUTH_VALUES = frozenset({
    "allowzero", "antialias", "ceil_mode", "count_include_pad", "exclude_outside", "exclusive", "fmod", "input_forget",
    "interleaved", "keepdims", "layout", "linear_before_reset", "noop_with_empty_axes", "onesided", "reverse",
    "saturate", "select_last_index", "storage_order", "transA", "transB", "upper",
})  # fmt: skip
DEFAULT_DOMAINS = ("", "ai.onnx")  # two names of the domain of ONNX's own operators

_KINDS = {
    OpSchema.AttrType.INT: AttributeProto.INT,
    OpSchema.AttrType.INTS: AttributeProto.INTS,
    OpSchema.AttrType.FLOAT: AttributeProto.FLOAT,
    OpSchema.AttrType.FLOATS: AttributeProto.FLOATS,
    OpSchema.AttrType.STRING: AttributeProto.STRING,
    OpSchema.AttrType.STRINGS: AttributeProto.STRINGS,
}


def standard_name(op: str) -> str | None:
    """Return the name of the standard operator that the `op` of a term means, or None for those of other domains."""
    domain, _, name = op.rpartition("::")
    return name if domain in DEFAULT_DOMAINS else None


def has_doubtful_attributes(op: str, attributes: Iterable[AttributeProto]) -> bool:
    """Return True if a truth value is neither 0 nor 1, or an attribute is of another type than the specification says.

    So is one that stands for a parameter of a function, where there is no function.
    """
    kinds = _kinds(op)
    return any(
        (one.name in _TRUTH_VALUES and one.i not in (0, 1))
        or bool(one.ref_attr_name)
        or kinds.get(one.name, AttributeProto.UNDEFINED) not in (AttributeProto.UNDEFINED, one.type)
        for one in attributes
    )


@cache
def _kinds(op: str) -> Mapping[str, int]:
    """Return `attribute_kind` of the attributes that the newest version of a standard operator has."""
    schema = onnx.defs.get_schema(op) if onnx.defs.has(op) else None
    return {} if schema is None else {name: attribute_kind(schema, name) for name in schema.attributes}


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of the default operator set, or 0 if the file imports none."""
    return next((o.version for o in model.opset_import if o.domain in DEFAULT_DOMAINS), 0)


@cache
def schema_of(op: str, opset: int) -> OpSchema | None:
    """Return the schema of a standard operator in version `opset` of the operator set.

    None if that version is unknown, lacks the operator, or deprecates it: such a node could not be written back.
    """
    if not 0 < opset <= onnx.defs.onnx_opset_version():
        return None
    try:
        schema = onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else schema


_ADDED_EARLIER = frozenset({"LayerNormalization"})  # by ONNX Runtime, which fuses written-out ones in every opset
# Versions from these on add attributes whose defaults change nothing, or say the same in other words.
_UNCHANGED_SINCE = {
    "GRU": 7,
    "GatherElements": 11,
    "GatherND": 11,
    "LSTM": 7,
    "NonMaxSuppression": 10,
    "RNN": 7,
    "ScatterElements": 11,
    "ScatterND": 11,
    "Shape": 1,
    "TopK": 10,
}


@cache
def specification(op: str, opset: int) -> object:
    """Return what ONNX says of an operator in a version of the operator set, but for the types that it takes.

    Versions that differ in types only have the same text. Where no text is known, the version stands for it.
    """
    schema = schema_of(op, opset)
    if schema is None:
        return opset
    return op if schema.since_version >= _UNCHANGED_SINCE.get(op, opset + 1) else text_of(schema)


def text_of(schema: OpSchema) -> tuple[object, ...]:
    """Return what a schema says, but for the types that the operator takes."""
    formals = [(f.name, f.description, f.option, f.is_homogeneous) for f in (*schema.inputs, *schema.outputs)]
    attributes = [
        (name, one.description, one.required, str(one.default_value)) for name, one in schema.attributes.items()
    ]
    numbers = (schema.min_input, schema.max_input, schema.min_output, schema.max_output)
    return schema.doc, tuple(formals), tuple(sorted(attributes)), numbers


@cache
def first_opset(op: str) -> int:
    """Return the first version of the operator set that has the standard operator `op` with its present meaning."""
    versions = {s.since_version: s for s in onnx.defs.get_all_schemas_with_history() if s.name == op and not s.domain}
    latest = max(versions)
    deprecated = [version for version, schema in versions.items() if schema.deprecated and version < latest]
    return min(version for version in versions if version > max(deprecated, default=0))


@cache
def is_extension(op: str, opset: int | None = None) -> bool:
    """Return True if `op` is a runtime's addition to the standard domain: ONNX has no schema of it in any version.

    With `opset`, also for an operator that a runtime has in all versions, if ONNX has none in this one.
    """
    return not onnx.defs.has(op) or (opset is not None and op in _ADDED_EARLIER and schema_of(op, opset) is None)


def attribute_kind(schema: OpSchema, name: str) -> int:
    """Return the kind of an attribute as an `AttributeProto.type`; UNDEFINED for kinds that terms do not hold."""
    return _KINDS.get(schema.attributes[name].type, AttributeProto.UNDEFINED)


def formal_input(schema: OpSchema, name: str) -> int | None:
    """Return the index of the formal input called `name`, or None."""
    return next((index for index, formal in enumerate(schema.inputs) if formal.name == name), None)


def type_error(node: onnx.NodeProto, opset: int, types: Mapping[str, TensorType | None]) -> str | None:
    """Return a message if a standard operator in version `opset` does not take, or give, tensors of these types.

    `types` has the types of tensors by name. Tensors of unknown type are not checked, nor nodes without a schema.
    The operator must not have bodies (such operators take tensors of several types as one parameter).
    """
    if node.domain not in DEFAULT_DOMAINS or schema_of(node.op_type, opset) is None:
        return None
    variables: dict[str, str] = {}  # element types of the schema's type variables
    for names, formals in zip((node.input, node.output), _formals(node.op_type, opset), strict=True):
        for index, name in enumerate(names):
            type = types.get(name) if name and formals else None
            if type is None:
                continue
            dtype, (variable, allowed) = type.dtype, formals[min(index, len(formals) - 1)]
            if f"tensor({dtype})" not in allowed:
                return f"opset {opset} has no {node.op_type} of {dtype}"
            if variables.setdefault(variable, dtype) != dtype:
                return f"opset {opset} has no {node.op_type} of two element types"
    return None


@cache
def _formals(op: str, opset: int) -> tuple[tuple[tuple[str, frozenset[str]], ...], ...]:
    """Return the type variables and the types that they may have, of the inputs and of the outputs."""
    schema = schema_of(op, opset)
    assert schema is not None
    return tuple(
        tuple((formal.type_str, frozenset(map(str, formal.types))) for formal in formals)
        for formals in (schema.inputs, schema.outputs)
    )
