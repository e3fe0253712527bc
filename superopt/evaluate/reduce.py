"""Reductions over named axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _reduction(reduce: Callable[..., Array], before: Callable[[Array], Array] | None = None) -> Compute:
    def compute(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
        x = inputs[0] if before is None else before(inputs[0])
        return [np.asarray(reduce(x, axis=attrs["axes"], keepdims=bool(attrs["keepdims"])), x.dtype)]

    return compute


def _l2(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [np.sqrt(total) for total in _reduction(np.sum, np.square)(inputs, attrs)]


def _log_sum(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    return [np.log(total) for total in _reduction(np.sum)(inputs, attrs)]


COMPUTE: Mapping[str, Compute] = {
    "ReduceSum": _reduction(np.sum),
    "ReduceMean": _reduction(np.mean),
    "ReduceProd": _reduction(np.prod),
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
    "ReduceL1": _reduction(np.sum, np.abs),
    "ReduceL2": _l2,
    "ReduceSumSquare": _reduction(np.sum, np.square),
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _reduction(np.logaddexp.reduce),
}
