"""The summary of `generate` as tables."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from superopt.generate import Summary

__all__ = ["show_summary"]

_STAGES = ("graphs", "conjectures", "derivable", "proved", "rules", "signatures")  # shown family by family


def show_summary(console: Console, summary: Summary, folder: Path) -> None:
    """Print the number of candidates that each stage of the generator kept, by family and in total."""
    families = Table(title=f"{folder}, seed {summary.seed}", title_justify="left")
    families.add_column("family")
    for stage in _STAGES:
        families.add_column(stage, justify="right")
    for name, counts in (*summary.families.items(), ("all", summary.total)):
        families.add_row(name, *(str(getattr(counts, stage)) for stage in _STAGES))
    console.print(families)
    stages = Table(title="all stages", title_justify="left")
    stages.add_column("stage")
    stages.add_column("all", justify="right")
    for stage, count in asdict(summary.total).items():
        stages.add_row(stage.replace("_", " "), str(count))
    console.print(stages)
    console.print("written: " + ", ".join(summary.files), markup=False)
