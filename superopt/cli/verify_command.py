"""`superopt verify`: proves the rules of files and reports the verdict on each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.file_names import Integer, RulesName
from superopt.cli.terminal import NEGATIVE, ProgressLines, errors, one_line_errors
from superopt.wording import counted, time_left

if TYPE_CHECKING:
    from superopt.cli.proving import RuleReport

__all__ = ["verify_command"]


@click.command("verify", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", type=RulesName(), nargs=-1)
@click.option("-j", "--jobs", type=Integer(min=1), default=1, show_default=True, help="Number of processes.")
@click.option("--json", "as_json", is_flag=True, help="Print the reports as JSON.")
@click.option(
    "--solver", type=click.Choice(["z3", "cvc5"]), default="z3", show_default=True,
    help="With cvc5, every answer of Z3 that a proof relies on is checked again by cvc5.",
)  # fmt: skip
@click.option(
    "--certify", is_flag=True,
    help="If all rules are proven, write their certificates beside them. Other commands use certified rules only. What"
    " this kernel has certified before is not proven again. A rule without signatures gets those at which it was"
    " proven, written after `@`.",
)  # fmt: skip
@one_line_errors
def verify_command(paths: tuple[Path, ...], jobs: int, as_json: bool, solver: str, certify: bool) -> None:
    """Prove every rule of PATHS again, at every signature: files, folders, or `shipped`, the default.

    A rule without signatures is tried with all variables at one rank, 0 to 4, or at mixed ranks if it fits no single
    rank. A counterexample is also run in ONNX Runtime. The exit code is 0 only if all rules are proven and, with
    --solver cvc5, no answer of Z3 is contradicted.

    \b
    Examples:
      superopt verify
      superopt verify shipped mine.rules -j 4
      superopt verify mine.rules --json > verdicts.json
      superopt verify mine.rules --certify    (then: optimize --rules mine.rules)
      superopt verify --solver cvc5    (pip install 'superopt[second-opinion]')
    """
    from superopt.cli.certifying import check_certifiable, write_certificates, write_signatures
    from superopt.cli.proof_text import lines, print_summary, to_json
    from superopt.cli.proving import prove_all, tasks
    from superopt.rulebook.loading import TIMES, beside, rule_files, shipped_rules
    from verify.diagnose.second_opinion import cvc5_version

    second = cvc5_version() if solver == "cvc5" else None
    todo = tasks(paths, ask_second=second is not None, reuse=certify and second is None, signs=certify)
    if certify:
        check_certifiable(paths or (shipped_rules(),), todo)
    reports: list[RuleReport] = []
    with ProgressLines() as progress:
        progress(f"proving: {counted(len(todo), 'rule')}")
        begun = time.monotonic()
        for report in prove_all(todo, jobs):
            reports.append(report)
            left = time_left(time.monotonic() - begun, len(reports), len(todo))
            progress(f"proving: {len(reports)} of {counted(len(todo), 'rule')}, {left}, {report.file}")
            if not as_json:
                click.echo("\n".join(lines(report)))
    if as_json:
        click.echo(to_json(reports, second))
    else:
        print_summary(reports, second)
    for report in reports:
        for at in report.signatures:
            if at.confirmation is not None and at.confirmation.contradicts:
                errors().print(f"error: {report.file}:{report.line}: {at.signature}: {at.confirmation}", markup=False)
    if not all(report.accepted for report in reports):
        if certify:
            errors().print("not certified: nothing is written unless all rules are proven", markup=False)
        raise SystemExit(NEGATIVE)
    if certify:
        for file in write_signatures(reports):
            errors().print(f"signatures written: {file}", markup=False)
        for path in paths or (shipped_rules(),):
            written = write_certificates(path, [r for r in reports if Path(r.file) in rule_files(path)])
            errors().print(f"certified: {written}; the prover's times: {beside(path, TIMES)}", markup=False)
