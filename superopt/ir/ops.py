"""The operator table: one row for each ONNX operator that rules may mention.

Terms hold one canonical form of each operator, whatever the opset of the file: parameters that newer
opsets pass as constant inputs (Slice's starts, Split's sizes, Pad's pads, axes) are attributes, defaults
are filled in, `auto_pad` is resolved, and axes count from the end (-1 is the last), so that one rule
serves every rank. An operator that is not in the table is opaque: carried, never rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from superopt.ir.shapes import RULES, IllTyped, Need, ShapeRule, ignore
from superopt.ir.term import Attr, AttrVar, Term, Types, rebuild
from superopt.ir.types import TensorType

__all__ = ["OPS", "REAL_ATTRS", "IllTyped", "OpSpec", "infer", "is_known", "make", "remake", "replace"]

# Attributes that are real numbers; they do not bear on shapes.
REAL_ATTRS = frozenset({"alpha", "beta", "epsilon", "value"})


@dataclass(frozen=True)
class OpSpec:
    """One operator: how many inputs, which attributes in canonical form, and its shape rule."""

    name: str
    inputs: tuple[int, int | None]  # least and most; None: any number
    attrs: tuple[str, ...]
    shape_rule: ShapeRule
    commutative: bool = False  # the first two operands may change places
    elementwise: bool = False


def _spec(
    name: str, least: int, most: int | None, attrs: str = "", commutative: bool = False, elementwise: bool = False
) -> OpSpec:
    return OpSpec(name, (least, most), tuple(attrs.split()), RULES[name], commutative, elementwise)


OPS: Mapping[str, OpSpec] = {
    spec.name: spec
    for spec in (
        _spec("Zeros", 0, 0, "shape"),
        _spec("Ones", 0, 0, "shape"),
        _spec("Eye", 0, 0, "n"),
        _spec("Dirac", 0, 0, "group shape"),
        _spec("MatMul", 2, 2),
        _spec("Gemm", 2, 3, "alpha beta transA transB"),
        _spec("Add", 2, 2, commutative=True, elementwise=True),
        _spec("Sub", 2, 2, elementwise=True),
        _spec("Mul", 2, 2, commutative=True, elementwise=True),
        _spec("Sum", 1, None, commutative=True, elementwise=True),
        _spec("Neg", 1, 1, elementwise=True),
        _spec("Identity", 1, 1, elementwise=True),
        _spec("Relu", 1, 1, elementwise=True),
        _spec("Sigmoid", 1, 1, elementwise=True),
        _spec("Tanh", 1, 1, elementwise=True),
        _spec("Concat", 1, None, "axis"),
        _spec("Split", 1, 1, "axis split"),
        _spec("Slice", 1, 1, "axes ends starts steps"),
        _spec("Transpose", 1, 1, "perm"),
        _spec("Pad", 1, 1, "pads value"),
        _spec("Unsqueeze", 1, 1, "axes"),
        _spec("Squeeze", 1, 1, "axes"),
        _spec("ReduceSum", 1, 1, "axes keepdims"),
        _spec("Conv", 2, 3, "dilations group pads strides"),
        _spec("BatchNormalization", 5, 5, "epsilon"),
    )
}


def is_known(op: str) -> bool:
    """Whether rules may mention `op` (leaves and `Out` aside)."""
    return op in OPS


def make(
    op: str,
    inputs: Iterable[Term | None] = (),
    attrs: Mapping[str, Attr] | None = None,
    dtype: str = "float",
    need: Need = ignore,
) -> Term:
    """The term `op[attrs](inputs)` with its types inferred (None inside patterns, where inputs are untyped).

    `need(relation, a, b)` is told what must hold of symbolic sizes for the term to be well-typed.
    `dtype` is the element type of a closed-form constant. Raises IllTyped where sizes contradict.
    """
    inputs = tuple(inputs)
    attrs = attrs or {}
    if not REAL_ATTRS.isdisjoint(attrs):  # 1 and 1.0 are equal, so they are one term: let it have one digest too
        attrs = {k: float(v) if k in REAL_ATTRS and isinstance(v, int) else v for k, v in attrs.items()}
    if op == "Out":
        node, index = inputs[0], attrs["index"]
        assert node is not None and isinstance(index, int)
        return node.out(index)
    return Term.of(op, inputs, attrs, infer(op, inputs, attrs, dtype, need))


def infer(
    op: str, inputs: tuple[Term | None, ...], attrs: Mapping[str, Attr], dtype: str, need: Need = ignore
) -> Types:
    """Types of the outputs of `op`; one None for each output where an input's type is unknown."""
    spec = OPS[op]
    least, most = spec.inputs
    if len(inputs) < least or (most is not None and len(inputs) > most):
        raise IllTyped(f"{op} does not take {len(inputs)} inputs")
    if any(isinstance(value, AttrVar) for name, value in attrs.items() if name not in REAL_ATTRS):
        return (None,)
    known: list[TensorType | None] = []
    for term in inputs:
        if term is not None and (term.type is None or term.type.shape is None):
            sizes = attrs["split"] if op == "Split" else (0,)
            return (None,) * (len(sizes) if isinstance(sizes, tuple) else 1)
        known.append(None if term is None else term.type)
    shapes = spec.shape_rule([None if t is None else t.shape for t in known], attrs, need)
    first = next((t for t in known if t is not None), None)
    return tuple(TensorType(first.dtype if first else dtype, shape) for shape in shapes)


def remake(term: Term, inputs: tuple[Term | None, ...]) -> Term:
    """`term` over other inputs: types are kept for opaque operators and where the inputs have the types that they had
    (a file may know more of them than is inferred here, or less be certain), and inferred anew elsewhere."""
    if term.op == "Out":
        node = inputs[0]
        assert node is not None
        index = term.attr("index")
        assert isinstance(index, int)
        return node.out(index)
    same = all(
        new is old or (new is not None and old is not None and new.types == old.types)
        for new, old in zip(inputs, term.inputs, strict=True)
    )
    if same or term.op not in OPS:
        return Term.of(term.op, inputs, dict(term.attrs), term.types)
    fresh = make(term.op, inputs, dict(term.attrs))
    if None in fresh.types:
        return Term.of(term.op, inputs, dict(term.attrs), term.types)
    return fresh


def replace(roots: Iterable[Term], replaced: Mapping[Term, Term]) -> tuple[Term, ...]:
    """`roots` with the keys of `replaced` exchanged for its values and everything above them remade."""
    return rebuild(roots, replaced, remake)
