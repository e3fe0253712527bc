"""Fused kernels: groups of operators that ONNX Runtime replaces by another operator.

A fused kernel may be slower than the operators that it replaces (on a CPU, SkipLayerNormalization is several times
slower), so the operators are priced as the kernel that they become:

- LayerNormalization(Add(a, b), g, h) with a, b of one three-dimensional type, whose sizes are numbers or have names:
  SkipLayerNormalization(a, b, g, h);
- x / c -> Erf -> + 1 -> * x -> * d, in the operand orders that ONNX Runtime looks for: Gelu(x). The runtime compares
  the constants with sqrt(2) and 1/2. A region does not know its weights, and other constants do not occur in practice;
- Gelu(x + b), with a constant vector b, in single precision: BiasGelu(x, b), if the sum is not part of a Gemm;
- x * d * (tanh((x + x ^ c * a) * b) + 1): FastGelu(x);
- x / sqrt(mean(x ^ c) + e) * g over the last axis, with a constant vector g: SimplifiedLayerNormalization(x, g);
- y / sqrt(mean(y ^ c) + e) * g + h over the last axis, with constant vectors g and h and y = x - mean(x):
  LayerNormalization(x, g, h), and SkipLayerNormalization as above (in half precision only from opset 17 on, which
  terms do not know);
- x * sigmoid(x) and x * sigmoid(c * x) in single precision: QuickGelu(x). The factor does not change its time.

The conditions are those of skip_layer_norm_fusion.cc, gelu_fusion.cc, bias_gelu_fusion.cc, fast_gelu_fusion.cc,
layer_norm_fusion.cc and quick_gelu_fusion.cc in onnxruntime/core/optimizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from superopt.ir.infer import make
from superopt.ir.term import Term
from superopt.onnx_io.tensor_types import is_named
from superopt.search.cost.runtime_fusion import is_scalar, is_stacked, shape_of

__all__ = [
    "FUSED_OPERATORS", "FUSION_ROOTS", "MAX_FUSION_DEPTH", "NORMALIZATIONS", "REQUIRED_OPERATORS", "FusedKernel",
    "Inputs", "fused_kernel",
]  # fmt: skip

NORMALIZATIONS = frozenset({"LayerNormalization"})  # operators that may be fused with a sum before them
FUSION_ROOTS = NORMALIZATIONS | {"Add", "Gelu", "Mul"}  # operators that can be the last one of a fused kernel
# Operators that can be part of a fused kernel.
FUSED_OPERATORS = FUSION_ROOTS | {"Div", "Erf", "Pow", "ReduceMean", "Sigmoid", "Sqrt", "Sub", "Tanh"}
# No kernel ends with this operator unless the graph has one of the others.
REQUIRED_OPERATORS = {"Add": frozenset({"Sqrt"}), "Mul": frozenset({"Erf", "Sigmoid", "Sqrt", "Tanh"})}
_NORMALIZED = frozenset({"double", "float", "float16"})  # element types of LayerNormalization in parts
MAX_FUSION_DEPTH = 10  # operators on a path below a root that decide if it is fused, producers of the inputs included


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
        gelu = _gelu(term, inputs_of, uses)
        if gelu is not None:
            return _with_bias(gelu, inputs_of, uses) or gelu
        gelu = _quick_gelu(term, inputs_of, uses) or _fast_gelu(term, inputs_of, uses)
        return gelu or _simplified_layer_normalization(term, inputs_of, uses)
    if term.op == "Add":
        return _layer_normalization(term, inputs_of, uses)
    if term.op == "Gelu" and term.attr("approximate") == "none":
        return _with_bias(FusedKernel(term, ()), inputs_of, uses)
    return None


def _skip_layer_normalization(
    norm: Term, inputs_of: Inputs, uses: Mapping[Term, int], reads: int = 1
) -> FusedKernel | None:
    """Return the kernel that adds what `norm` normalizes, or None. The normalization reads the sum `reads` times."""
    first, *weights = inputs_of.get(norm, norm.inputs)
    if first is None or first.op != "Add" or uses.get(first) != reads or norm.attr("axis") not in (-1, 2):
        return None
    a, b = _two_inputs(first, inputs_of)
    if a is None or b is None or a.types != b.types or a.type is None or len(norm.types) != 1:
        return None
    shape = a.type.shape
    if shape is None or len(shape) != 3 or not all(map(is_named, shape[1:])):
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
    """Return the operators of Erf(x / c) + 1 if `term` is that sum, else an empty tuple."""
    if term.op != "Add" or uses.get(term) != 1:
        return ()
    for erf, one in _both_orders(inputs_of.get(term, ())):
        if erf.op == "Erf" and one.op == "Ones" and uses.get(erf) == 1:
            divided = _only_input(erf, inputs_of)
            if divided is not None and divided.op == "Div" and uses.get(divided) == 1:
                numerator, divisor = _two_inputs(divided, inputs_of)
                if numerator is x and divisor is not None and is_scalar(divisor):
                    return term, erf, divided
    return ()


def _with_bias(gelu: FusedKernel, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    """Return the kernel BiasGelu(x, b) for Gelu(x + b), or None."""
    total = gelu.term.inputs[0]
    # In parts, a Gelu reads its operand twice: x * (1 + erf(x / c)).
    if total is None or total.op != "Add" or uses.get(total) != (2 if gelu.absorbed else 1):
        return None
    for x, bias in _both_orders(inputs_of.get(total, ())):
        if not bias.is_constant or shape_of(bias) != (shape_of(x) or ())[-1:] or x.types != total.types:
            continue
        is_product = x.op == "MatMul" and uses.get(x) == 1
        if is_product and (len(shape_of(x) or ()) == 2 or is_stacked(inputs_of.get(x, x.inputs))):
            return None
        if x.type is not None and x.type.dtype == "float":
            return FusedKernel(make("BiasGelu", (x, bias)), (*gelu.absorbed, total))
    return None


def _fast_gelu(last: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    for half, gate in _both_orders(inputs_of.get(last, ())):
        if half.op != "Mul" or gate.op != "Add" or uses.get(half) != 1 or uses.get(gate) != 1:
            continue
        for x, scalar in _both_orders(inputs_of.get(half, ())):
            below = _tanh_of_cubic(gate, x, inputs_of, uses) if is_scalar(scalar) else ()
            if below:
                return FusedKernel(make("FastGelu", (x,)), (half, gate, *below))
    return None


def _tanh_of_cubic(gate: Term, x: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> tuple[Term, ...]:
    """Return the operators below `gate` if it is tanh((x + x ^ c * a) * b) + 1, else an empty tuple."""
    for tanh, one in _both_orders(inputs_of.get(gate, ())):
        scaled = _only_input(tanh, inputs_of) if tanh.op == "Tanh" and uses.get(tanh) == 1 else None
        if one.op != "Ones" or scaled is None:
            continue
        total = _scaled_by_scalar(scaled, inputs_of, uses)
        if total is None or total.op != "Add" or uses.get(total) != 1:
            continue
        for first, cubic in _both_orders(inputs_of.get(total, ())):
            power = _scaled_by_scalar(cubic, inputs_of, uses)
            if first is x and power is not None and power.op == "Pow" and uses.get(power) == 1:
                base, exponent = _two_inputs(power, inputs_of)
                if base is x and exponent is not None and is_scalar(exponent):
                    return tanh, scaled, total, cubic, power
    return ()


def _scaled_by_scalar(term: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> Term | None:
    """Return y if `term` is y times a constant number, with one user; else None."""
    if term.op == "Mul" and uses.get(term) == 1:
        for y, factor in _both_orders(inputs_of.get(term, ())):
            if is_scalar(factor):
                return y
    return None


def _layer_normalization(last: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    for shift, product in _both_orders(inputs_of.get(last, ())):
        if product.op != "Mul" or not _is_vector(shift, last) or uses.get(product) != 1:
            continue
        for scale, normed in _both_orders(inputs_of.get(product, ())):
            if not _is_vector(scale, last) or normed.op != "Div" or uses.get(normed) != 1:
                continue
            centred, root = _two_inputs(normed, inputs_of)
            if centred is None or root is None or centred.op != "Sub" or uses.get(centred) != 2:
                continue
            below, (x, mean) = _root_mean_square(root, centred, inputs_of, uses), _two_inputs(centred, inputs_of)
            if not below or x is None or mean is None or x.type is None or x.type.dtype not in _NORMALIZED:
                continue
            if not _is_mean_of_rows(mean) or uses.get(mean) != 1 or _only_input(mean, inputs_of) is not x:
                continue
            inner = _simplified_layer_normalization(product, inputs_of, uses)
            counted = () if inner is None else inner.absorbed  # in the price of the product already
            absorbed = (product, *(term for term in (normed, *below, centred, mean) if term not in counted))
            norm = make("LayerNormalization", (x, scale, shift), {"axis": -1, "epsilon": 1e-5})
            skip = _skip_layer_normalization(norm, inputs_of, uses, reads=2)
            return FusedKernel(norm, absorbed) if skip is None else FusedKernel(skip.term, (*absorbed, *skip.absorbed))
    return None


def _is_vector(constant: Term, full: Term) -> bool:
    """Return True for a constant with the last size of `full` as its shape."""
    return constant.is_constant and shape_of(constant) == (shape_of(full) or ())[-1:]


def _is_mean_of_rows(term: Term) -> bool:
    """Return True for the mean over the last axis, which stays."""
    last = len(shape_of(term) or ()) - 1
    return term.op == "ReduceMean" and term.attr("keepdims") == 1 and term.attr("axes") in ((-1,), (last,))


def _simplified_layer_normalization(last: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    for scale, normed in _both_orders(inputs_of.get(last, ())):
        if not _is_vector(scale, last) or uses.get(normed) != 1:
            continue
        for x, root, quotient in _quotients(normed, inputs_of, uses):
            below = _root_mean_square(root, x, inputs_of, uses)
            if below and x.type is not None and x.type.dtype == "float":
                kernel = make("SimplifiedLayerNormalization", (x, scale), {"axis": -1, "epsilon": 1e-5})
                return FusedKernel(kernel, (*quotient, *below))
    return None


def _quotients(
    term: Term, inputs_of: Inputs, uses: Mapping[Term, int]
) -> Iterator[tuple[Term, Term, tuple[Term, ...]]]:
    """Yield x, y, and the operators of x / y, if `term` is that or x * (1 / y)."""
    for x, y in _both_orders(inputs_of.get(term, ())):
        if term.op == "Div":
            yield x, y, (term,)
            return
        if term.op == "Mul" and y.op == "Div" and uses.get(y) == 1:
            one, divisor = _two_inputs(y, inputs_of)
            if one is not None and one.op == "Ones" and divisor is not None:
                yield x, divisor, (term, y)


def _root_mean_square(root: Term, x: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> tuple[Term, ...]:
    """Return the operators of sqrt(mean(x ^ c) + e) over the last axis if `root` is that, else an empty tuple."""
    total = _only_input(root, inputs_of) if root.op == "Sqrt" and uses.get(root) == 1 else None
    if total is None or total.op != "Add" or uses.get(total) != 1:
        return ()
    for mean, epsilon in _both_orders(inputs_of.get(total, ())):
        if not _is_mean_of_rows(mean) or uses.get(mean) != 1 or not is_scalar(epsilon):
            continue
        power = _only_input(mean, inputs_of)
        if power is not None and power.op == "Pow" and uses.get(power) == 1:
            base, exponent = _two_inputs(power, inputs_of)
            if base is x and exponent is not None and is_scalar(exponent):
                return root, total, mean, power
    return ()


def _quick_gelu(last: Term, inputs_of: Inputs, uses: Mapping[Term, int]) -> FusedKernel | None:
    for x, gate in _both_orders(inputs_of.get(last, ())):
        if gate.op != "Sigmoid" or uses.get(gate) != 1 or x.type is None or x.type.dtype != "float" or not x.type.shape:
            continue
        kernel, inner = make("QuickGelu", (x,), {"alpha": 1.0}), _only_input(gate, inputs_of)
        if inner is x:
            return FusedKernel(kernel, (gate,))
        if inner is None or inner.op != "Mul" or uses.get(inner) != 1:
            continue
        if any(a is x and is_scalar(factor) for a, factor in _both_orders(inputs_of.get(inner, ()))):
            return FusedKernel(kernel, (gate, inner))
    return None


def _only_input(term: Term, inputs_of: Inputs) -> Term | None:
    """Return the input of an operator; None if it is no operator of the graph, as one of weights, which is folded."""
    return inputs_of.get(term, (None,))[0]


def _two_inputs(term: Term, inputs_of: Inputs) -> tuple[Term | None, Term | None]:
    """Return the two inputs of an operator; twice None if it is no operator of the graph."""
    first, second = inputs_of.get(term, (None, None))
    return first, second


def _both_orders(inputs: tuple[Term | None, ...]) -> tuple[tuple[Term, Term], ...]:
    """Return two operands in both orders."""
    if len(inputs) != 2 or inputs[0] is None or inputs[1] is None:
        return ()
    return (inputs[0], inputs[1]), (inputs[1], inputs[0])
