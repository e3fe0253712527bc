"""Inputs of NaN or infinity, and the comparison of outputs on them: where the original guards, the result has to.

All elements of one input are NaN or infinite. Real outputs are compared where the original's are finite at both of ONNX
Runtime's optimization levels, truth values everywhere. Most models have no such output; one that replaces NaN by a
number has. Integers are not compared: which class is the largest among NaN and infinity says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from superopt.runtime import Feeds, Mask, OutputComparison, Tolerance, compare, flat, is_float

__all__ = ["NON_FINITE_SETS", "compare_where_finite", "has_number", "non_finite_inputs"]

_SPECIALS = {"NaN": np.nan, "infinity": np.inf, "-infinity": -np.inf}
NON_FINITE_SETS = frozenset(_SPECIALS)
_MAX_INPUTS = 4  # an input costs three runs of the original


def non_finite_inputs(feeds: Feeds, fixed: Collection[str] = ()) -> Iterator[tuple[str, Feeds]]:
    """Yield names of sets with their inputs: one of the first real inputs is NaN or infinite, others are as in `feeds`.

    Inputs whose names are `fixed` keep their values.
    """
    real = [name for name, array in feeds.items() if name not in fixed and is_float(array.dtype) and array.size]
    for name in real[:_MAX_INPUTS]:
        for kind, special in _SPECIALS.items():
            yield kind, {**feeds, name: np.full_like(feeds[name], special)}


def has_number(outputs: Sequence[Any]) -> bool:
    """Return True if some element of the outputs is compared: a finite real number, or a truth value."""
    return any(bool(_compared(array).any()) for array in flat(outputs))


def compare_where_finite(
    originals: Sequence[Sequence[Any]], outputs: Sequence[Any], tolerance: Tolerance, unstable: Sequence[Mask | None]
) -> OutputComparison:
    """Compare outputs with the first of the original's runs, where those of all runs are finite.

    `unstable` is that of `compare`. A result may be finite where the original is not.
    """
    runs = [flat(run) for run in originals]
    theirs = flat(outputs)
    masks = [np.logical_and.reduce([_compared(run[k]) for run in runs]) for k in range(len(runs[0]))]
    return compare(_kept(runs[0], masks), _kept(theirs, masks), replace(tolerance, own_spread=np.inf), unstable)


def _compared(array: np.ndarray[Any, Any]) -> Mask:
    if is_float(array.dtype):
        return np.asarray(np.isfinite(array))
    return np.full(array.shape, array.dtype == np.bool_)


def _kept(arrays: Sequence[np.ndarray[Any, Any]], masks: Sequence[Mask]) -> list[np.ndarray[Any, Any]]:
    """Return the arrays with 0 where their mask is False; one of another shape as it is."""
    found = list(arrays)
    for k, (array, mask) in enumerate(zip(arrays, masks, strict=False)):
        if array.shape == mask.shape and not mask.all():
            found[k] = np.where(mask, array, np.zeros((), array.dtype))
    return found
