"""The programs `superopt` and `optimize`. Each subcommand calls one function of the library and prints its result.

The library imports Z3, onnx, NumPy and networkx, which takes a second, and --help and --version need none of them. So a
module `superopt.cli.NAME_command`, and what it imports at the top, imports only modules of the library that import
little; the others are imported inside the functions that need them.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import click

from superopt.cli.click_commands import Group, near_names, version_option, versioned

__all__ = ["main"]

_SUMMARIES = {
    "calibrate": "Measure this machine for optimize.",
    "bench": "Compare superopt with other optimizers.",
    "check": "Prove two models equal, or show where they differ.",
    "generate": "Find and prove rules, and write them to a folder.",
    "harvest": "Cut windows out of models, to find rules for them.",
    "learn": "Find rules for models of your own.",
    "optimize": "Make a model faster with proven rules.",
    "report": "Write the verification report.",
    "rules": "List rules, derive rules from rules, rank them by use.",
    "verify": "Prove rules again.",
    "why": "Say what blocks the rules at one operator.",
}


class _Commands(Group):
    """The subcommands, each imported when it is called: `superopt NAME` is `superopt.cli.NAME_command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUMMARIES:
            return None
        module = importlib.import_module(f"superopt.cli.{cmd_name}_command")
        return versioned(getattr(module, f"{cmd_name}_command"))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take a model, or options and a model, in the place of a subcommand for `optimize` of that model."""
        names_model = any(map(_is_model_name, args))
        if args and args[0] not in _SUMMARIES:
            is_model = _is_model_name(args[0]) or Path(args[0]).is_file()
            if is_model or (names_model and args[0].startswith("-")):
                args = ["optimize", *args]
        return super().parse_args(ctx, args)

    def unknown(self, ctx: click.Context, args: list[str]) -> str:
        """Return the message about arguments that begin with neither a subcommand nor a file."""
        if Path(args[0]).is_dir():
            return f"{args[0]} is a folder, not a model; to optimize a file: superopt optimize FILE -o FILE"
        hint = near_names(args[0], _SUMMARIES) or f"; to optimize a file: superopt optimize {args[0]} -o FILE"
        return f"no such command or file: {args[0]}{hint}"

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_SUMMARIES.items()))


def _is_model_name(argument: str) -> bool:
    return argument.lower().endswith(".onnx")


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@version_option
def main() -> None:
    """Make ONNX models faster with rules that are proven for every tensor size.

    \b
    Examples:
      superopt model.onnx -o fast.onnx       short for superopt optimize
      superopt check model.onnx fast.onnx    are both models equal?
      superopt why model.onnx --node conv1   what blocks the rules here?
      superopt rules                         list the rules
      superopt verify                        prove every shipped rule again
      superopt generate --out mine           find and prove rules
    """
