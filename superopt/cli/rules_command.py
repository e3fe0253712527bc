"""`superopt rules`: lists rules, and derives rules from other rules."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.asked_command import asked_command
from superopt.cli.click_commands import Group, near_names
from superopt.cli.file_names import SHIPPED, Integer, RulesName, shown_rules
from superopt.cli.rank_command import rank_command
from superopt.cli.terminal import NEGATIVE, ProgressLines, one_line_errors
from superopt.wording import time_left

if TYPE_CHECKING:
    from superopt.generate.derive import Consequence

__all__ = ["rules_command"]

_HELP = {"help_option_names": ["-h", "--help"]}

_steps = click.option(
    "--steps", type=Integer(min=0), default=4, show_default=True, help="Maximum number of steps of a derivation."
)
_prove = click.option(
    "--prove",
    is_flag=True,
    help="Also use rules at signatures that are not certified, if they can be proven there now.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


class _Rules(Group):
    """Group of commands in which `superopt rules PATH` means `superopt rules list PATH`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        more = len(args) > 1 and not args[1].startswith("-")  # `list` takes one path
        is_path = args[0] == SHIPPED or Path(args[0]).exists()
        is_misspelt = not is_path and (more or near_names(args[0], self.commands))
        known = args[0] in self.commands or is_misspelt
        return super().resolve_command(ctx, args if known else ["list", *args])

    def unknown(self, ctx: click.Context, args: list[str]) -> str:
        """Return the message about arguments that begin with no command, and with no path."""
        hint = near_names(args[0], self.commands) or "; superopt rules | grep ID shows one rule"
        return f"no such command, file or folder of rules: {args[0]}{hint}"


@click.group("rules", cls=_Rules, invoke_without_command=True, context_settings=_HELP)
@click.pass_context
def rules_command(context: click.Context) -> None:
    """List rules, derive rules from other rules, rank rules by their use, or list what searches ask of them.

    Without a command, list the shipped rules, one on each line: id and equation. Each path of rules is a file, a
    folder, or the word `shipped`.

    \b
    Examples:
      superopt rules
      superopt rules | grep Conv
      superopt rules list mine.rules
      superopt rules derive shipped mine.rules --how
      superopt rules matrix shipped mine.rules
    """
    if context.invoked_subcommand is None:
        context.invoke(list_command)


rules_command.add_command(rank_command)
rules_command.add_command(asked_command)


@rules_command.command("list", short_help="List rules: id and equation of each.", context_settings=_HELP)
@click.argument("path", type=RulesName(), required=False)
@one_line_errors
def list_command(path: Path | None) -> None:
    """List the rules of PATH (by default the shipped rules), one on each line: id and equation.

    PATH is a file or folder; rules need no certificates here.

    \b
    Examples:
      superopt rules list
      superopt rules list mine.rules
    """
    from superopt.cli.equation_text import equation_text
    from superopt.rulebook.loading import load_rules

    for rule in load_rules(path):
        click.echo(f"{rule.id}  {equation_text(rule)}")


@rules_command.command(
    "derive", short_help="Derive the rules of one set from those of another.", context_settings=_HELP
)
@click.argument("source", metavar="A", type=RulesName())
@click.argument("target", metavar="B", type=RulesName())
@_steps
@_prove
@click.option("-v", "--how", is_flag=True, help="Show the derivation of each rule, or the reason why there is none.")
@_json
@one_line_errors
def derive_command(source: Path, target: Path, steps: int, prove: bool, how: bool, as_json: bool) -> None:
    """Derive the rules of B from the rules of A (files, folders, or `shipped`).

    A rule is derived if at each of its signatures, at two choices of sizes, at most --steps steps lead from one side to
    the other. Each step is an instance of a certified rule of A, from left to right or from right to left, at sizes
    that meet the conditions of its proof. B needs no certificates; a rule of B without signatures gets those that
    `superopt verify` tries. The exit code is 0 only if every rule is derived.

    \b
    Examples:
      superopt rules derive shipped mine.rules
      superopt rules derive shipped mine.rules --steps 2 --how
      superopt rules derive mine.rules shipped --json > derivations.json
    """
    from superopt.cli.deriving import consequence_of, deriver_of, lines, print_summary, rules_to_derive, to_json
    from superopt.generate.derive import DERIVED

    deriver, asked = deriver_of(source, prove), rules_to_derive(target)
    found: list[Consequence] = []
    with ProgressLines() as progress:
        for rule, known in asked:
            progress(f"deriving: {len(found)} of {len(asked)} rules")
            found.append(consequence_of(deriver, rule, known, steps))
            if not as_json:
                click.echo("\n".join(lines(found[-1], how)))
    if as_json:
        click.echo(to_json(found, source, target, steps))
    else:
        print_summary(found, source, target, steps)
    if any(one.outcome != DERIVED for one in found):
        raise SystemExit(NEGATIVE)


@rules_command.command(
    "matrix", short_help="Count what each set of rules derives from each other.", context_settings=_HELP
)
@click.argument("paths", metavar="A B ...", type=RulesName(), nargs=-1, required=True)
@_steps
@_prove
@_json
@one_line_errors
def matrix_command(paths: tuple[Path, ...], steps: int, prove: bool, as_json: bool) -> None:
    """Count, for each pair of sets of certified rules, the rules of one that `derive` derives from the other.

    Each set is a file or folder, or `shipped` for the shipped rules.

    \b
    Examples:
      superopt rules matrix shipped mine.rules
      superopt rules matrix old/ new/ --steps 2
    """
    if len(paths) < 2:
        raise click.UsageError("give two sets of rules or more")
    from rich.table import Table

    from superopt.cli.deriving import SCHEMA_VERSION, consequence_of, deriver_of, print_table, rules_to_derive
    from superopt.generate.derive import DERIVED
    from verify.certificates import kernel_hash

    derivers = [deriver_of(path, prove) for path in paths]
    columns = [rules_to_derive(path) for path in paths]
    derived: list[list[int]] = []
    done, total, begun = 0, len(paths) * sum(map(len, columns)), time.monotonic()
    with ProgressLines() as progress:
        for path, deriver in zip(paths, derivers, strict=True):
            counts: list[int] = []
            for asked in columns:
                found = 0
                for one in asked:
                    found += consequence_of(deriver, *one, steps).outcome == DERIVED
                    done += 1
                    left = time_left(time.monotonic() - begun, done, total)
                    progress(f"deriving from {shown_rules(path)}: {done} of {total} derivations, {left}")
                counts.append(found)
            derived.append(counts)
    if as_json:
        sets = [{"path": shown_rules(path), "rules": len(asked)} for path, asked in zip(paths, columns, strict=True)]
        head = {"schema_version": SCHEMA_VERSION, "kernel": kernel_hash(), "steps": steps}
        click.echo(json.dumps({**head, "sets": sets, "derived": derived}, indent=1))
        return
    table = Table("derives", title_justify="left", title=f"in at most {steps} steps")
    for path in paths:
        table.add_column(shown_rules(path), justify="right")
    for path, row in zip(paths, derived, strict=True):
        cells = (f"{count} of {len(asked)}" for count, asked in zip(row, columns, strict=True))
        table.add_row(shown_rules(path), *cells)
    print_table(table)
