"""What an operator costs: the protocol, and the analytic (roofline) model that needs no measurement.

A roofline (Williams, Waterman, Patterson 2009): an operator takes the longer of the time for its
arithmetic and the time for its memory traffic, plus a fixed overhead for starting it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol

from superopt.ir.term import Term
from superopt.search.cost.blocked_layout import reordered
from superopt.search.cost.device import CPU, Device
from superopt.search.cost.work import bytes_of, elements, traffic, work

__all__ = ["AnalyticCost", "CostModel", "bytes_of"]


class CostModel(Protocol):
    """Seconds that operators take."""

    @property
    def seconds_per_weight_byte(self) -> float:
        """What a byte of constant costs beyond what `cost` counts, however many operators read it: they find it in the
        cache, but it has to come from memory once a run."""

    def cost(self, term: Term) -> float:
        """Seconds for the one operator `term`, its inputs given; what depends on constants only is free."""


# Operators that add to their products, and apply a function, while they write them: for nothing.
_WITH_EPILOGUE = frozenset({"Conv", "FusedConv", "FusedGemm", "Gemm"})
_LEAST_BLOCK = 8  # channels that units for products take at once


class AnalyticCost:
    """Roofline estimate:

        seconds = overhead + max(dense / dense rate + scalar / scalar rate, bytes / bandwidth)

    by the figures of `device`; `threads` (on the CPU) scale arithmetic fully and memory traffic by their square root.
    Constants come from the cache here, once more from memory in `seconds_per_weight_byte`: whether they stay in the
    cache from run to run is a question of how large all of them are, not of how many one operator reads.
    `sizes` are values of symbolic sizes; others count as a usual one.
    """

    def __init__(self, device: Device = CPU, threads: int = 1, sizes: Mapping[str, int] | None = None) -> None:
        self.device, self.sizes = device, dict(sizes or {})
        self.threads = max(1, threads) if device.provider == "cpu" else 1
        self._share = math.sqrt(self.threads)

    @property
    def seconds_per_weight_byte(self) -> float:
        """What reading it from memory takes more than reading it from the cache."""
        return (1 / self.device.bandwidth - 1 / self.device.byte_rate(0)) / self._share

    def cost(self, term: Term) -> float:
        """Seconds for the one operator `term`."""
        if term.weight_only or term.op in ("Var", "Out"):
            return 0.0
        device = self.device
        if self.sizes:
            inputs = (None if used is None else _sized(used, used.inputs, self.sizes) for used in term.inputs)
            term = _sized(term, inputs, self.sizes)
        count, moved = work(term), traffic(term)
        values = moved.values + reordered(term, device.channel_block)
        dtype = term.types[0].dtype if term.types and term.types[0] is not None else "float"
        dense = device.dense_rate(dtype) * _fill_of_groups(term, device)
        busy = min(1.0, max(1, elements(term)) / device.full) * self.threads
        scalar = 0 if term.op in _WITH_EPILOGUE else count.scalar
        arithmetic = (count.dense / dense + scalar / device.scalar) / busy
        transfer = (values / device.byte_rate(values) + moved.weights / device.byte_rate(0)) / self._share
        return device.overhead + max(arithmetic, transfer) * device.slower.get(term.op, 1.0)


def _sized(term: Term, inputs: Iterable[Term | None], sizes: Mapping[str, int]) -> Term:
    """`term` over `inputs`, its types with symbols replaced by `sizes`."""
    types = tuple(None if type is None else type.with_sizes(dict(sizes)) for type in term.types)
    return Term.of(term.op, inputs, dict(term.attrs), types)


def _fill_of_groups(term: Term, device: Device) -> float:
    """Which part of the units for products a Conv of several groups keeps busy: c / (c + block / 2), where each has c
    channels in whole blocks (of 8 at least); else there is a kernel that is as fast as arithmetic in general."""
    if term.op not in ("Conv", "FusedConv") or term.attr("group") == 1:
        return 1.0
    kernel = term.inputs[1]
    shape = None if kernel is None or kernel.type is None else kernel.type.shape
    channels = shape[1] if shape is not None else None
    block = max(_LEAST_BLOCK, device.channel_block)
    if not isinstance(channels, int) or channels % block:
        return min(1.0, device.scalar / device.dense)
    return channels / (channels + block / 2)
