"""Kernels that ONNX Runtime makes of several operators, where they are no mere epilogue of the first one.

They may be slower than what they replace (its SkipLayerNormalization is, several times, on a CPU), so each is priced as
the operator that it becomes:
- LayerNormalization(Add(a, b), g, h) with a, b of one three-dimensional type: SkipLayerNormalization(a, b, g, h);
- x / c -> Erf -> + 1 -> * x -> * d, in the orders that ONNX Runtime looks for: Gelu(x). It compares the constants with
  sqrt(2) and 1/2; a region does not know its weights, but nobody writes this with others.
Conditions as in onnxruntime/core/optimizer/skip_layer_norm_fusion.cc and gelu_fusion.cc.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from superopt.ir.infer import make
from superopt.ir.term import Term

__all__ = ["DEPTH", "KERNELS", "NEEDS", "PARTS", "Inputs", "Kernel", "is_scalar", "kernel"]

KERNELS = frozenset({"LayerNormalization", "Mul"})  # operators that may be the last of one
PARTS = KERNELS | {"Add", "Div", "Erf"}  # operators that one is made of
NEEDS = {"Mul": "Erf"}  # there is none of this last operator without that one
DEPTH = 6  # how many operators on a way from such an operator down may decide whether it is, its inputs' makers too


class Kernel(NamedTuple):
    """An operator that the runtime runs, and those that it replaces beside the last one."""

    term: Term
    absorbed: tuple[Term, ...]


Inputs = Mapping[Term, tuple[Term | None, ...]]


def kernel(term: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> Kernel | None:
    """What `term` and operators below it, each with one user, become; None where they stay as they are."""
    if term.op == "LayerNormalization":
        return _skip(term, inputs_of, uses)
    if term.op == "Mul":
        return _gelu(term, inputs_of, uses)
    return None


def _skip(norm: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> Kernel | None:
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
    return Kernel(make("SkipLayerNormalization", (a, b, *weights), {"epsilon": norm.attr("epsilon")}), (first,))


def _gelu(last: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> Kernel | None:
    for product, half in _both(inputs_of.get(last, ())):
        if is_scalar(half) and product.op == "Mul" and uses.get(product) == 1:  # (x * e) * 1/2
            for x, e in _both(inputs_of.get(product, ())):
                below = _one_plus_erf(e, x, inputs_of, uses)
                if below:
                    return Kernel(make("Gelu", (x,), {"approximate": "none"}), (product, *below))
        elif product.op == "Mul" and uses.get(product) == 1:  # (x * 1/2) * e
            for x, scalar in _both(inputs_of.get(product, ())):
                below = _one_plus_erf(half, x, inputs_of, uses) if is_scalar(scalar) else ()
                if below:
                    return Kernel(make("Gelu", (x,), {"approximate": "none"}), (product, *below))
    return None


def _one_plus_erf(term: Term, x: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> tuple[Term, ...]:
    """The operators of Erf(x / c) + 1; none where `term` is no such thing."""
    if term.op != "Add" or uses.get(term) != 1:
        return ()
    for erf, one in _both(inputs_of.get(term, ())):
        if erf.op == "Erf" and one.op == "Ones" and uses.get(erf) == 1:
            divided = inputs_of[erf][0]
            if divided is not None and divided.op == "Div" and uses.get(divided) == 1:
                numerator, divisor = inputs_of[divided]
                if numerator is x and divisor is not None and is_scalar(divisor):
                    return term, erf, divided
    return ()


def _both(inputs: tuple[Term | None, ...]) -> tuple[tuple[Term, Term], ...]:
    """Two operands in both orders."""
    if len(inputs) != 2 or inputs[0] is None or inputs[1] is None:
        return ()
    return (inputs[0], inputs[1]), (inputs[1], inputs[0])


def is_scalar(term: Term) -> bool:
    """Whether it is a constant of one element."""
    return term.weight_only and term.type is not None and term.type.shape in ((), (1,))
