"""Stage counts: how many each stage of the generator kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from verify.certificates import kernel_hash
from verify.prove.facts import solver_version

__all__ = ["StageCounts", "Summary"]


@dataclass
class StageCounts:
    """How many each stage kept, for one family (families of one name are counted together)."""

    graphs: int = 0
    classes: int = 0
    equal_pairs: int = 0
    unexplained: int = 0  # not an instance of a smaller equation
    conjectures: int = 0  # after renaming and special cases
    derivable: int = 0
    accidental: int = 0  # equal at the sizes enumerated only, or with a variable on each side that the other lacks
    weak: int = 0  # the same cost on both sides, and large or with a variable repeated
    again: int = 0  # the same rule as an earlier one
    refuted: int = 0
    unknown: int = 0
    proved: int = 0
    redundant: int = 0  # proven, but derivable from rules of other families or found later
    extended: int = 0  # the same laws for more operands
    rules: int = 0
    signatures: int = 0

    def __add__(self, other: StageCounts) -> StageCounts:
        """Stage by stage."""
        return StageCounts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    @staticmethod
    def sum(counts: Iterable[StageCounts]) -> StageCounts:
        """All of them."""
        total = StageCounts()
        for count in counts:
            total += count
        return total


@dataclass
class Summary:
    """Stage counts by family, and what was written."""

    seed: int
    families: Mapping[str, StageCounts] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def total(self) -> StageCounts:
        """Sums over all families."""
        return StageCounts.sum(self.families.values())

    def to_json(self) -> str:
        """The summary as stable, indented JSON."""
        data = {
            "seed": self.seed,
            "kernel": kernel_hash(),
            "solver": solver_version(),
            "total": asdict(self.total),
            "families": {name: asdict(count) for name, count in self.families.items()},
        }
        return json.dumps(data, indent=2) + "\n"
