"""The command line, the only part that prints: results to stdout, everything else to stderr.

Exit codes: 0 success, 1 a check has failed, 2 unusable input or wrong usage.
"""

from superopt.cli.commands import main, optimize_main

__all__ = ["main", "optimize_main"]
