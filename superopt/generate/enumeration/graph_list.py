"""The graphs of several blocks of one output shape as one long list, read by ranges of fingerprints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from superopt.evaluate.residues import Array
from superopt.generate.enumeration.blocks import Block
from superopt.generate.enumeration.classes import Rows
from superopt.generate.enumeration.linear_fingerprints import BlockFingerprints, Keys

__all__ = ["KEYS", "GraphList", "Numbers"]

KEYS = 1 << 62  # upper bound of all fingerprints

_BYTES_PER_GRAPH = 64  # memory of a graph while it is compared
Numbers = npt.NDArray[np.int64]


class GraphList:
    """A list of graphs: the graphs of the first block, then those of the second, and so on.

    The place of a graph is its number in this list.
    """

    def __init__(self, forms: BlockFingerprints, blocks: Sequence[Block]) -> None:
        self.fingerprints, self.blocks = forms, blocks
        self.ends = np.cumsum([int(np.prod(block.sizes, dtype=np.int64)) for block in blocks], dtype=np.int64)
        self.commutes = np.array([use.spec.commutative for use in forms.classes.family.uses])

    def ranges(self, memory: int, keys: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yield ranges of fingerprints between two bounds, such that each range's graphs fit into `memory` bytes."""
        low, high = keys
        share = (high - low) / KEYS
        passes = max(1, -int(-sum(block.graphs for block in self.blocks) * _BYTES_PER_GRAPH * share // memory))
        for k in range(passes):
            yield low + k * (high - low) // passes, low + (k + 1) * (high - low) // passes

    def within(self, low: int, high: int) -> tuple[Numbers, Keys]:
        """Return the places, in order, and the fingerprints of the graphs whose fingerprint is in a range."""
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
        """Yield each block with places in it, the indices of these places, and their numbers in the block."""
        owner = np.searchsorted(self.ends, places, side="right")
        order = np.argsort(owner, kind="stable")
        blocks, starts = np.unique(owner[order], return_index=True)
        for block, at in zip(blocks.tolist(), np.split(order, starts[1:]), strict=False):
            before = int(self.ends[block - 1]) if block else 0
            yield self.blocks[block], at, places[at] - before

    def rows(self, places: Numbers) -> Rows:
        """Return the graphs at these places. Operands of commutative operators are sorted by their class numbers."""
        parts = [(at, block.rows(flat)) for block, at, flat in self.owned(places)]
        rows = Rows.join([part for _, part in parts])
        if parts:
            rows = rows.take(np.argsort(np.concatenate([at for at, _ in parts]), kind="stable"))
            swapped = self.commutes[rows.use] & (rows.children[:, 0] > rows.children[:, 1]) & (rows.children[:, 1] >= 0)
            rows.children[swapped, :2] = rows.children[swapped, 1::-1]
        return rows

    def values(self, places: Numbers) -> Iterator[tuple[Numbers, Array]]:
        """Yield indices of places, and their values [graphs, SAMPLES, *out], in chunks; in order if the places are
        sorted."""
        for block, at, flat in self.owned(places):
            done = 0
            for value in self.fingerprints.values(block, flat):
                yield at[done : done + len(value)], value
                done += len(value)
