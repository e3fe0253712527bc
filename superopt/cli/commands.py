"""The programs `superopt` and `optimize`. Each subcommand calls one function of the library and prints its result."""

from __future__ import annotations

import importlib

import click

__all__ = ["main"]

_SUMMARIES = {
    "bench": "Compare superopt with other optimizers.",
    "generate": "Find and prove rules, and write them to a folder.",
    "optimize": "Make a model faster with proven rules.",
    "report": "Write the verification report.",
    "rules": "List rules, derive rules from rules, rank them by use.",
    "verify": "Prove rules again.",
}


class _Commands(click.Group):
    """The subcommands, each imported when it is called: `superopt NAME` is `superopt.cli.NAME_command`.

    All of them together import Z3, ONNX Runtime and Dask, which takes a second; --help and --version need none.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_SUMMARIES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _SUMMARIES:
            return None
        module = importlib.import_module(f"superopt.cli.{cmd_name}_command")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_SUMMARIES.items()))


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="superopt")
def main() -> None:
    """Make ONNX models faster with rules that are proven for every tensor size.

    \b
    Examples:
      superopt optimize model.onnx -o fast.onnx    make a model faster
      superopt verify                              prove every shipped rule again
      superopt rules                               list the rules
      superopt generate --out rules                find and prove the rules from the grammar
    """
