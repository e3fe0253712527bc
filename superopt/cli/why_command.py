"""`superopt why`: which rules match or nearly match at one operator of a model, and what blocks each."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from superopt.choices import MOST_THREADS
from superopt.cli.file_names import FileName, Integer, RulesName
from superopt.cli.options import check_rules, device, fixed_shapes
from superopt.cli.terminal import ProgressLines, one_line_errors, results
from superopt.optimizer.options import Options
from superopt.search.cost.device import shipped_devices
from superopt.wording import counted
from verify.stability.classes import LEVELS

if TYPE_CHECKING:
    from rich.console import Console

    from superopt.optimizer.why import RuleThere, Why

__all__ = ["why_command"]

SCHEMA_VERSION = 1
_DEFAULTS = Options()
_File = FileName()
_HEADINGS = {
    "nothing": "nothing blocks",
    "cost": "blocked by cost",
    "guard": "blocked by a condition on sizes",
    "numerics": "blocked by its class of rounding",
    "proof": "blocked: not proven here",
    "attribute": "blocked by an attribute",
    "type": "blocked by a type or size",
    "operator": "one operator is missing",
}


@click.command("why", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", type=_File)
@click.option("--node", metavar="NAME", help="Name of a node, or of one of its outputs; without it, some are listed.")
@click.option("--ep", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True, help="Execution provider.")
@click.option(
    "--device", metavar="FILE", callback=device,
    help=f"Device of the analytic costs: a TOML file, or one of {', '.join(shipped_devices())}.",
)  # fmt: skip
@click.option(
    "--threads", type=Integer(min=0, max=MOST_THREADS), default=_DEFAULTS.threads, show_default=True,
    help="Threads that the costs are for.",
)  # fmt: skip
@click.option(
    "--shape", "shapes", metavar="INPUT=1x128", multiple=True, callback=fixed_shapes,
    help="Shape of a dynamic input that the costs are for. Repeatable. Sizes that are not given count as 32.",
)  # fmt: skip
@click.option("--rules", type=RulesName(), help="File or folder of certified rules to use instead of the shipped ones.")
@click.option("--add-rules", type=RulesName(), multiple=True, help="The same, to use besides them. Repeatable.")
@click.option("--skip-rule", "skip_rules", metavar="ID", multiple=True, help="Do without this rule. Repeatable.")
@click.option(
    "--numerics", type=click.Choice(LEVELS), default=_DEFAULTS.numerics, show_default=True,
    help="Loosest class of rules to use, as for optimize.",
)  # fmt: skip
@click.option(
    "--limit",
    type=Integer(min=1),
    default=10,
    show_default=True,
    help="Number of rules to show, the nearest first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, with all rules.")
@one_line_errors
def why_command(model: Path, node: str | None, limit: int, as_json: bool, **settings: Any) -> None:
    """Say which rules match or nearly match at one operator of MODEL, and what blocks each.

    A rule that matches is blocked by its cost, by a condition on sizes, by its class of rounding, or because it is not
    proven for these ranks and attributes. A rule nearly matches if an attribute or a type is in the way, or if one of
    its operators is missing; rules that replace several values at once are listed only where they match. Costs are
    those of the analytic model: nothing is run or measured.

    \b
    Examples:
      superopt why model.onnx --node /layer1/conv1/Conv
      superopt why model.onnx --node logits --ep cuda
      superopt why model.onnx --node logits --shape ids=1x128
      superopt why model.onnx --node MatMul_12 --numerics exact --json
    """
    from superopt.optimizer.why import costliest_nodes, explain_node

    if node is None:
        names = "\n".join(f"  {one}" for one in costliest_nodes(model, Options(**settings)))
        raise click.UsageError(f"give one of the operators of MODEL with --node NAME; the costliest are:\n{names}")
    check_rules((settings["rules"], *settings["add_rules"]))
    with ProgressLines() as progress:
        progress("matching: all rules at this operator")
        found = explain_node(model, node, Options(**settings))
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **asdict(found)}, indent=2))
    else:
        _show(results(), found, limit)


def _show(console: Console, found: Why, limit: int) -> None:
    type = f": {found.type}" if found.type else ""
    console.print(f"{found.node} ({found.operator}){type}; costs of {found.device}", markup=False)
    if found.note:
        console.print(found.note, markup=False)
    heading = ""
    for rule in found.rules[:limit]:
        if rule.blocked_by != heading:
            heading = rule.blocked_by
            console.print(f"\n{_HEADINGS[heading]}", markup=False)
        _show_rule(console, rule)
    if len(found.rules) > limit:
        more = counted(len(found.rules) - limit, "more rule")
        console.print(f"\nnot shown: {more} (--limit)", markup=False)


def _show_rule(console: Console, rule: RuleThere) -> None:
    from superopt.optimizer.result_text import beginning

    console.print(f"  {rule.id}  {beginning(f'{rule.left} = {rule.right}')}", markup=False)
    console.print(f"    {rule.reason}", markup=False)
