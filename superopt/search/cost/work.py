"""How much an operator does: the arithmetic of its definition, and the bytes of its values.

What is counted is what the definition of the operator says, one for each addition, multiplication or comparison; a
function such as Exp counts as the polynomial by which kernels compute it. Sums of products (`Work.dense`) run
at another rate than the rest (`Work.scalar`), so they are counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from superopt.evaluate import MOVES
from superopt.ir.dim import Size
from superopt.ir.infer import OPERATORS
from superopt.ir.term import Term
from superopt.ir.types import TensorType

__all__ = ["Traffic", "Work", "bytes_of", "elements", "flops", "traffic", "work"]

# What a size that is not known counts as.
_UNKNOWN_SIZE = 32
_UNKNOWN_RANK_ELEMENTS = 4096
_WIDTHS = {"double": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16}
_NARROW = {"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1}

# Arithmetic of a function of one number, where it is more than one instruction.
_EXP, _LOG, _DIVIDE = 8, 10, 4
_PER_ELEMENT: Mapping[str, int] = {
    **dict.fromkeys(("Reciprocal", "Div", "Sqrt"), _DIVIDE),
    **dict.fromkeys(("Clip", "LeakyRelu", "PRelu", "ThresholdedRelu"), 2),
    **dict.fromkeys(("HardSigmoid", "Softsign"), 2 + _DIVIDE),
    "HardSwish": 5,
    "Exp": _EXP,
    "Log": _LOG,
    **dict.fromkeys(("Sigmoid", "Tanh"), _EXP + _DIVIDE),
    **dict.fromkeys(("Elu", "Celu", "Selu"), 3 + _EXP),
    "Softplus": _EXP + _LOG,
    "Mish": 3 + 2 * _EXP + _LOG,
    "Erf": 2 * _EXP,
    **dict.fromkeys(("Gelu", "BiasGelu"), 4 + 2 * _EXP),
    **dict.fromkeys(("FastGelu", "QuickGelu"), 6 + _EXP + _DIVIDE),
    "Pow": _EXP + _LOG,
    "BatchNormalization": 2,  # mean, variance, scale and bias are one factor and one summand a channel
    "InstanceNormalization": 8,  # mean (1), variance (3), the two from x (2), scale and bias (2)
    "GroupNormalization": 8,
    "LayerNormalization": 8,
    "SkipLayerNormalization": 9,
    "RMSNormalization": 4,
    "SimplifiedLayerNormalization": 4,
    "SkipSimplifiedLayerNormalization": 5,
    "LpNormalization": 3,
    "Softmax": 3 + _EXP + _DIVIDE,  # maximum, difference, sum
    "LogSoftmax": 4 + _EXP,
}
# Arithmetic for each element of the input: the sum, or whatever takes its place, and the function inside it.
_PER_INPUT_ELEMENT: Mapping[str, int] = {
    **dict.fromkeys(("CumSum", "GlobalAveragePool", "GlobalMaxPool"), 1),
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceLogSum"), 1),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceSumSquare"), 2),
    "ReduceLogSumExp": 3 + _EXP,
}
_VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Unsqueeze"})
_SELECTIONS = frozenset({"Gather", "GatherElements", "GatherND", "Slice"})


class Work(NamedTuple):
    """Additions, multiplications and the like: of sums of products, and of all else."""

    dense: int = 0
    scalar: int = 0


class Traffic(NamedTuple):
    """Bytes read and written: of values that are computed, and of constants."""

    values: int = 0
    weights: int = 0


def work(term: Term) -> Work:
    """The arithmetic of the one operator `term`; none for data movement and operators that are not known here.

    A value whose size is not known counts as one of a usual size.
    """
    count = _COUNTS.get(term.op)
    if count is not None:
        known = all(i is None or _shape(i) is not None for i in term.inputs) and _shape(term) is not None
        return count(term) if known else Work(scalar=_UNKNOWN_RANK_ELEMENTS)
    if term.op in _PER_INPUT_ELEMENT:
        return Work(scalar=_PER_INPUT_ELEMENT[term.op] * elements(term.inputs[0]))
    if term.op in _PER_ELEMENT or (term.op in OPERATORS and term.op not in MOVES):
        operands = max(1, len(term.inputs) - 1) if term.op in ("Max", "Min", "Sum") else 1
        return Work(scalar=_PER_ELEMENT.get(term.op, 1) * operands * elements(term))
    return Work()


def flops(term: Term) -> int:
    """All arithmetic of `work(term)`."""
    return sum(work(term))


def traffic(term: Term) -> Traffic:
    """The bytes that the one operator `term` reads and writes: each input once, though used twice.

    What only gives a shape another name moves nothing, and what selects reads no more than it gives.
    """
    op = term.op.rpartition("::")[2]
    if op in _VIEWS:
        return Traffic()
    written = sum(map(bytes_of, term.types))
    read = [0, 0]
    for used in set(term.inputs):
        if used is not None:
            size = bytes_of(used.type)
            read[used.weight_only] += min(size, written) if op in _SELECTIONS else size
    return Traffic(written + read[False], read[True])


def elements(value: Term | None) -> int:
    """Number of elements of a value (of the first output, of an operator)."""
    shape = _shape(value)
    return _UNKNOWN_RANK_ELEMENTS if shape is None else _product(shape)


def bytes_of(type: TensorType | None) -> int:
    """Size in bytes; sizes that are not known count as a usual one."""
    if type is None or type.shape is None:
        return 4 * _UNKNOWN_RANK_ELEMENTS
    width = _WIDTHS.get(type.dtype) or _NARROW.get(type.dtype, 4)
    return width * _product(type.shape)


def _product(sizes: Iterable[Size]) -> int:
    return math.prod(size if isinstance(size, int) else _UNKNOWN_SIZE for size in sizes)


def _shape(value: Term | None) -> tuple[Size, ...] | None:
    types = () if value is None else value.types
    return types[0].shape if types and types[0] is not None else None


def _sizes(value: Term | None) -> tuple[int, ...]:
    return tuple(size if isinstance(size, int) else _UNKNOWN_SIZE for size in _shape(value) or ())


def _given(term: Term, position: int) -> bool:
    return len(term.inputs) > position and term.inputs[position] is not None


def _activation(term: Term) -> int:
    name = dict(term.attrs).get("activation")
    return _PER_ELEMENT.get(name, 1) if isinstance(name, str) else 0


def _matmul(term: Term) -> Work:
    """out[.., i, j] = sum over k of left[.., i, k] right[.., k, j]"""
    left = _sizes(term.inputs[0])
    inner = left[-2] if dict(term.attrs).get("transA") else left[-1]
    after = _given(term, 2) + _activation(term)
    return Work(2 * elements(term) * inner, after * elements(term))


def _conv(term: Term) -> Work:
    """out[n, o, p] = sum over c, k of x[n, c, s p + d k] w[o, c, k]"""
    after = _given(term, 2) + _given(term, 3) + _activation(term)
    return Work(2 * elements(term) * math.prod(_sizes(term.inputs[1])[1:]), after * elements(term))


def _conv_transpose(term: Term) -> Work:
    """out[n, o, s p + d k] += x[n, c, p] w[c, o, k]"""
    inner = math.prod(_sizes(term.inputs[1])[1:])
    return Work(2 * elements(term.inputs[0]) * inner, _given(term, 2) * elements(term))


def _einsum(term: Term) -> Work:
    """For each assignment of the letters: the product of all operands, and its place in the sum."""
    equation = term.attr("equation")
    assert isinstance(equation, str)
    left, _, right = equation.partition("->")
    sizes: dict[str, int] = {}
    for letters, operand in zip(left.split(","), term.inputs, strict=True):
        sizes.update(zip(letters, _sizes(operand), strict=True))
    operands, sums = len(term.inputs), len(sizes) > len(right)
    return Work((operands - 1 + sums) * math.prod(sizes.values()))


def _pool(term: Term) -> Work:
    kernel: Any = term.attr("kernel_shape")
    return Work(scalar=elements(term) * _product(kernel))


def _products_of_heads(batch: int, rows: int, columns: int, hidden: int, values: int, heads: int) -> Work:
    """Softmax(query key' s) value: `rows` queries of `columns` keys, for each of the heads."""
    softmax = batch * heads * rows * columns * (1 + _PER_ELEMENT["Softmax"])
    return Work(2 * batch * rows * columns * (hidden + values), softmax)


def _heads(term: Term) -> int:
    heads = term.attr("num_heads")
    return heads if isinstance(heads, int) else 1


def _multi_head_attention(term: Term) -> Work:
    query, key, value = (_sizes(i) for i in term.inputs[:3])
    return _products_of_heads(query[0], query[1], key[1], query[2], value[2], _heads(term))


def _attention(term: Term) -> Work:
    """The products of `MultiHeadAttention`, of x W + b cut into three."""
    (batch, rows, inner), (_, three) = _sizes(term.inputs[0]), _sizes(term.inputs[1])
    heads = _products_of_heads(batch, rows, rows, three // 3, three // 3, _heads(term))
    projected = batch * rows * three
    return Work(heads.dense + 2 * projected * inner, heads.scalar + projected)


def _recurrent(term: Term) -> Work:
    """In each step each gate multiplies its rows of W by x, and of R by what the step before gave."""
    (steps, batch, _), recurrence = _sizes(term.inputs[0]), _sizes(term.inputs[2])
    per_step = sum(elements(weights) for weights in term.inputs[1:3])
    gates = batch * math.prod(recurrence[:2])  # directions, gates x hidden
    return Work(2 * steps * batch * per_step, steps * gates * (2 + _PER_ELEMENT["Tanh"]))


_COUNTS: Mapping[str, Callable[[Term], Work]] = {
    **dict.fromkeys(("MatMul", "FusedMatMul", "Gemm", "FusedGemm"), _matmul),
    **dict.fromkeys(("Conv", "FusedConv"), _conv),
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    "MultiHeadAttention": _multi_head_attention,
    "Attention": _attention,
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _recurrent),
}
