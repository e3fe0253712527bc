"""The command line, the only part that prints: results to stdout, everything else to stderr.

Exit codes: 0 fine, 1 the result of a check is negative, 2 unusable input or usage.
"""

from superopt.cli.commands import main, optimize_main

__all__ = ["main", "optimize_main"]
