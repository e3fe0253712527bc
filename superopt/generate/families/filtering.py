"""The tiles of minimal filtering, which computes a Conv by fewer multiplications. Data only."""

from __future__ import annotations

from superopt.generate.grammar import Family, inputs

__all__ = ["FILTERING"]

FILTERING: tuple[Family, ...] = (
    # Tiles for which minimal filtering is proposed. Nothing is enumerated.
    Family(
        "filtering",
        (*inputs("x", (1, 2, 5, 5)), *inputs("w", (2, 2, 3, 3), "w", True), *inputs("b", (2,), "b", True)),
        (),
        runtime=1,
        tiles=((2, 2), (4, 4)),
    ),
)
