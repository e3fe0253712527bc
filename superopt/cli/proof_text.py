"""The reports of `superopt verify` as text, as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from superopt.cli.proving import PROVEN, REFUTED, UNKNOWN, RuleReport, SignatureReport
from superopt.cli.terminal import results
from superopt.wording import counted
from verify.certificates import kernel_hash
from verify.prove.facts import solver_version
from verify.verdict import NUMERICS

__all__ = ["lines", "print_summary", "to_json"]

SCHEMA_VERSION = 2
_HOW_WEAK = {True: " (no weaker guards would do)", False: " (known not to be the weakest)", None: ""}


def lines(report: RuleReport) -> Iterator[str]:
    """Yield the report on one rule as text."""
    yield f"{report.file}:{report.line}: {report.equation}"
    time = "an earlier run" if report.seconds is None else f"{report.seconds:.2f} s"
    failed = next((at for at in report.signatures if at.verdict == report.verdict != PROVEN), None)
    if report.verdict == PROVEN:
        shown = map(_shown, report.signatures)
        guessed = " (the rule has no signature)" if report.guessed else ""
        yield f"  proven in {time} at " + " | ".join(shown) + guessed
        yield from _numerics(report)
        if report.reason:
            yield f"  {report.reason}"
    elif failed is None:
        yield f"  not proven: {report.reason}"
    else:
        what = "refuted" if failed.verdict == REFUTED else "not proven"
        yield f"  {what} in {time} at {failed.signature}: {failed.reason}"
        if failed.counterexample is not None:
            yield f"  counterexample {failed.counterexample}"
            yield f"  {failed.confirmation}"
    for script in report.second_opinion.contradicted if report.second_opinion else ():
        yield f"  contradicted: Z3 finds this query unsatisfiable, the second solver satisfiable\n{script}"


def _shown(at: SignatureReport) -> str:
    """Return a signature as text, with its literals and the guards of its proof."""
    literals = f" ({', '.join(at.literals)})" if at.literals else ""
    return at.signature + literals + (f" where {', '.join(at.guards)}{_HOW_WEAK[at.weakest]}" if at.guards else "")


def _numerics(report: RuleReport) -> Iterator[str]:
    """Yield one line for each class of numerics, with the error bounds of its proofs."""
    for name in NUMERICS:
        at = [found for found in report.signatures if found.numerics == name]
        bounded = dict.fromkeys(found.error for found in at if found.error is not None)
        bounds = " or ".join(f"({error})" for error in bounded)
        if at:
            yield f"  {name}" + (f": |left - right| <= {bounds} * u * sum of |summands|" if bounded else "")
    for direction, shown in (("left to right", "forward"), ("right to left", "backward")):
        classes = dict.fromkeys(getattr(at, shown) for at in report.signatures)
        yield f"  rounding errors, {direction}: {' or '.join(classes)}"


def print_summary(reports: list[RuleReport], second: str | None) -> None:
    """Print the counts of verdicts as a table, and the answers of the second solver (None: it was not asked)."""
    asked = ("queries", "agreed", "undecided", "contradicted") if second else ()
    table = Table("file", title_justify="left", title=" and ".join([solver_version(), *([second] if second else [])]))
    for name in ("rules", PROVEN, REFUTED, UNKNOWN, "signatures", "seconds", *asked):
        table.add_column(name, justify="right")
    files = dict.fromkeys(report.file for report in reports)
    for file in files:
        table.add_row(file, *map(_number, _totals([r for r in reports if r.file == file]).values()))
    totals = _totals(reports)
    if len(files) > 1:
        table.add_row("all", *map(_number, totals.values()))
    console = results()
    widest = console.options.update(width=1000)  # a row is one line, even if paths are long
    console.width = max(console.width, console.measure(table, options=widest).maximum)
    console.print(table)
    proven = [report for report in reports if report.verdict == PROVEN]
    failed = len(reports) - len(proven)
    signatures = counted(sum(len(report.signatures) for report in proven), "signature")
    others = f", {counted(failed, 'rule')} not" if failed else ""
    click.echo(f"{counted(len(proven), 'rule')} proven at {signatures}{others}")
    if second:
        click.echo(
            f"{second} agrees on {totals['agreed']} of {totals['queries']} queries;"
            f" undecided {totals['undecided']}, contradicted {totals['contradicted']}"
        )


def _totals(reports: list[RuleReport]) -> dict[str, int | float]:
    """Return the counts of verdicts; `signatures` counts only proven rules."""
    count = {verdict: sum(r.verdict == verdict for r in reports) for verdict in (PROVEN, REFUTED, UNKNOWN)}
    signatures = sum(len(r.signatures) for r in reports if r.verdict == PROVEN)
    totals = {
        "rules": len(reports),
        **count,
        "signatures": signatures,
        "seconds": sum(r.seconds or 0.0 for r in reports),
    }
    opinions = [r.second_opinion for r in reports if r.second_opinion is not None]
    if opinions:
        totals["queries"] = sum(o.queries for o in opinions)
        totals["agreed"] = sum(o.agreed for o in opinions)
        totals["undecided"] = sum(o.undecided for o in opinions)
        totals["contradicted"] = sum(len(o.contradicted) for o in opinions)
    return totals


def _number(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def to_json(reports: list[RuleReport], second: str | None) -> str:
    """Return the reports as JSON."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "kernel": kernel_hash(),
        "solver": solver_version(),
        "second_solver": second,
        "proven": all(report.accepted for report in reports),
        "totals": _totals(reports),
        "rules": [_report(report) for report in reports],
    }
    return json.dumps(content, indent=1)


def _report(report: RuleReport) -> dict[str, Any]:
    found = asdict(report)
    del found["certificate"]
    return {**found, "numerics": report.numerics}
