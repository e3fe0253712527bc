"""Removes pairs of equal graphs that are renamings or special cases of other pairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from superopt.generate.enumeration.classes import Classes, Ids, Rows, leaves_of, mixed, structures_of

__all__ = ["most_general", "patterns"]


def most_general(classes: Classes, rows: Rows, same: Ids) -> tuple[Rows, Ids]:
    """Return the pairs without renamings of earlier pairs, and without special cases.

    Of pairs that differ only in which variables are equal, the most general ones are kept. A pair is dropped if each
    side has a variable that the other side lacks, because such an equation cannot be applied in either direction.
    """
    order = np.lexsort((*rows.children.T[::-1], rows.use, rows.folded, rows.runtime))
    rows, same = rows.take(order), same[order]
    sequence, fits = leaves_of(classes, rows.children)
    fits &= classes.fits[same]
    fits &= _within(sequence, classes.sequence[same]) | _within(classes.sequence[same], sequence)
    rows, same, sequence = rows.take(fits), same[fits], sequence[fits]
    if not len(rows):
        return rows, same
    left, right = structures_of(classes, rows), classes.structure[same]
    pattern = patterns(np.concatenate([sequence, classes.sequence[same]], axis=1))
    whole = np.concatenate([left[:, None], right[:, None], pattern.astype(np.uint64)], axis=1)
    _, first = np.unique(mixed(whole), return_index=True)
    first = np.sort(first)
    groups: dict[tuple[int, int], list[int]] = {}
    for row in first.tolist():
        groups.setdefault((int(left[row]), int(right[row])), []).append(row)
    kept = [
        row
        for alike in groups.values()
        for row in alike
        if not any(other != row and _refines(pattern[other], pattern[row]) for other in alike)
    ]
    chosen = np.array(sorted(kept), np.int64)
    return rows.take(chosen), same[chosen]


def _within(some: npt.NDArray[np.int16], all_: npt.NDArray[np.int16]) -> npt.NDArray[np.bool_]:
    """Return True for each row of `some` whose leaves all occur in the same row of `all_`."""
    result = np.ones(len(some), np.bool_)
    for place in range(some.shape[1]):
        leaf = some[:, place : place + 1]
        result &= (leaf[:, 0] < 0) | (all_ == leaf).any(axis=1)
    return result


def patterns(leaves: npt.NDArray[np.int16]) -> npt.NDArray[np.int8]:
    """Return, for each leaf, the position of its first occurrence (-1: no leaf). Renamed graphs have equal patterns."""
    result = np.full(leaves.shape, -1, dtype=np.int8)
    for place in range(leaves.shape[1] - 1, -1, -1):
        result[(leaves == leaves[:, place : place + 1]) & (leaves >= 0)] = place
    return result


def _refines(fine: npt.NDArray[np.int8], coarse: npt.NDArray[np.int8]) -> bool:
    """Return True if variables that are equal in `fine` are equal in `coarse`."""
    here = fine >= 0
    return bool((here == (coarse >= 0)).all() and (coarse[here] == coarse[fine[here]]).all())
