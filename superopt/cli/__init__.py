"""The command line, the only part that prints: results to stdout, everything else to stderr.

Exit codes: 0 success, 1 a check has failed, 2 unusable input or wrong usage, 3 not decided (`check`), 130 Ctrl-C, 141
the reader of stdout is no more, 143 SIGTERM.

`main` and `optimize_main` are the programs `superopt` and `optimize`. Called without arguments, as their scripts do,
they run in a supervised process (`supervisor.py`).
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `typing`: until `supervise` runs, Ctrl-C ends in a traceback, so imports are few
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import click

__all__ = ["main", "optimize_main"]


class _Program:
    """A program; its attributes are those of its Click command, which is imported on first use."""

    def __init__(self, name: str, load: Callable[[], click.Command]) -> None:
        self._name, self._load = name, load

    @property
    def command(self) -> click.Command:
        """The command, imported on first use."""
        return self._load()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command with the arguments of this process, supervised; with other arguments, run it here."""
        if args or kwargs or os.name == "nt":  # Windows has neither process groups nor signals to wait for
            return self.command(*args, **kwargs)
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as by nohup
            signal.signal(signal.SIGINT, _interrupted)
        from superopt.cli.supervisor import supervise

        sys.exit(supervise(self._name, sys.argv[1:]))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.command, name)


def _interrupted(*_: object) -> None:
    """End the process: nothing has begun yet."""
    os.write(2, b"interrupted\n")
    os._exit(130)


def _superopt() -> click.Command:
    from superopt.cli.commands import main

    return main


def _optimize() -> click.Command:
    from superopt.cli.click_commands import versioned
    from superopt.cli.optimize_command import optimize_command

    return versioned(optimize_command)


main = _Program("superopt", _superopt)
optimize_main = _Program("optimize", _optimize)
PROGRAMS = {"superopt": main, "optimize": optimize_main}
