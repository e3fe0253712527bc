"""`superopt rules`: lists rules, and derives rules from other rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import click
from rich.table import Table

from superopt.cli.asked_command import asked_command
from superopt.cli.default_signatures import SignatureNeeded, default_signatures
from superopt.cli.equation_text import equation_text
from superopt.cli.rank_command import rank_command
from superopt.cli.terminal import NEGATIVE, ProgressLines, one_line_errors, results
from superopt.generate.derive import (
    DERIVED,
    NO_INSTANCE,
    NOT_DERIVED,
    CertificateCheck,
    Consequence,
    Derivation,
    DerivationStep,
    Deriver,
    consequence,
    normal,
)
from superopt.ir.notation import show_signature, show_terms
from superopt.ir.rule import Condition, Rule, Signature
from superopt.rulebook.loading import CERTIFICATES, RulesError, beside, certified_rules, load_rules
from superopt.wording import counted
from verify.certificates import kernel_hash, load_certificates

__all__ = ["rules_command"]

SCHEMA_VERSION = 1
_HELP = {"help_option_names": ["-h", "--help"]}
_Conditions: TypeAlias = Mapping[Signature, Sequence[Condition]]
_OUTCOMES = (DERIVED, NOT_DERIVED, NO_INSTANCE)

_steps = click.option(
    "--steps", type=click.IntRange(min=0), default=4, show_default=True, help="Maximum number of steps of a derivation."
)
_prove = click.option(
    "--prove",
    is_flag=True,
    help="Also use rules at signatures that are not certified, if they can be proven there now.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


class _Rules(click.Group):
    """Group of commands in which `superopt rules PATH` means `superopt rules list PATH`."""

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = arguments[0] in self.commands
        return super().resolve_command(context, arguments if known else ["list", *arguments])


@click.group("rules", cls=_Rules, invoke_without_command=True, context_settings=_HELP)
@click.pass_context
def rules_command(context: click.Context) -> None:
    """List rules, derive rules from other rules, rank rules by their use, or list what searches ask of them.

    Without a command, list the shipped rules, one on each line: id and equation.

    \b
    Examples:
      superopt rules
      superopt rules | grep Conv
      superopt rules list mine.rules
      superopt rules derive rules mine.rules --how
      superopt rules matrix rules mine.rules
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command)


rules_command.add_command(rank_command)
rules_command.add_command(asked_command)


@rules_command.command("list", context_settings=_HELP)
@click.argument("path", type=click.Path(path_type=Path), required=False)
@one_line_errors
def list_command(path: Path | None) -> None:
    """List the rules of PATH (by default the shipped rules), one on each line: id and equation."""
    for rule in load_rules(path):
        click.echo(f"{rule.id}  {equation_text(rule)}")


@rules_command.command("derive", context_settings=_HELP)
@click.argument("source", metavar="A", type=click.Path(path_type=Path))
@click.argument("target", metavar="B", type=click.Path(path_type=Path))
@_steps
@_prove
@click.option("-v", "--how", is_flag=True, help="Show the derivation of each rule, or the reason why there is none.")
@_json
@one_line_errors
def derive_command(source: Path, target: Path, steps: int, prove: bool, how: bool, as_json: bool) -> None:
    """Derive the rules of B from the rules of A (files or folders).

    A rule is derived if at each of its signatures, at two choices of sizes, at most --steps steps lead from one side to
    the other. Each step is an instance of a certified rule of A, from left to right or from right to left, at sizes
    that meet the conditions of its proof. B needs no certificates; a rule of B without signatures gets those that
    `superopt verify` tries. The exit code is 0 only if every rule is derived.

    \b
    Examples:
      superopt rules derive rules mine.rules
      superopt rules derive rules mine.rules --steps 2 --how
      superopt rules derive mine.rules rules --json > derivations.json
    """
    deriver, asked = _deriver(source, prove), _rules_to_derive(target)
    found: list[Consequence] = []
    with ProgressLines() as progress:
        for rule, known in asked:
            progress(f"deriving: {len(found)} of {len(asked)} rules")
            found.append(_consequence(deriver, rule, known, steps))
            if not as_json:
                click.echo("\n".join(_lines(found[-1], how)))
    if as_json:
        click.echo(_derived_json(found, source, target, steps))
    else:
        _summary(found, source, target, steps)
    if any(one.outcome != DERIVED for one in found):
        raise SystemExit(NEGATIVE)


@rules_command.command("matrix", context_settings=_HELP)
@click.argument("paths", metavar="A B ...", type=click.Path(path_type=Path), nargs=-1, required=True)
@_steps
@_prove
@_json
@one_line_errors
def matrix_command(paths: tuple[Path, ...], steps: int, prove: bool, as_json: bool) -> None:
    """Count, for each pair of sets of certified rules, the rules of one that `derive` derives from the other.

    \b
    Examples:
      superopt rules matrix rules mine.rules
      superopt rules matrix old/ new/ --steps 2
    """
    derivers = [_deriver(path, prove) for path in paths]
    columns = [_rules_to_derive(path) for path in paths]
    derived: list[list[int]] = []
    with ProgressLines() as progress:
        for path, deriver in zip(paths, derivers, strict=True):
            progress(f"deriving from {path}")
            outcomes = [[_consequence(deriver, *one, steps).outcome for one in asked] for asked in columns]
            derived.append([column.count(DERIVED) for column in outcomes])
    if as_json:
        sets = [{"path": str(path), "rules": len(asked)} for path, asked in zip(paths, columns, strict=True)]
        head = {"schema_version": SCHEMA_VERSION, "kernel": kernel_hash(), "steps": steps}
        click.echo(json.dumps({**head, "sets": sets, "derived": derived}, indent=1))
        return
    table = Table("derives", title_justify="left", title=f"in at most {steps} steps")
    for path in paths:
        table.add_column(str(path), justify="right")
    for path, row in zip(paths, derived, strict=True):
        cells = (f"{count} of {len(asked)}" for count, asked in zip(row, columns, strict=True))
        table.add_row(str(path), *cells)
    _print(table)


def _deriver(path: Path, prove: bool) -> Deriver:
    """Return a deriver with the certified rules of `path`. Raises RulesError."""
    listed, certificates = certified_rules(path)
    rules = [one.rule for one in listed]
    return Deriver(rules, CertificateCheck(rules, certificates, anew=prove))


def _rules_to_derive(path: Path) -> list[tuple[Rule, _Conditions]]:
    """Return the rules to derive, each with the conditions of its certificate (if any), which restrict the sizes.

    Raises RulesError.
    """
    rules, source = load_rules(path), beside(path, CERTIFICATES)
    if not rules:
        raise RulesError(f"{path}: contains no rule")
    try:
        certificates = load_certificates(source) if source.is_file() else []
    except ValueError:
        certificates = []
    known = {one.rule: {at: proved.conditions for at, proved in one.proofs} for one in certificates}
    return [(rule, known.get(rule.id, {})) for rule in rules]


def _consequence(deriver: Deriver, rule: Rule, conditions: _Conditions, steps: int) -> Consequence:
    try:
        signatures = rule.signatures or default_signatures(rule)
    except SignatureNeeded as needed:
        return Consequence(rule, NO_INSTANCE, str(needed), ())
    deriver.forget()  # each rule has its own sizes, and so its own terms
    return consequence(deriver, rule, signatures, steps, conditions)


def _lines(found: Consequence, how: bool) -> Iterator[str]:
    outcome = found.outcome if found.steps is None else f"{found.outcome} in {counted(found.steps, 'step')}"
    yield f"{found.rule.id}  {outcome:18}  {equation_text(found.rule)}"
    if how and found.outcome == DERIVED:
        yield from _path(max(found.derivations, key=lambda derivation: len(derivation.steps or ())))
    elif how:
        yield f"    {found.reason}"


def _path(derivation: Derivation) -> Iterator[str]:
    sizes = ", ".join(f"{name} = {size}" for name, size in derivation.instance.sizes.items())
    yield f"    at {show_signature(derivation.signature)}" + (f" with {sizes}" if sizes else "")
    yield f"      {show_terms(normal(derivation.instance.lhs))}"
    for step in derivation.steps or ():
        yield f"    = {show_terms(step.after)}  by {step.rule.id}, {_direction(step)}"


def _direction(step: DerivationStep) -> str:
    return "left to right" if step.forward else "right to left"


def _totals(found: Iterable[Consequence]) -> dict[str, int]:
    counts = Counter(one.outcome for one in found)
    return {outcome: counts[outcome] for outcome in _OUTCOMES}


def _summary(found: Sequence[Consequence], source: Path, target: Path, steps: int) -> None:
    table = Table(title=f"{target} from {source}, in at most {steps} steps", title_justify="left")
    totals = {"rules": len(found), **_totals(found)}
    for name in totals:
        table.add_column(name, justify="right")
    table.add_row(*map(str, totals.values()))
    _print(table)


def _print(table: Table) -> None:
    console = results()
    # A row is one line, even if paths are long.
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)


def _derived_json(found: Sequence[Consequence], source: Path, target: Path, steps: int) -> str:
    content = {
        "schema_version": SCHEMA_VERSION,
        "kernel": kernel_hash(),
        "from": str(source),
        "rules_of": str(target),
        "steps": steps,
        "totals": {"rules": len(found), **_totals(found)},
        "rules": [
            {
                "id": one.rule.id,
                "equation": equation_text(one.rule),
                "outcome": one.outcome,
                "steps": one.steps,
                "reason": one.reason,
                "derivations": [_derivation_json(derivation) for derivation in one.derivations],
            }
            for one in found
        ],
    }
    return json.dumps(content, indent=1)


def _derivation_json(derivation: Derivation) -> dict[str, Any]:
    steps = derivation.steps
    return {
        "signature": show_signature(derivation.signature),
        "sizes": dict(derivation.instance.sizes),
        "start": show_terms(normal(derivation.instance.lhs)),
        "cut": derivation.cut,
        "steps": None
        if steps is None
        else [{"rule": step.rule.id, "direction": _direction(step), "after": show_terms(step.after)} for step in steps],
    }
