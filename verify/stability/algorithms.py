"""Operators that ONNX Runtime computes in another way than their definition states: the order that it rounds in.

The value is that of the definition; only error bounds use these terms.
"""

from __future__ import annotations

from superopt.ir.infer import make
from superopt.ir.term import Term
from superopt.ops.equation import unfold

__all__ = ["as_computed"]


def as_computed(term: Term) -> Term:
    """Return an equal term of simpler operators that rounds as ONNX Runtime rounds a composite operator."""
    return _batch_normalization(term) if term.op == "BatchNormalization" else unfold(term)


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
