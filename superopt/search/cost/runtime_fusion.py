"""Epilogue fusions of ONNX Runtime, and its kernels for products, for the cost of a graph.

An operator that is fused into the operator before it takes only a share of its isolated time (`time_share`). Groups of
operators that become another one are in `fused_kernels.py`. These fusions are modelled, for values with one user:

- BatchNormalization, Mul and Add with per-channel constants after a Conv with a constant kernel are folded: free.
- `ACTIVATIONS` after a Conv (also if other operators were folded into it, and most of them if one was added to it), and
  Relu after a Gemm: free.
- Add of a Conv (or of a sum with a Conv) and another value that is computed: half price, because the Conv accumulates
  into the value. A constant has not the layout that this needs.
- Add of a constant after a two-dimensional MatMul makes a Gemm: half price, as is a Gemm's constant bias. Add of a
  vector after a product of an array of known shape and a matrix also makes a Gemm, between two Reshapes that cost
  nothing (onnxruntime/core/optimizer/matmul_add_fusion.cc).
- Mul by a scalar constant, or Div, after a MatMul or FusedMatMul becomes a factor of the product
  (matmul_scale_fusion.cc): free.

Identity, Add of zeros and Mul by ones that change no shape are removed by the runtime: free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType
from superopt.properties import fused_activations

__all__ = [
    "ACTIVATIONS", "BIAS_SHARE", "CONTEXT_DEPENDENT", "CONVOLUTIONS", "EPILOGUES", "KEEP_LAYOUT", "SUMS",
    "WITH_EPILOGUE", "bias_addition", "count_transposed_weights", "is_filled", "is_scalar", "is_stacked",
    "matrices_of_stack", "shape_of", "simplest_form", "time_share", "untransposed",
]  # fmt: skip

BIAS_SHARE = 0.5  # of the time of an Add: adding a vector within a product
# Names of the kernels that an operator may be fused into: "Conv", "Computed" (a Conv with a computed kernel, into which
# no constants are folded), "Conv+" (with a sum), "Gemm", "MatMul", "Stacked" (an array times a matrix) and "Product"
# (any other product).
_CONVS = ("Conv", "Computed")
_PRODUCTS = frozenset({"MatMul", "Stacked", "Product"})
CONVOLUTIONS = frozenset({"Conv", "FusedConv"})
# Operators that add a bias and apply an activation while they write their products, at no cost.
WITH_EPILOGUE = CONVOLUTIONS | {"FusedGemm", "Gemm"}
# HardSwish is in none of the runtime's kernels by name: x * HardSigmoid(x) is.
ACTIVATIONS = fused_activations("FusedConv").keys() | {"HardSwish"}
_NOT_AFTER_SUMS = frozenset({"Clip", "LeakyRelu"})
# Operators that run in the blocked layout of a Conv's result if an input has that layout.
KEEP_LAYOUT = ACTIVATIONS | {
    "Add", "AveragePool", "BatchNormalization", "Gelu", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Mul",
    "QuickGelu", "Sum",
}  # fmt: skip
EPILOGUES = ACTIVATIONS | {"BatchNormalization"}  # operators that may go into the operator before them
CONTEXT_DEPENDENT = EPILOGUES | {"Add", "Div", "Mul"}  # their time depends on the operators before them
_TRANSPOSES = ("transA", "transB")
_FILLED = frozenset({"Ones", "Zeros"})
SUMS = frozenset({"Add", "Sum"})


def time_share(
    term: Term, inputs: tuple[Term | None, ...], uses: Mapping[Term, int], fused_into: dict[Term, str]
) -> float:
    """Return the share of its isolated time that `term` takes, from 0 to 1.

    `fused_into` maps operators to the kind of kernel that they are part of. It must know the inputs of `term`, and
    gets an entry for `term`.
    """
    op = term.op
    if op == "Conv":
        fused_into[term] = "Computed" if inputs[1] is not None and not inputs[1].is_constant else "Conv"
        return 1.0
    if op in ("MatMul", "Gemm"):
        if len(shape_of(term) or ()) == 2:
            fused_into[term] = op
        else:
            fused_into[term] = "Stacked" if is_stacked(inputs) else "Product"
        return 1.0
    if op == "FusedMatMul":
        fused_into[term] = "Product"
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
        is_free = kind in _CONVS or (kind == "Conv+" and op not in _NOT_AFTER_SUMS) or (kind == "Gemm" and op == "Relu")
        return 0.0 if is_free and all(i is None or i.is_constant for i in inputs[1:]) else 1.0
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
            if kind == "MatMul" and y.is_constant and len(shape_of(y) or (0, 0, 0)) <= 2:
                fused_into[term] = "Gemm"
                return BIAS_SHARE
            if kind == "Stacked" and shape_of(y) == (shape_of(term) or ())[-1:]:
                return BIAS_SHARE
            if kind in (*_CONVS, "Conv+") and y.types == term.types and not y.is_constant:
                fused_into[term] = "Conv+"
                return 0.5
    return 1.0


def is_stacked(inputs: tuple[Term | None, ...]) -> bool:
    """Return True for the product of an array of known shape and a matrix."""
    a, b = inputs[:2]
    shape = None if a is None else shape_of(a)
    return (
        shape is not None and b is not None and len(shape_of(b) or ()) == 2 and all(isinstance(s, int) for s in shape)
    )


def shape_of(term: Term) -> tuple[object, ...] | None:
    """Return the sizes of a term's first output, or None if its rank is not known."""
    return None if term.type is None else term.type.shape


def _is_per_channel(constant: Term, term: Term) -> bool:
    """Return True if `constant` has one element, or one for each channel (axis 1) of `term`."""
    shape, full = shape_of(constant), shape_of(term)
    if shape is None or full is None or len(full) < 3:
        return False
    aligned = (1,) * (len(full) - len(shape)) + tuple(shape)
    return all(size == 1 or d == 1 for d, size in enumerate(aligned))


def is_scalar(term: Term) -> bool:
    """Return True for a constant of one element."""
    return term.is_constant and term.type is not None and term.type.shape in ((), (1,))


def is_filled(constant: Term) -> bool:
    """Return True for a constant of zeros or ones: the runtime simplifies operators with these."""
    return constant.op in _FILLED


def bias_addition(term: Term) -> Term | None:
    """Return the addition of a Gemm's constant bias as an operator, or None if the term has none."""
    bias = term.inputs[2] if term.op == "Gemm" and len(term.inputs) > 2 else None
    return make("Add", (term, bias)) if bias is not None and bias.is_constant else None


def simplest_form(term: Term) -> Term:
    """Return the simplest operator of the same cost, so that noise does not favour one of two equal operators.

    A constant bias is free. The runtime packs a constant matrix when it loads the model, so a product with one costs
    the same as MatMul and as Gemm, transposed or not. A FusedMatMul that transposes nothing runs MatMul's kernel.
    """
    if term.op == "FusedMatMul" and not any(term.attr(name) for name in _TRANSPOSES):
        return make("MatMul", term.inputs)
    if term.op not in ("Conv", "Gemm"):
        return term
    inputs = term.inputs
    if len(inputs) > 2 and (inputs[2] is None or inputs[2].is_constant):
        inputs = inputs[:2]
    weight = inputs[1]
    if term.op == "Gemm" and len(inputs) == 2 and not term.attr("transA") and weight is not None and weight.is_constant:
        if term.attr("transB"):
            weight = make("Transpose", (weight,), {"perm": (1, 0)})
        return make("MatMul", (inputs[0], weight))
    return make(term.op, inputs, dict(term.attrs))


def matrices_of_stack(alone: Term) -> Term:
    """Return the product of an array and a matrix as a product of two matrices: the runtime runs the same kernel."""
    if alone.op != "MatMul":
        return alone
    a, b = alone.inputs
    assert a is not None and b is not None and a.type is not None and b.type is not None
    shape, matrix = a.type.concrete(), b.type.concrete()
    if shape is None or len(shape) < 3 or matrix is None or len(matrix) != 2 or a.op != "Var":
        return alone
    rows = TensorType(a.type.dtype, (math.prod(shape[:-1]), shape[-1]))
    return make("MatMul", (var(str(a.attr("name")), rows), b))


def untransposed(term: Term) -> Term:
    """Return a Gemm with a constant transposed second operand as one that reads the constant as it is.

    The runtime packs constants when it loads a model, so both take the same time. Two measurements of the same packed
    matrix would differ by noise.
    """
    weight = term.inputs[1] if term.op == "Gemm" else None
    if weight is None or not weight.is_constant or not term.attr("transB") or weight.type is None:
        return term
    shape = weight.type.shape
    if shape is None:
        return term
    turned = Term.of("Const", (), {"hash": "turned"}, (TensorType(weight.type.dtype, shape[::-1]),))
    inputs = (term.inputs[0], turned, *term.inputs[2:])
    return Term.of("Gemm", inputs, {**dict(term.attrs), "transB": 0}, term.types)


def count_transposed_weights(term: Term) -> int:
    """Return the number of constants that a Gemm reads transposed; 0 for other operators."""
    if term.op != "Gemm":
        return 0
    return sum(
        operand is not None and operand.is_constant and term.attr(name) == 1
        for name, operand in zip(_TRANSPOSES, term.inputs, strict=False)
    )
