"""`superopt report`: the verification report as a page, and as JSON."""

from __future__ import annotations

from pathlib import Path

import click

from superopt.cli.terminal import Progress, one_line_errors
from superopt.report import ReportError, collect, render
from superopt.rulebook import RulesError, read_rules, rule_files

__all__ = ["report_command"]


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page to write.",
)
@click.option("--json", "json_out", type=click.Path(path_type=Path), help="Write the same data as JSON, too.")
@click.option("--rules", type=click.Path(path_type=Path), help="File or folder of rules instead of the shipped ones.")
@one_line_errors
def report_command(out: Path, json_out: Path | None, rules: Path | None) -> None:
    """Write the verification report: every rule drawn, with its proofs, as one HTML page that loads nothing.

    It shows the certificates, refused candidates and stage counts that lie beside the rules, and proves nothing
    itself: that is `superopt verify`.

    \b
    Examples:
      superopt report
      superopt report -o report.html --json report.json
      superopt report --rules mine.rules -o mine.html
    """
    with Progress() as progress:
        progress("reading rules and certificates")
        files = rule_files(rules)
        try:
            report = collect({file.stem: list(read_rules(file)) for file in files}, files[0].parent)
        except ReportError as error:
            raise RulesError(str(error)) from error
        progress("drawing")
        out.write_text(render(report), encoding="utf-8")
        if json_out is not None:
            json_out.write_text(report.to_json(), encoding="utf-8")
    proven = sum(rule.status == "certified" for rule in report.rules)
    written = f"{out} and {json_out}" if json_out else str(out)
    click.echo(f"written: {written}; of {len(report.rules)} rules {proven} certified")
