"""The option `--report` of `optimize`: an HTML page on one run."""

from __future__ import annotations

import json
from pathlib import Path

import click

from superopt.files import write_text
from superopt.optimizer import Result

__all__ = ["run_report_option", "write_run_report"]

run_report_option = click.option(
    "--report", type=click.Path(path_type=Path), help="Write an HTML page on this run to this file."
)


def write_run_report(path: Path, result: Result) -> None:
    """Write the HTML page on one run, from the data of `--json`."""
    from superopt.report import render_run  # only here, as most runs need neither Jinja nor the pages

    write_text(path, render_run(json.loads(result.to_json())))
