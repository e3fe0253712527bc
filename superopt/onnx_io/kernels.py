"""The kernels of ONNX Runtime that can be used, where providers differ.

Source: the kernels registered in `onnxruntime/contrib_ops/cuda` of version 1.31, tried on an H200.
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


def has_kernel(operator: Term, provider: str) -> bool:
    """Return True if ONNX Runtime has a right kernel of `operator` for `provider` (`cpu` or `cuda`)."""
    if provider != "cuda":
        return True
    if operator.op == "FusedConv":
        return operator.attr("activation") in _CUDA_ACTIVATIONS
    if operator.op in _VARIADIC:
        return len(operator.inputs) <= _MAX_OPERANDS
    return operator.op not in _NOT_ON_CUDA
