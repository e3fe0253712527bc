"""The programs `superopt` and `optimize`. Each subcommand calls one function of the library and prints its result."""

from __future__ import annotations

import click

from superopt.cli.bench_command import bench_command
from superopt.cli.generate_command import generate_command
from superopt.cli.optimize_command import optimize_command
from superopt.cli.report_command import report_command
from superopt.cli.rules_command import rules_command
from superopt.cli.verify_command import verify_command

__all__ = ["main", "optimize_main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
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


optimize_main = optimize_command
for _command in (
    optimize_command,
    bench_command,
    generate_command,
    report_command,
    rules_command,
    verify_command,
):
    main.add_command(_command)
