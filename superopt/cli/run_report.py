"""The option `--report` of `optimize`: an HTML page on one run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from superopt.cli.options import writable
from superopt.optimizer import Result
from superopt.optimizer.files import write_text

__all__ = ["run_report_option", "write_run_report"]

run_report_option = click.option(
    "--report", type=click.Path(path_type=Path), callback=writable, help="Write an HTML page on this run."
)


def write_run_report(path: Path, result: Result) -> None:
    """Write the HTML page on one run, from the data of `--json`."""
    from superopt.report import render_run  # only here, as most runs need neither Jinja nor the pages

    write_text(path, render_run(json.loads(result.to_json())))
