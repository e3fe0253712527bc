"""The kernels that ONNX Runtime has for the functions of its own domain, where providers differ.

Source: the kernels registered in `onnxruntime/contrib_ops/cuda` of version 1.31, tried on an H200.
"""

from __future__ import annotations

from superopt.ir.term import Term

__all__ = ["has_kernel"]

_CUDA_ACTIVATIONS = ("Relu",)  # of FusedConv; a session with another one does not open
_NOT_ON_CUDA = frozenset({"FusedGemm"})  # runs on the CPU, between two copies


def has_kernel(operator: Term, provider: str) -> bool:
    """Return True if ONNX Runtime has a kernel of `operator` for `provider` (`cpu` or `cuda`)."""
    if provider != "cuda":
        return True
    if operator.op == "FusedConv":
        return operator.attr("activation") in _CUDA_ACTIVATIONS
    return operator.op not in _NOT_ON_CUDA
