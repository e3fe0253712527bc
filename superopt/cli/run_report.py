"""The option `--report` of `optimize`: an HTML page on one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.file_names import FileName
from superopt.files import write_text

if TYPE_CHECKING:
    from superopt.optimizer import Options, Result

__all__ = ["run_report_option", "write_run_report"]

run_report_option = click.option("--report", type=FileName(), help="Write an HTML page on this run to this file.")


def write_run_report(path: Path, model: Path, result: Result, options: Options) -> None:
    """Write the HTML page on one run, from the data of `--json`; times of operators are measured first."""
    from superopt.optimizer.operator_times import operator_times  # only here, as most runs need neither
    from superopt.report import render_run

    result.operator_times = operator_times(model, result, options)

    write_text(path, render_run(json.loads(result.to_json())))
