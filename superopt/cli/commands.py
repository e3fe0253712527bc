"""The subcommands: thin, each calls one function of the library and prints what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from superopt.cli.bench_command import bench_command
from superopt.cli.generate_command import generate_command
from superopt.cli.options import shapes
from superopt.cli.report_command import report_command, run_report_option, write_run_report
from superopt.cli.result_table import show_result
from superopt.cli.rules_command import rules_command
from superopt.cli.terminal import Progress, errors, one_line_errors, results
from superopt.cli.verify_command import verify_command
from superopt.optimizer import COST_SOURCES, Options, Result, optimize
from superopt.search import EFFORTS, Device, DeviceError, find_device, shipped_devices
from verify.verdict import NUMERICS

__all__ = ["main", "optimize_main"]

_HELP = {"help_option_names": ["-h", "--help"]}


def _device(context: click.Context, parameter: click.Parameter, value: str | None) -> Device | None:
    try:
        return None if value is None else find_device(value)
    except DeviceError as error:
        raise click.BadParameter(str(error), context, parameter) from error
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}", context, parameter) from error


_OPTIMIZE_EXAMPLES = """Make MODEL faster by proven rules and write it to OUT.

    The result is written only if its derivation replays in the kernel, its outputs agree with the original's on
    random inputs, and it is not slower, measured interleaved with the original. Otherwise OUT is the original,
    unchanged.

    \b
    Examples:
      optimize model.onnx -o fast.onnx
      optimize model.onnx -o fast.onnx --ep cuda --budget 300
      optimize model.onnx -o fast.onnx --shape ids=1x128 --shape mask=1x128 --threads 4
      optimize model.onnx -o fast.onnx --numerics exact
      optimize model.onnx -o fast.onnx --cost analytic --device cuda_h200 --target-absent
      optimize model.onnx -o fast.onnx --json --trace trace.json > result.json
    """

_optimize_options: list[Callable[[Callable[..., None]], Callable[..., None]]] = [
    click.argument("model", type=click.Path(path_type=Path)),
    click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Where to write the result."),
    click.option(
        "--ep", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True,
        help="Execution provider to optimize for; auto is CUDA where it works.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print the result as JSON."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of search and inputs."),
    click.option(
        "--budget",
        type=click.FloatRange(min=0),
        default=60.0,
        show_default=True,
        help="Seconds for the search; first-time measurements come on top, at most about 2.5 times as many.",
    ),
    click.option(
        "--alpha", type=click.FloatRange(min=1), default=2.0, show_default=True,
        help="The search passes through graphs that cost up to alpha times the best.",
    ),
    click.option(
        "--effort", type=click.IntRange(1, EFFORTS), default=1, show_default=True,
        help="How thoroughly to look for gains that lie behind dearer graphs; each step takes several times as long.",
    ),
    click.option(
        "--rules", type=click.Path(path_type=Path), help="File or folder of rules to use instead of the shipped ones."
    ),
    click.option(
        "--shape", "shapes", metavar="INPUT=1x3x224x224", multiple=True, callback=shapes,
        help="Sizes at which a dynamic input is measured (else 1); repeatable. The result stays dynamic.",
    ),
    click.option(
        "--threads", type=click.IntRange(min=0), default=1, show_default=True,
        help="Threads of ONNX Runtime while measuring; 0 is its own choice.",
    ),
    click.option(
        "--cost", type=click.Choice(COST_SOURCES), default=COST_SOURCES[0], show_default=True,
        help="Costs that guide the search: measured on the target, or from a model of a device.",
    ),
    click.option(
        "--device", metavar="FILE", callback=_device,
        help=f"Description of the device for the cost model: a TOML file, or {', '.join(shipped_devices())}.",
    ),
    click.option(
        "--target-absent", is_flag=True,
        help="The device of --cost analytic --device is not here: compare outputs, but time nothing, and say so.",
    ),
    click.option(
        "--remeasure", is_flag=True, help="Search and time anew, where an earlier run has timed the very same result."
    ),
    click.option(
        "--explain", is_flag=True, help="Show of each rule where it matched, whether it was tried, and what it gained."
    ),
    click.option("--trace", type=click.Path(path_type=Path), help="Write every step of the derivation as JSON."),
    click.option(
        "--numerics", type=click.Choice(NUMERICS), default=NUMERICS[-1], show_default=True,
        help="Loosest class of rules: exact keeps every bit; reassociating also changes the order of sums; real-only"
        " may also lose NaN and infinities.",
    ),
    run_report_option,
]  # fmt: skip


@one_line_errors
def _optimize(
    model: Path,
    out: Path,
    ep: str,
    as_json: bool,
    seed: int,
    budget: float,
    alpha: float,
    effort: int,
    rules: Path | None,
    shapes: dict[str, tuple[int, ...]],
    threads: int,
    cost: str,
    device: Device | None,
    target_absent: bool,
    remeasure: bool,
    explain: bool,
    trace: Path | None,
    numerics: str,
    report: Path | None,
) -> None:
    if target_absent and (cost != "analytic" or device is None):
        raise click.UsageError("--target-absent needs --cost analytic and --device")
    try:
        options = Options(
            ep=ep,
            threads=threads,
            shapes=shapes,
            rules=rules,
            numerics=numerics,
            seed=seed,
            budget=budget,
            alpha=alpha,
            effort=effort,
            cost=cost,
            device=device,
            target_absent=target_absent,
            remeasure=remeasure,
            explain=explain,
            trace=trace,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    with Progress() as progress:
        result = optimize(model, out, options, progress=progress)
    if report is not None:
        write_run_report(report, result)
    _print_result(result, as_json)


def _print_result(result: Result, as_json: bool) -> None:
    for notice in result.notices:
        errors().print(f"notice: {notice}", markup=False)
    if as_json:
        click.echo(result.to_json())
    else:
        show_result(results(), result)


def _command(name: str) -> click.Command:
    callback: Callable[..., None] = _optimize
    for decorate in reversed(_optimize_options):
        callback = decorate(callback)
    return click.command(name, help=_OPTIMIZE_EXAMPLES, context_settings=_HELP)(callback)


@click.group(context_settings=_HELP)
@click.version_option(package_name="superopt")
def main() -> None:
    """ONNX models made faster by rules that are proven for every tensor size.

    \b
    Examples:
      superopt optimize model.onnx -o fast.onnx    make a model faster
      superopt verify                              prove every shipped rule anew
      superopt rules                               list the rules
      superopt generate --out rules                find and prove the rules from nothing
    """


optimize_main = _command("optimize")
main.add_command(_command("optimize"))
main.add_command(bench_command)
main.add_command(generate_command)
main.add_command(report_command)
main.add_command(rules_command)
main.add_command(verify_command)
