"""What an operator costs: the protocol, and the analytic (roofline) model that needs no measurement.

A roofline (Williams, Waterman, Patterson 2009): an operator takes the longer of the time for its
arithmetic and the time for its memory traffic, plus a fixed overhead for starting it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from superopt.ir.dim import Size
from superopt.ir.ops import OPS
from superopt.ir.term import Term
from superopt.ir.types import TensorType

__all__ = ["CPU", "CUDA", "AnalyticCost", "CostModel", "Device", "bytes_of", "flops"]

# What a size that is not known counts as.
_UNKNOWN_SIZE = 32
_UNKNOWN_RANK_ELEMENTS = 4096
_WIDTHS = {"double": 8, "int64": 8, "uint64": 8, "complex64": 8, "complex128": 16}
_NARROW = {"float16": 2, "bfloat16": 2, "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1}


class CostModel(Protocol):
    """Seconds that operators take."""

    @property
    def seconds_per_weight_byte(self) -> float:
        """What a byte of constant costs beyond what `cost` counts (a measurement finds it in a warm cache)."""

    def cost(self, term: Term) -> float:
        """Seconds for the one operator `term`, its inputs given; what depends on constants only is free."""


@dataclass(frozen=True)
class Device:
    """Rough speed of a device: FLOP/s of dense products, FLOP/s elsewhere, bytes/s, seconds to start an operator."""

    dense: float
    scalar: float
    bandwidth: float
    overhead: float


CPU = Device(dense=1.5e11, scalar=2e10, bandwidth=4e10, overhead=1e-6)  # one thread of a current server
CUDA = Device(dense=2e13, scalar=1e13, bandwidth=1e12, overhead=5e-6)


def bytes_of(type: TensorType | None) -> int:
    """Size in bytes; sizes that are not known count as a usual one."""
    if type is None or type.shape is None:
        return 4 * _UNKNOWN_RANK_ELEMENTS
    width = _WIDTHS.get(type.dtype) or _NARROW.get(type.dtype, 4)
    return width * _product(type.shape)


def _product(sizes: Iterable[Size]) -> int:
    return math.prod(size if isinstance(size, int) else _UNKNOWN_SIZE for size in sizes)


def _shape(term: Term | None) -> tuple[Size, ...] | None:
    return None if term is None or term.type is None else term.type.shape


# Arithmetic per element of the output.
_PER_ELEMENT: Mapping[str, int] = {"Sigmoid": 12, "Tanh": 12, "BatchNormalization": 2}


def flops(term: Term) -> int:
    """Multiplications and additions that `term` takes (0 for data movement and opaque operators)."""
    if term.op in ("MatMul", "Gemm", "Conv"):
        left, right, out = _shape(term.inputs[0]), _shape(term.inputs[1]), _shape(term)
        if left is None or right is None or out is None:
            return 0
        if term.op == "Conv":
            return 2 * _product(out) * _product(right[1:])
        inner = left[-2] if term.op == "Gemm" and term.attr("transA") else left[-1]
        return 2 * _product(out) * _product((inner,))
    if term.op in OPS and (OPS[term.op].elementwise or term.op in ("BatchNormalization", "ReduceSum")):
        source = _shape(term.inputs[0]) if term.op == "ReduceSum" else _shape(term)
        operands = max(1, len(term.inputs) - 1) if term.op == "Sum" else 1
        return _PER_ELEMENT.get(term.op, 1) * operands * _product(source or (_UNKNOWN_RANK_ELEMENTS,))
    return 0


class AnalyticCost:
    """Roofline estimate. `threads` scale arithmetic fully and memory traffic by their square root."""

    seconds_per_weight_byte = 0.0  # weights count as memory traffic of the operator that reads them

    def __init__(self, device: Device = CPU, threads: int = 1) -> None:
        self.device, self.threads = device, threads

    def cost(self, term: Term) -> float:
        """Seconds for the one operator `term`."""
        if term.weight_only or term.op in ("Var", "Out"):
            return 0.0
        device = self.device
        moved = sum(map(bytes_of, term.types)) + sum(bytes_of(i.type) for i in set(term.inputs) if i is not None)
        rate = device.dense if term.op in ("MatMul", "Gemm", "Conv") else device.scalar
        if term.op == "Conv":
            kernel = _shape(term.inputs[1])
            if kernel is not None and isinstance(kernel[1], int) and kernel[1] < 4:
                rate = device.scalar  # depthwise: too few channels to fill the vector units
        arithmetic = flops(term) / (rate * self.threads)
        traffic = moved / (device.bandwidth * math.sqrt(self.threads))
        return device.overhead + max(arithmetic, traffic)
