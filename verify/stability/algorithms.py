"""Operators that ONNX Runtime computes in another way than their definition states: the order that it rounds in.

The value is that of the definition; only error bounds use these terms.
"""

from __future__ import annotations

from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr, Term, node_of
from superopt.ops.equation import unfold

__all__ = ["as_computed", "is_computed_by_others"]


def is_computed_by_others(term: Term) -> bool:
    """Return True if the rounding of an operator's output is that of simpler ones."""
    node = node_of(term)
    if node.op not in OPERATORS or (term is node and len(node.types) > 1):
        return False
    return OPERATORS[node.op].meaning is None or (node.op == "Sum" and len(node.inputs) > 2)


def as_computed(term: Term) -> Term:
    """Return an equal term of simpler operators that rounds as ONNX Runtime rounds this one."""
    if term.op == "BatchNormalization":
        return _batch_normalization(term)
    if term.op == "Sum":
        return _sum(term)
    if term.op in ("Softmax", "LogSoftmax"):
        return _softmax(term)
    return unfold(term)


def _sum(term: Term) -> Term:
    """((x + y) + z) + ...: the operands are added from the first to the last."""
    first, *others = (i for i in term.inputs if i is not None)
    for other in others:
        first = make("Add", (first, other), {})
    return first


def _softmax(term: Term) -> Term:
    """exp(x - m) / sum of exp(x - m), where m is the largest element along the axis; its logarithm likewise."""
    (x,) = (i for i in term.inputs if i is not None)
    axes: dict[str, Attr] = {"axes": (term.attr("axis"),), "keepdims": 1}
    shifted = make("Sub", (x, make("ReduceMax", (x,), axes)), {})
    powers = make("Exp", (shifted,), {})
    total = make("ReduceSum", (powers,), axes)
    if term.op == "LogSoftmax":
        return make("Sub", (shifted, make("Log", (total,), {})), {})
    return make("Div", (powers, total), {})


def _batch_normalization(term: Term) -> Term:
    """x * k + (bias - mean * k), where k = scale / sqrt(var + epsilon): the kernel for CPUs folds the statistics."""
    x, scale, bias, mean, var = (i for i in term.inputs if i is not None)
    assert x.type is not None and x.type.rank is not None
    dtype = x.type.dtype
    axes = {"axes": tuple(range(1, x.type.rank - 1))}
    epsilon = make("ConstantOfShape", (), {"shape": (), "value": term.attr("epsilon")}, dtype)
    root = make("Sqrt", (make("Add", (var, epsilon), {}),), {})
    factor = make("Mul", (scale, make("Reciprocal", (root,), {})), {})
    offset = make("Sub", (bias, make("Mul", (mean, factor), {})), {})
    wide_factor, wide_offset = (make("Unsqueeze", (v,), axes) for v in (factor, offset))
    return make("Add", (make("Mul", (x, wide_factor), {}), wide_offset), {})
