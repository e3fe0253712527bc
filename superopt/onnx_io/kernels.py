"""The kernels of ONNX Runtime that can be used, where providers or element types differ.

Sources: the kernels registered in `onnxruntime/contrib_ops/cuda` of version 1.31, tried on an H200; for double, the
schemas and kernels that version 1.32 lists for the CPU, and its `docs/OperatorKernels.md` for CUDA.
"""

from __future__ import annotations

from superopt.ir.term import Term

__all__ = ["has_kernel"]

_CUDA_ACTIVATIONS = ("Relu",)  # of FusedConv; a session with another one does not open
_NOT_ON_CUDA = frozenset({"FusedGemm"})  # runs on the CPU, between two copies
# Wrong on CUDA from the third operand on: shapes (1, 3, 5), (4, 1, 5), (4, 3, 1) or (4, 3, 5, 5), (1, 4, 3, 5, 5),
# (1, 4, 1, 5, 5) give sums that differ from the CPU's by as much as the sums themselves.
_VARIADIC = frozenset({"Max", "Min", "Sum"})
_MAX_OPERANDS = 2
# Without a kernel of double, for all providers and on the CPU. A session with one does not open. There is no such list
# for types of 16 bits: where a kernel of float16 lacks, the runtime converts to float.
_NO_DOUBLE = frozenset({
    "Attention", "FastGelu", "FusedConv", "FusedGemm", "MultiHeadAttention", "RotaryEmbedding",
    "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
})  # fmt: skip
_NO_DOUBLE_ON_CPU = _NO_DOUBLE | frozenset({
    "AveragePool", "BiasGelu", "Conv", "ConvTranspose", "Elu", "Erf", "Gelu", "GlobalAveragePool", "GlobalMaxPool",
    "HardSigmoid", "InstanceNormalization", "LRN", "LeakyRelu", "MeanVarianceNormalization", "OneHot", "PRelu",
    "QuantizeLinear", "QuickGelu", "Resize", "Selu", "Softplus", "Softsign", "ThresholdedRelu",
})  # fmt: skip


def has_kernel(operator: Term, provider: str) -> bool:
    """Return True if ONNX Runtime has a right kernel of `operator` for `provider` (`cpu` or `cuda`).

    Of a pattern, whose operands have no types, it may not have that of each match.
    """
    if operator.op in (_NO_DOUBLE if provider == "cuda" else _NO_DOUBLE_ON_CPU) and _is_double(operator):
        return False
    if provider != "cuda":
        return True
    if operator.op == "FusedConv":
        return operator.attr("activation") in _CUDA_ACTIVATIONS
    if operator.op in _VARIADIC:
        return len(operator.inputs) <= _MAX_OPERANDS
    return operator.op not in _NOT_ON_CUDA


def _is_double(operator: Term) -> bool:
    first = operator.inputs[0] if operator.inputs else None
    return first is not None and first.type is not None and first.type.dtype == "double"
