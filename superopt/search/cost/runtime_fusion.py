"""Fused kernels: groups of operators that ONNX Runtime replaces by another operator (other than epilogues).

A fused kernel may be slower than the operators that it replaces (on a CPU, SkipLayerNormalization is several times
slower), so the operators are priced as the kernel that they become:

- LayerNormalization(Add(a, b), g, h) with a, b of one three-dimensional type: SkipLayerNormalization(a, b, g, h);
- x / c -> Erf -> + 1 -> * x -> * d, in the operand orders that ONNX Runtime looks for: Gelu(x). The runtime compares
  the constants with sqrt(2) and 1/2. A region does not know its weights, and other constants do not occur in practice.

The conditions are those of onnxruntime/core/optimizer/skip_layer_norm_fusion.cc and gelu_fusion.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from superopt.ir.infer import make
from superopt.ir.term import Term

__all__ = [
    "FUSED_OPERATORS",
    "FUSION_ROOTS",
    "MAX_FUSION_DEPTH",
    "NORMALIZATIONS",
    "REQUIRED_OPERATOR",
    "SUMS",
    "FusedKernel",
    "Inputs",
    "fused_kernel",
    "is_scalar",
]

NORMALIZATIONS = frozenset({"LayerNormalization"})  # that may be fused with a sum before them
SUMS = frozenset({"Add", "Sum"})
FUSION_ROOTS = NORMALIZATIONS | {"Mul"}  # operators that can be the last one of a fused kernel
FUSED_OPERATORS = FUSION_ROOTS | {"Add", "Div", "Erf"}  # operators that can be part of a fused kernel
REQUIRED_OPERATOR = {"Mul": "Erf"}  # no kernel ends with this operator unless the graph has the other one
MAX_FUSION_DEPTH = 6  # operators on a path below a root that decide if it is fused, producers of the inputs included


class FusedKernel(NamedTuple):
    """The operator that the runtime runs, and the operators that it replaces in addition to the root."""

    term: Term
    absorbed: tuple[Term, ...]


Inputs = Mapping[Term, tuple[Term | None, ...]]


def fused_kernel(term: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    """Return the kernel that `term` and operators below it become, or None if they stay as they are.

    `inputs_of` has the inputs of each operator of the graph, `uses` the number of reads of each value. Each operator
    below `term` must have one user.
    """
    if term.op == "LayerNormalization":
        return _skip_layer_normalization(term, inputs_of, uses)
    if term.op == "Mul":
        return _gelu(term, inputs_of, uses)
    return None


def _skip_layer_normalization(norm: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    first, *weights = inputs_of[norm]
    if first is None or first.op != "Add" or uses.get(first) != 1 or norm.attr("axis") not in (-1, 2):
        return None
    a, b = inputs_of[first]
    if a is None or b is None or a.types != b.types or a.type is None or len(norm.types) != 1:
        return None
    shape = a.type.shape
    if shape is None or len(shape) != 3 or not all(isinstance(size, int) for size in shape[1:]):
        return None
    if any(weight is not None and (weight.type is None or weight.type.shape != shape[-1:]) for weight in weights):
        return None
    return FusedKernel(make("SkipLayerNormalization", (a, b, *weights), {"epsilon": norm.attr("epsilon")}), (first,))


def _gelu(last: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    for product, half in _both_orders(inputs_of.get(last, ())):
        if is_scalar(half) and product.op == "Mul" and uses.get(product) == 1:  # (x * e) * 1/2
            for x, e in _both_orders(inputs_of.get(product, ())):
                below = _erf_plus_one(e, x, inputs_of, uses)
                if below:
                    return FusedKernel(make("Gelu", (x,), {"approximate": "none"}), (product, *below))
        elif product.op == "Mul" and uses.get(product) == 1:  # (x * 1/2) * e
            for x, scalar in _both_orders(inputs_of.get(product, ())):
                below = _erf_plus_one(half, x, inputs_of, uses) if is_scalar(scalar) else ()
                if below:
                    return FusedKernel(make("Gelu", (x,), {"approximate": "none"}), (product, *below))
    return None


def _erf_plus_one(term: Term, x: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> tuple[Term, ...]:
    """Return the operators of Erf(x / c) + 1 if `term` is that, else none."""
    if term.op != "Add" or uses.get(term) != 1:
        return ()
    for erf, one in _both_orders(inputs_of.get(term, ())):
        if erf.op == "Erf" and one.op == "Ones" and uses.get(erf) == 1:
            divided = inputs_of[erf][0]
            if divided is not None and divided.op == "Div" and uses.get(divided) == 1:
                numerator, divisor = inputs_of[divided]
                if numerator is x and divisor is not None and is_scalar(divisor):
                    return term, erf, divided
    return ()


def _both_orders(inputs: tuple[Term | None, ...]) -> tuple[tuple[Term, Term], ...]:
    """Return two operands in both orders."""
    if len(inputs) != 2 or inputs[0] is None or inputs[1] is None:
        return ()
    return (inputs[0], inputs[1]), (inputs[1], inputs[0])


def is_scalar(term: Term) -> bool:
    """Return True for a constant of one element."""
    return term.is_constant and term.type is not None and term.type.shape in ((), (1,))
