"""`superopt harvest`: cuts windows out of models, for which the generator is to find rules."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.file_names import FileName, Integer
from superopt.cli.options import check_files, device
from superopt.cli.terminal import ProgressLines, one_line_errors, results
from superopt.harvest.limits import WindowLimits
from superopt.search.cost.device import Device, shipped_devices
from superopt.wording import counted

if TYPE_CHECKING:
    from superopt.harvest import Harvest

__all__ = ["harvest_command"]

SCHEMA_VERSION = 1

_DEFAULTS = WindowLimits()
_SHOWN_UNKNOWN = 6  # operators without a definition that are listed for a model
_File = FileName()


@click.command("harvest", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", metavar="MODEL...", type=_File, nargs=-1, required=True)
@click.option("-o", "--out", type=_File, required=True, help="File to write the corpus to.")
@click.option(
    "--operators", type=Integer(1, 12), default=_DEFAULTS.operators, show_default=True,
    help="Largest number of operators in a window.",
)  # fmt: skip
@click.option(
    "--inputs", type=Integer(min=1), default=_DEFAULTS.inputs, show_default=True,
    help="Largest number of values that a window reads at inference; weights do not count.",
)  # fmt: skip
@click.option(
    "--outputs", type=Integer(min=1), default=_DEFAULTS.outputs, show_default=True,
    help="Largest number of values that a window computes for others.",
)  # fmt: skip
@click.option(
    "--windows", type=Integer(min=1), default=2800, show_default=True,
    help="Largest number of windows to write: those with the largest share, of each number of operators as many, and"
    " variants of the same kinds of operators later.",
)  # fmt: skip
@click.option(
    "--device", metavar="FILE", callback=device, default="cpu", show_default=True,
    help=f"Device whose costs weigh the windows: a TOML file, or one of {', '.join(shipped_devices())}.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@one_line_errors
def harvest_command(
    models: tuple[Path, ...],
    out: Path,
    operators: int,
    inputs: int,
    outputs: int,
    windows: int,
    device: Device,
    as_json: bool,
) -> None:
    """Cut connected windows out of each MODEL and write them to a corpus: a text with one window on a line.

    A window is what a rule could replace: its outputs in the notation of rules, small sizes at which it is well-typed,
    and the variables that are weights. Windows that differ in names, in the order of commutative operands or in sizes
    only are one. Each has its number of occurrences and its share: the part of a model's cost that lies in them, on
    average over all models. Weights' values are not written, only single numbers such as 0.5.

    Equal models give an equal corpus, byte for byte. Nothing is run.

    \b
    Examples:
      superopt harvest model.onnx -o corpus.txt
      superopt harvest *.onnx -o corpus.txt --device cuda_h200
      superopt harvest *.onnx -o corpus.txt --operators 5 --windows 500
      superopt harvest *.onnx -o corpus.txt --json > figures.json
    """
    from superopt.corpus import write_corpus
    from superopt.harvest import harvest

    check_files({"the corpus": out}, {f"model {path}": path for path in models})
    with ProgressLines() as progress:
        limits = WindowLimits(operators, inputs, outputs)
        found = harvest(models, limits, device=device, most=windows, progress=progress)
    windows_of = f"{counted(len(found.windows), 'window')} of up to {counted(operators, 'operator')}"
    comment = f"{windows_of} from {counted(len(models), 'model')}."
    write_corpus(out, found.windows, comment)
    if as_json:
        click.echo(json.dumps(_content(found), indent=1))
    else:
        _show(found, out)


def _show(found: Harvest, out: Path) -> None:
    from rich.table import Table

    table = Table(title="windows by model", title_justify="left")
    table.add_column("model")
    for name in ("operators", "windows", "left out"):
        table.add_column(name, justify="right")
    table.add_column("operators without a definition")
    for model in found.models:
        unknown = [f"{name} x{count}" for name, count in model.unknown.items()]
        shown = ", ".join(unknown[:_SHOWN_UNKNOWN]) + (", ..." if len(unknown) > _SHOWN_UNKNOWN else "")
        table.add_row(
            model.name, f"{model.operators:,}", f"{model.structures:,}", f"{sum(model.left_out.values()):,}", shown
        )
    console = results()
    console.print(table, markup=False)
    reasons: Counter[str] = Counter()
    for model in found.models:
        reasons.update(model.left_out)
    for reason, count in reasons.most_common():
        console.print(f"left out {count:,}: {reason}", markup=False)
    if found.merged:
        console.print(f"left out {found.merged:,}: equal to others but for names, order or sizes", markup=False)
    if found.failed:
        console.print(f"left out {found.failed:,}: cannot be evaluated", markup=False)
    if found.dropped:
        console.print(f"left out {found.dropped:,}: beyond --windows", markup=False)
    console.print(f"wrote {counted(len(found.windows), 'window')} to {out}", markup=False)


def _content(found: Harvest) -> dict[str, object]:
    sizes = Counter(len(window.operators) for window in found.windows)
    return {
        "schema_version": SCHEMA_VERSION,
        "windows": len(found.windows),
        "windows_by_operators": {str(size): sizes[size] for size in sorted(sizes)},
        "beyond_number": found.dropped,
        "not_evaluable": found.failed,
        "equal_to_others": found.merged,
        "models": [
            {
                "name": model.name,
                "operators": model.operators,
                "windows": model.structures,
                "unknown_operators": model.unknown,
                "left_out": model.left_out,
            }
            for model in found.models
        ],
    }
