"""Convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _conv_transpose(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    """Every place of the kernel adds its product with all of x, `stride` apart; then the pads are cut off."""
    x, w = inputs[:2]
    spatial, group, strides, pads = x.ndim - 2, attrs["group"], attrs["strides"], attrs["pads"]
    size = [
        (n - 1) * s + (k - 1) * d + 1 + more
        for n, s, k, d, more in zip(
            x.shape[2:], strides, w.shape[2:], attrs["dilations"], attrs["output_padding"], strict=True
        )
    ]
    x = x.reshape(x.shape[0], group, -1, *x.shape[2:])
    w = w.reshape(group, -1, *w.shape[1:])
    result = np.zeros((x.shape[0], group, w.shape[2], *size), x.dtype)
    for place in itertools.product(*map(range, w.shape[3:])):
        starts = [k * d for k, d in zip(place, attrs["dilations"], strict=True)]
        reached = [slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, x.shape[3:], strides, strict=True)]
        result[_last(*reached)] += np.einsum("ngc...,gcm->ngm...", x, w[_last(*place)])
    result = result.reshape(x.shape[0], group * w.shape[2], *size)
    kept = [slice(begin, n - end) for begin, n, end in zip(pads[:spatial], size, pads[spatial:], strict=True)]
    result = result[_last(*kept)]
    return [result + inputs[2].reshape(-1, *(1,) * spatial) if len(inputs) > 2 else result]


def _last(*places: Any) -> Any:
    """The index of a place, or a range of them, on the last axes."""
    return (..., *places)


COMPUTE: Mapping[str, Compute] = {"ConvTranspose": _conv_transpose}
