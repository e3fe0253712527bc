"""Commands and groups of commands, besides what Click does: errors in the form of all errors here, near names,
--version everywhere."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

import superopt
from superopt.cli.supervisor import INTERRUPTED

__all__ = ["Group", "Program", "near_names", "version_option", "versioned"]

_Command = TypeVar("_Command", bound=Callable[..., Any] | click.Command)
_NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())  # Click 8.1 has no such error


class Program(click.Command):
    """A command that may be a whole program: wrong usage is told as other errors are."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command. Stand-alone, exit as Click does, with errors in this program's form."""
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
            if not standalone_mode:
                return code
        except click.Abort as abort:
            if isinstance(abort.__cause__, EOFError):  # of a damaged file: no answer is read from a user here
                raise abort.__cause__ from None
            if not standalone_mode:
                raise
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        except click.ClickException as error:
            if not standalone_mode:
                raise
            _show(error)
            code = error.exit_code
        sys.exit(code or 0)


class Group(Program, click.Group):
    """A group of commands. Each has --version; for a name that is no command, the nearest commands are given."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        return None if command is None else versioned(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        is_option = args[0].startswith("-")  # Click says more about these
        if not (ctx.resilient_parsing or is_option or self.get_command(ctx, args[0])):
            ctx.fail(self.unknown(ctx, args))
        return super().resolve_command(ctx, args)

    def unknown(self, ctx: click.Context, args: list[str]) -> str:
        """Return the message about arguments that begin with no name of a command."""
        return f"no such command: {args[0]}{near_names(args[0], self.list_commands(ctx))}"


def near_names(name: str, known: Iterable[str]) -> str:
    """Return a question with the known names that resemble `name`, to be added to a message; empty if none does."""
    near = difflib.get_close_matches(name, list(known))
    return f"; did you mean {' or '.join(near)}?" if near else ""


def versioned(command: click.Command) -> click.Command:
    """Return `command` with the option --version."""
    if all(parameter.name != "version" for parameter in command.params):
        command = version_option(command)
    return command


def version_option(command: _Command) -> _Command:
    """Return `command` with the option --version, which also works in a checkout that is not installed."""
    option = click.option(
        "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version,
        help="Show the version and exit.",
    )  # fmt: skip
    return option(command)


def _show_version(ctx: click.Context, _option: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    number = getattr(superopt, "__version__", "unknown: it runs from a checkout that is not installed")
    click.echo(f"{ctx.find_root().info_name}, version {number}")
    ctx.exit()


def _show(error: click.ClickException) -> None:
    """Print an error, after the usage of the command if that was wrong; without any arguments, its help."""
    if isinstance(error, _NO_ARGUMENTS):
        click.echo(error.format_message(), err=True)
        return
    if isinstance(error, click.UsageError) and error.ctx is not None:
        click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True)
    message = error.format_message()
    if message.partition(" ")[0][1:].islower():  # a word, and no name such as OpenVINO
        message = f"{message[:1].lower()}{message[1:]}"
    click.echo(f"error: {message}", err=True)
