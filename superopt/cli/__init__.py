"""The command line, the only part that prints: results to stdout, everything else to stderr.

Exit codes: 0 success, 1 a check has failed, 2 unusable input or wrong usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from superopt.cli.commands import main

if TYPE_CHECKING:
    from superopt.cli.optimize_command import optimize_command as optimize_main

__all__ = ["main", "optimize_main"]


def __getattr__(name: str) -> object:
    """Import `optimize_main`, the program `optimize`, on first use."""
    if name == "optimize_main":
        from superopt.cli.optimize_command import optimize_command

        return optimize_command
    raise AttributeError(f"module 'superopt.cli' has no attribute {name!r}")
