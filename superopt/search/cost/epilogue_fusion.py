"""Epilogue fusion: the share of its isolated time that an operator takes once it is fused into an operator before it.

The following fusions of ONNX Runtime are modelled, for values with one user:

- BatchNormalization, Mul and Add with per-channel constants after a Conv with a constant kernel are folded: free.
- Relu, Sigmoid and Tanh after a Conv (also if other operators were folded into or added to the Conv), and Relu after a
  Gemm: free.
- Add of a Conv (or of a sum with a Conv) and another value: half price, because the Conv accumulates into the value.
- Add of a constant after a two-dimensional MatMul makes a Gemm: half price, as is a Gemm's constant bias. Add of a
  vector after a product of an array of known shape and a matrix also makes a Gemm, between two Reshapes that cost
  nothing (onnxruntime/core/optimizer/matmul_add_fusion.cc).
- Mul by a scalar constant, or Div, after a MatMul becomes a factor of the product (matmul_scale_fusion.cc): free.

Identity, Add of zeros and Mul by ones that change no shape are removed by the runtime: free.
"""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.term import Term
from superopt.search.cost.runtime_fusion import is_scalar

__all__ = [
    "ACTIVATIONS", "BIAS_SHARE", "CONTEXT_DEPENDENT", "CONVOLUTIONS", "EPILOGUES", "KEEP_LAYOUT", "WITH_EPILOGUE",
    "time_share",
]  # fmt: skip

BIAS_SHARE = 0.5  # of the time of an Add: adding a vector within a product
# Kernels that an operator is fused into are named "Conv", "Conv+" (with a sum), "Gemm", "MatMul", "Stacked" (an array
# times a matrix) and "Product" (any other product).
_PRODUCTS = frozenset({"MatMul", "Stacked", "Product"})
CONVOLUTIONS = frozenset({"Conv", "FusedConv"})
# Operators that add a bias and apply an activation while they write their products, at no cost.
WITH_EPILOGUE = CONVOLUTIONS | {"FusedGemm", "Gemm"}
ACTIVATIONS = frozenset({"Relu", "Sigmoid", "Tanh"})
# Operators that run in the blocked layout of a Conv's result if an input has that layout.
KEEP_LAYOUT = ACTIVATIONS | {
    "Add", "AveragePool", "BatchNormalization", "Clip", "HardSigmoid", "LeakyRelu", "MaxPool", "Mul", "Sum",
}  # fmt: skip
EPILOGUES = ACTIVATIONS | {"BatchNormalization"}  # operators that may go into the operator before them
CONTEXT_DEPENDENT = EPILOGUES | {"Add", "Div", "Mul"}  # their time depends on the operators before them


def time_share(
    term: Term, inputs: tuple[Term | None, ...], uses: Mapping[Term, int], fused_into: dict[Term, str]
) -> float:
    """Return the share of its isolated time that `term` takes, from 0 to 1.

    `fused_into` maps operators to the kind of kernel that they are part of. It must know the inputs of `term`, and
    gets an entry for `term`.
    """
    op = term.op
    if op == "Conv":
        fused_into[term] = "Conv"
        return 1.0
    if op in ("MatMul", "Gemm"):
        if len(_shape(term) or ()) == 2:
            fused_into[term] = op
        else:
            fused_into[term] = "Stacked" if _is_stacked(inputs) else "Product"
        return 1.0
    if op == "Identity":
        return 0.0
    first = inputs[0] if inputs else None
    kind = fused_into.get(first, "") if first is not None and uses.get(first) == 1 else ""
    if op == "BatchNormalization":
        if kind == "Conv" and all(i is not None and i.is_constant for i in inputs[1:]):
            fused_into[term] = "Conv"
            return 0.0
        return 1.0
    if op in ACTIVATIONS:
        return 0.0 if kind in ("Conv", "Conv+") or (kind == "Gemm" and op == "Relu") else 1.0
    if op in ("Mul", "Div") and kind in _PRODUCTS and inputs[1] is not None and is_scalar(inputs[1]):
        return 0.0
    if op in ("Add", "Mul") and len(inputs) == 2 and first is not None and inputs[1] is not None:
        return _share_of_binary(term, first, inputs[1], uses, fused_into)
    return 1.0


def _share_of_binary(term: Term, a: Term, b: Term, uses: Mapping[Term, int], fused_into: dict[Term, str]) -> float:
    neutral = "Zeros" if term.op == "Add" else "Ones"
    for x, y in ((a, b), (b, a)):
        if y.op == neutral and x.types == term.types:
            if x in fused_into:
                fused_into[term] = fused_into[x]
            return 0.0
    for x, y in ((a, b), (b, a)):
        kind = fused_into.get(x, "") if uses.get(x) == 1 and x.types == term.types else ""
        if term.op == "Mul" and kind in _PRODUCTS and is_scalar(y):
            return 0.0
        if kind == "Conv" and y.is_constant and _is_per_channel(y, term):
            fused_into[term] = "Conv"
            return 0.0
        if term.op == "Add":
            if kind == "MatMul" and y.is_constant and len(_shape(y) or (0, 0, 0)) <= 2:
                fused_into[term] = "Gemm"
                return BIAS_SHARE
            if kind == "Stacked" and _shape(y) == (_shape(term) or ())[-1:]:
                return BIAS_SHARE
            if kind in ("Conv", "Conv+") and y.types == term.types:
                fused_into[term] = "Conv+"
                return 0.5
    return 1.0


def _is_stacked(inputs: tuple[Term | None, ...]) -> bool:
    """Return True for the product of an array of known shape and a matrix."""
    a, b = inputs[:2]
    shape = None if a is None else _shape(a)
    return shape is not None and b is not None and len(_shape(b) or ()) == 2 and all(isinstance(s, int) for s in shape)


def _shape(term: Term) -> tuple[object, ...] | None:
    return None if term.type is None else term.type.shape


def _is_per_channel(constant: Term, term: Term) -> bool:
    """Return True if `constant` has one element, or one for each channel (axis 1) of `term`."""
    shape, full = _shape(constant), _shape(term)
    if shape is None or full is None or len(full) < 3:
        return False
    aligned = (1,) * (len(full) - len(shape)) + tuple(shape)
    return all(size == 1 or d == 1 for d, size in enumerate(aligned))
