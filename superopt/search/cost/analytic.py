"""The cost of one operator: the protocol, and an analytic (roofline) model that needs no measurement.

In a roofline model (Williams, Waterman, Patterson 2009) an operator takes the longer of the time for its arithmetic
and the time for its memory traffic, plus a fixed overhead for starting it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from superopt.ir.term import Term
from superopt.search.cost.blocked_layout import is_blocked, reordered_bytes, share_in_blocks, unfolded_bytes
from superopt.search.cost.concrete import concrete_attrs
from superopt.search.cost.device import CPU, Device
from superopt.search.cost.kernel_kind import MIN_CHANNEL_BLOCK, kinds_of
from superopt.search.cost.runtime_fusion import CONVOLUTIONS, WITH_EPILOGUE
from superopt.search.cost.work import bytes_of, elements, traffic, work

__all__ = ["AnalyticCost", "CostModel", "Roofline", "bytes_of"]


class CostModel(Protocol):
    """Seconds that operators take."""

    @property
    def seconds_per_weight_byte(self) -> float:
        """Seconds for each byte of a constant, in addition to `cost`, counted once however many operators read it.

        `cost` assumes that constants are in the cache, but each run has to fetch them from memory once.
        """

    def cost(self, term: Term) -> float:
        """Return the seconds for the operator `term` alone, without its inputs. Constant expressions are free."""


class Roofline(NamedTuple):
    """Seconds of an operator's arithmetic and of its memory traffic: it takes the longer of the two."""

    arithmetic: float
    traffic: float


class AnalyticCost:
    """Roofline estimate of an operator's time:

        seconds = start * kernels
                  + max(factor * (dense / dense rate + scalar / scalar rate), factor * bytes / bandwidth)
                  + reordered bytes / bandwidth

    The rates are those of `device`, and the factors those of the kind of kernel. Images are reordered by other kernels
    (`blocked_layout`). `threads` (on the CPU) scale arithmetic fully and memory traffic by their square
    root, unless the device was measured with all threads of the target. `cost` reads constants from the cache;
    `seconds_per_weight_byte` adds one read from memory. The two are separate because constants stay in the cache from
    run to run only if all constants of the model fit into it. `sizes` has the values of symbolic sizes; an unknown size
    counts as a usual one.
    """

    def __init__(self, device: Device = CPU, threads: int = 1, sizes: Mapping[str, int] | None = None) -> None:
        self.device, self.sizes = device, dict(sizes or {})
        self.threads = max(1, threads) if device.provider == "cpu" and not device.measured else 1
        self._bandwidth_factor = math.sqrt(self.threads)
        self._seconds: dict[tuple[object, ...], float] = {}  # by what they depend on: a model repeats few operators

    @property
    def seconds_per_weight_byte(self) -> float:
        """Seconds by which reading a byte from memory exceeds reading it from the cache."""
        return (1 / self.device.bandwidth - 1 / self.device.byte_rate(0)) / self._bandwidth_factor

    def cost(self, term: Term) -> float:
        """Return the seconds for the operator `term` alone."""
        if term.is_constant or term.op in ("Var", "Out"):
            return 0.0
        key = _key(term, self.device.channel_block)
        if key not in self._seconds:
            self._seconds[key] = self._cost(term)
        return self._seconds[key]

    def _cost(self, term: Term) -> float:
        device = self.device
        if self.sizes:
            inputs = (None if used is None else _with_sizes(used, used.inputs, self.sizes) for used in term.inputs)
            term = _with_sizes(term, inputs, self.sizes)
        kinds, own = kinds_of(term, device.channel_block), self.roofline(term)
        factor, traffic_factor = device.factors(kinds)
        reordered = reordered_bytes(term, device.channel_block)
        reordering = reordered / device.byte_rate(reordered) / self._bandwidth_factor
        seconds = max(own.arithmetic * factor, own.traffic * traffic_factor) + reordering
        return device.start(kinds) * _kernels(term) + seconds

    def roofline(self, term: Term) -> Roofline:
        """Return the seconds of an operator's arithmetic and of its memory traffic by the device's general figures."""
        device, count, moved = self.device, work(term), traffic(term)
        dtype = term.types[0].dtype if term.types and term.types[0] is not None else "float"
        dense = device.dense_rate(dtype) * _utilization_of_groups(term, device)
        scalar = 0 if term.op in WITH_EPILOGUE else count.scalar
        # Few sums of products leave a large device idle. Too little of other arithmetic takes no time beside the start.
        busy = min(1.0, max(1, elements(term)) / device.full)
        products = count.dense * share_in_blocks(term, device.channel_block)
        arithmetic = (products / (dense * busy) + scalar / device.scalar) / self.threads
        near = moved.weights + unfolded_bytes(term, device.channel_block)  # in the cache
        moving = moved.values / device.byte_rate(moved.values) + near / device.byte_rate(0)
        return Roofline(arithmetic, moving / self._bandwidth_factor)


def _key(term: Term, block: int) -> tuple[object, ...]:
    """Return the operator, its attributes and types, and of its operands the types, which are constants, in blocks of
    `block` channels, or equal."""
    number = {used: k for k, used in reversed(list(enumerate(term.inputs)))}
    operands = [
        None if i is None else (i.types, number[i], i.is_constant or (block > 1 and is_blocked(i, block) and "blocks"))
        for i in term.inputs
    ]
    return term.op, term.attrs, term.types, *operands


def _kernels(term: Term) -> int:
    """Return the number of kernels that the runtime starts: Einsum transposes its operands by kernels of their own."""
    return 1 + len(term.inputs) if term.op == "Einsum" else 1


def _with_sizes(term: Term, inputs: Iterable[Term | None], sizes: Mapping[str, int]) -> Term:
    """Return `term` over `inputs`, with the symbols of its types and attributes replaced by `sizes`."""
    types = tuple(None if type is None else type.with_sizes(dict(sizes)) for type in term.types)
    return Term.of(term.op, inputs, concrete_attrs(term.attrs, sizes), types)


def _utilization_of_groups(term: Term, device: Device) -> float:
    """Return the share of the product units that a grouped Conv keeps busy.

    If a group has c channels, a whole number of blocks (of at least 8), the share is c / (c + block / 2). Otherwise the
    runtime's kernel is only as fast as scalar arithmetic.
    """
    if term.op not in CONVOLUTIONS or term.attr("group") == 1:
        return 1.0
    kernel = term.inputs[1]
    shape = None if kernel is None or kernel.type is None else kernel.type.shape
    channels = shape[1] if shape is not None else None
    block = max(MIN_CHANNEL_BLOCK, device.channel_block)
    if not isinstance(channels, int) or channels % block:
        return min(1.0, device.scalar / device.dense)
    return channels / (channels + block / 2)
