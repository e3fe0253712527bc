"""`superopt learn`: finds rules for a user's own models."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from superopt.cli.file_names import FileName, Integer, Number
from superopt.cli.options import device
from superopt.cli.terminal import ProgressLines, fail, one_line_errors, results
from superopt.search.cost.device import Device, shipped_devices
from superopt.wording import counted

__all__ = ["learn_command"]

SCHEMA_VERSION = 1

_Path = FileName()


@click.command("learn", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", metavar="MODEL...", type=_Path, nargs=-1, required=True)
@click.option("-o", "--out", type=_Path, required=True, help="Folder to write the rules and their certificates to.")
@click.option(
    "--budget", metavar="SECONDS", type=Number(min=0), default=600.0, show_default=True,
    help="Wall time. The parts of the models that cost most come first.",
)  # fmt: skip
@click.option(
    "-j", "--jobs", type=Integer(min=1), default=2, show_default=True,
    help="Number of processes. With one, the budget is kept only between steps.",
)  # fmt: skip
@click.option("--scheduler", metavar="URL", help="Run on the cluster of this Dask scheduler.")
@click.option("--seed", type=Integer(min=0), default=0, show_default=True, help="Random seed.")
@click.option(
    "--device", metavar="FILE", callback=device, default="cpu", show_default=True,
    help=f"Device whose costs weigh the parts: a TOML file, or one of {', '.join(shipped_devices())}.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@one_line_errors
def learn_command(
    models: tuple[Path, ...],
    out: Path,
    budget: float,
    jobs: int,
    scheduler: str | None,
    seed: int,
    device: Device,
    as_json: bool,
) -> None:
    """Find and prove rules for each MODEL, besides the shipped ones.

    Small parts of the models are the left sides; the generator looks for faster graphs that are equal for all sizes.
    The folder holds all rules found so far at any moment, so the run may be stopped.

    \b
    Examples:
      superopt learn model.onnx -o mine
      superopt learn model.onnx -o mine --budget 120 -j 2
      optimize model.onnx -o fast.onnx --add-rules mine
    """
    from superopt.generate.run.workers import WorkersError
    from superopt.learn import learn

    try:
        with ProgressLines(0.0) as progress:
            found = learn(
                models,
                out,
                budget_s=budget,
                jobs=jobs,
                scheduler=scheduler,
                seed=seed,
                device=device,
                progress=progress,
            )
    except WorkersError as error:
        fail(str(error))
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **asdict(found)}, indent=1))
        return
    console = results()
    tried = f"{found.tried} of {counted(found.windows, 'window')} tried in {found.seconds:.0f} s"
    written = f"{counted(found.rules, 'rule')} written to {out}" if found.tried else "nothing was written"
    console.print(f"{written}; {tried}", markup=False)
    if found.rules:
        console.print(f"use them: optimize MODEL -o FAST --add-rules {out}", markup=False)
