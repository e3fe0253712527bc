"""The sums of products to which a bias is added, as far as their weights say how large they are.

A bias, o - m s after a BatchNormalization, may be what such a sum has left, so it may differ by roundings of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from superopt.check.constant_uses import ConstantUses
from superopt.evaluate.indices import Array
from superopt.ir.term import Term

__all__ = ["common_sums"]


def common_sums(bias: Term, other: Term, uses: ConstantUses, weights: Mapping[str, Array]) -> Array:
    """Return the sums of absolute weights to which both lists of numbers are added, by their elements.

    `weights` has the arrays of Const terms by hash. The sums are 0 if one is no bias, or if a weight is the same in
    both models: a tool that folds something into a bias folds it into the weights as well.
    """
    ours, theirs = ([_array(weight, weights) for weight in uses.weights(one)] for one in (bias, other))
    if any(a.size == b.size and np.array_equal(_ordered(a), _ordered(b)) for a in ours for b in theirs):
        return np.zeros(())
    return np.minimum(_least_sums(bias, ours), _least_sums(other, theirs))


def _array(weight: Term, weights: Mapping[str, Array]) -> Array:
    return np.asarray(weights[str(weight.attr("hash"))])


def _ordered(array: Array) -> Array:
    """Return the absolute values of the elements in order: they stay where a weight is transposed."""
    return np.sort(np.abs(array), axis=None)


def _least_sums(bias: Term, arrays: list[Array]) -> Array:
    shape = () if bias.type is None else bias.type.concrete() or ()
    count = math.prod(shape)
    sums = []
    for values in arrays if count == max(shape, default=0) else ():
        array = np.abs(values.astype(np.float64))
        along = [np.moveaxis(array, axis, 0).reshape(count, -1) for axis, n in enumerate(array.shape) if n == count]
        sums += [rows.sum(axis=1) for rows in along] or [np.zeros(count)]
    return np.minimum.reduce(sums).reshape(shape) if sums else np.zeros(())
