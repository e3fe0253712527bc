"""Counts of what each stage of the generator kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from verify.certificates import kernel_hash
from verify.prove.facts import solver_version

__all__ = ["StageCounts", "Summary"]


@dataclass
class StageCounts:
    """Counts for one family; families of one name are counted together. The field names are keys of summary.json."""

    graphs: int = 0
    classes: int = 0
    equal_pairs: int = 0
    unexplained: int = 0  # equal pairs that no smaller equation explains
    conjectures: int = 0  # without renamed duplicates and special cases
    derivable: int = 0
    accidental: int = 0  # equal at the enumerated sizes only, or each side has a variable that the other side lacks
    weak: int = 0  # both sides cost the same, and the equation is large or repeats a variable
    again: int = 0  # the rule was already sent to the prover
    refuted: int = 0
    unknown: int = 0
    proved: int = 0
    redundant: int = 0  # proven, but derivable from rules of other families or from later rules
    extended: int = 0  # rules for more operands
    rules: int = 0
    signatures: int = 0

    def __add__(self, other: StageCounts) -> StageCounts:
        """Add stage by stage."""
        return StageCounts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    @staticmethod
    def sum(counts: Iterable[StageCounts]) -> StageCounts:
        """Return the sum of all counts."""
        total = StageCounts()
        for count in counts:
            total += count
        return total


@dataclass
class Summary:
    """Counts by family and by origin (the grammar, or a corpus), and the names of the files written."""

    seed: int
    families: Mapping[str, StageCounts] = field(default_factory=dict)
    origins: Mapping[str, StageCounts] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)

    @property
    def total(self) -> StageCounts:
        """The sum of the counts of all families."""
        return StageCounts.sum(self.families.values())

    def to_json(self) -> str:
        """Return the summary as stable, indented JSON."""
        data = {
            "seed": self.seed,
            "kernel": kernel_hash(),
            "solver": solver_version(),
            "total": asdict(self.total),
            "origins": {name: asdict(count) for name, count in self.origins.items()},
            "families": {name: asdict(count) for name, count in self.families.items()},
        }
        return json.dumps(data, indent=2) + "\n"
