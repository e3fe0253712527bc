"""The graphs of several blocks of one output shape as one long list, of which ranges of fingerprints are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from superopt.generate.enumeration.blocks import Block
from superopt.generate.enumeration.classes import Rows
from superopt.generate.enumeration.linear_fingerprints import BlockFingerprints, Keys
from superopt.generate.field import Array

__all__ = ["KEYS", "GraphList", "Numbers"]

KEYS = 1 << 62  # fingerprints are below

_BYTES = 64  # of one graph while it is compared
Numbers = npt.NDArray[np.int64]


class GraphList:
    """A graph's place is its number in the product of its block, after all blocks before."""

    def __init__(self, forms: BlockFingerprints, blocks: Sequence[Block]) -> None:
        self.fingerprints, self.blocks = forms, blocks
        self.ends = np.cumsum([int(np.prod(block.sizes, dtype=np.int64)) for block in blocks], dtype=np.int64)
        self.commutes = np.array([use.spec.commutative for use in forms.classes.family.uses])

    def ranges(self, memory: int, keys: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Ranges of fingerprints between two bounds, of which each fits into so many bytes."""
        low, high = keys
        share = (high - low) / KEYS
        passes = max(1, -int(-sum(block.graphs for block in self.blocks) * _BYTES * share // memory))
        for k in range(passes):
            yield low + k * (high - low) // passes, low + (k + 1) * (high - low) // passes

    def within(self, low: int, high: int) -> tuple[Numbers, Keys]:
        """Places, in order, and fingerprints of the graphs whose fingerprint is in a range."""
        places: list[Numbers] = []
        keys: list[Keys] = []
        start = 0
        for block, end in zip(self.blocks, self.ends.tolist(), strict=True):
            for flat, key in self.fingerprints.keys(block):
                inside = (key >= low) & (key < high)
                places.append(flat[inside] + start)
                keys.append(key[inside])
            start = end
        return np.concatenate(places or [np.empty(0, np.int64)]), np.concatenate(keys or [np.empty(0, np.uint64)])

    def owned(self, places: Numbers) -> Iterator[tuple[Block, Numbers, Numbers]]:
        """Blocks, which of the places are theirs, and the numbers of those in the block."""
        owner = np.searchsorted(self.ends, places, side="right")
        order = np.argsort(owner, kind="stable")
        blocks, starts = np.unique(owner[order], return_index=True)
        for block, at in zip(blocks.tolist(), np.split(order, starts[1:]), strict=False):
            before = int(self.ends[block - 1]) if block else 0
            yield self.blocks[block], at, places[at] - before

    def rows(self, places: Numbers) -> Rows:
        """The graphs at these places, operands of commutative operators in the order of their numbers."""
        parts = [(at, block.rows(flat)) for block, at, flat in self.owned(places)]
        rows = Rows.join([part for _, part in parts])
        if parts:
            rows = rows.take(np.argsort(np.concatenate([at for at, _ in parts]), kind="stable"))
            swapped = self.commutes[rows.use] & (rows.children[:, 0] > rows.children[:, 1]) & (rows.children[:, 1] >= 0)
            rows.children[swapped, :2] = rows.children[swapped, 1::-1]
        return rows

    def values(self, places: Numbers) -> Iterator[tuple[Numbers, Array]]:
        """Which of the places, and their values [graphs, SAMPLES, *out], some at a time; in order for sorted places."""
        for block, at, flat in self.owned(places):
            done = 0
            for value in self.fingerprints.values(block, flat):
                yield at[done : done + len(value)], value
                done += len(value)
