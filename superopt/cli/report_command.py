"""`superopt report`: writes the verification report as HTML and JSON. `optimize --report`: writes a page on one run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.file_names import FileName, RulesName
from superopt.cli.options import check_files
from superopt.cli.terminal import ProgressLines, one_line_errors
from superopt.files import write_text
from superopt.folders import check_folder, write_files
from superopt.temporary import temporary_folder
from superopt.wording import counted

if TYPE_CHECKING:
    from superopt.ir.rule import Rule

__all__ = ["report_command"]

_File = FileName()


@click.command("report", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-o",
    "--out",
    type=_File,
    default=Path("report.html"),
    show_default=True,
    help="HTML page to write, the index.",
)
@click.option("--json", "json_out", type=_File, help="Also write the data as JSON to this file.")
@click.option("--rules", type=RulesName(), help="File or folder of rules to report instead of the shipped ones.")
@one_line_errors
def report_command(out: Path, json_out: Path | None, rules: Path | None) -> None:
    """Write the verification report: every rule drawn, with its proofs, as HTML pages without external resources.

    OUT is an index, with a page for each file of rules in a folder beside it, whose name is OUT's and ends in _rules.
    The rules must be certified. The pages show the certificates, refused candidates and stage counts in the files
    beside the rules; they prove nothing themselves (see `superopt verify`).

    \b
    Examples:
      superopt report
      superopt report -o report.html --json report.json
      superopt report --rules mine.rules -o mine.html
    """
    from superopt.report import ReportError, collect, render
    from superopt.rulebook.loading import RulesError, beside, certified_rules, rule_files

    with ProgressLines() as progress:
        progress("reading rules and certificates")
        check_files({"the page": out, "the data": json_out}, {f"rules ({p.name})": p for p in rule_files(rules)})
        listed, certificates = certified_rules(rules)
        families: dict[str, list[tuple[int, Rule]]] = {file.stem: [] for file in rule_files(rules)}
        for entry in listed:
            families[entry.file.stem].append((entry.line, entry.rule))
        try:
            report = collect(families, certificates, partial(beside, rules))
        except ReportError as error:
            raise RulesError(str(error)) from error
        progress("drawing")
        folder = out.with_name(f"{out.stem}_rules")
        pages = render(report, out.name, folder.name)
        check_folder(folder, set(pages.details))
        with temporary_folder() as scratch:
            write_files(folder, {name: text.encode() for name, text in pages.details.items()}, set(), scratch)
        write_text(out, pages.front)
        if json_out is not None:
            write_text(json_out, report.to_json())
    written = ", ".join(map(str, filter(None, (out, folder, json_out))))
    classes = ", ".join(f"{count} {name}" for name, count in report.classes.items())
    click.echo(f"written: {written}; {counted(len(report.rules), 'certified rule')} ({classes})")
