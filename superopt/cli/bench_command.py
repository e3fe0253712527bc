"""`superopt bench`: compares superopt with ONNX Runtime alone and with other optimizers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.bench import contestants as known
from superopt.bench.contestants import UnknownPeer, choose
from superopt.choices import MOST_THREADS
from superopt.cli.file_names import FileName, Integer, Number, RulesName
from superopt.cli.options import check_files, fixed_shapes
from superopt.cli.terminal import NEGATIVE, UNUSABLE, ProgressLines, errors, one_line_errors, results
from superopt.files import write_text
from superopt.optimizer.options import Options

if TYPE_CHECKING:
    from superopt.bench.result import Contest

__all__ = ["bench_command"]

_File = FileName()


def _peers(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Parse `a,b` to names and `none` to an empty list; None stands for all peers."""
    if value is None:
        return None
    names = [] if value == "none" else [name.strip() for name in value.split(",") if name.strip()]
    try:
        choose(names, "cpu")
    except UnknownPeer as error:
        raise click.BadParameter(str(error), context, parameter) from error
    missing = next((peer for peer in known.PEERS if peer.name in names and not peer.installed()), None)
    if missing is not None:
        raise click.BadParameter(missing.how_to_install, context, parameter)
    return names


@click.command("bench", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", metavar="MODEL...", type=_File, nargs=-1, required=True)
@click.option(
    "--peers", metavar="NAME,...", callback=_peers,
    help=f"Other optimizers to compare with, or none: {', '.join(peer.name for peer in known.PEERS)}. By default all"
    " that are installed (pip install 'superopt[bench]').",
)  # fmt: skip
@click.option(
    "--ep", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True,
    help="Execution provider; auto is CUDA if it works, else the CPU.",
)  # fmt: skip
@click.option(
    "--threads", type=Integer(min=0, max=MOST_THREADS), default=0, show_default=True,
    help="Threads while measuring wall time; 0 is each engine's own choice. CPU time is always measured at one thread.",
)  # fmt: skip
@click.option(
    "--seed",
    type=Integer(min=0),
    default=0,
    show_default=True,
    help="Seed of the search, the inputs and the order of measurements.",
)
@click.option(
    "--budget",
    type=Number(min=0),
    default=Options().budget_s,
    show_default=True,
    help="Seconds of wall time for superopt on each model.",
)
@click.option(
    "--rules", type=RulesName(), help="File or folder of certified rules for superopt instead of the shipped ones."
)
@click.option(
    "--shape", "shapes", metavar="INPUT=1x3x224x224", multiple=True, callback=fixed_shapes,
    help="Shape of a dynamic input (sizes are 1 by default), for the models that have this input; repeatable.",
)  # fmt: skip
@click.option(
    "--measure-s", type=Number(min=0), default=5.0, show_default=True,
    help="Seconds of measuring for each contestant and clock.",
)  # fmt: skip
@click.option(
    "--timeout",
    type=Number(min=1),
    default=900.0,
    show_default=True,
    help="Maximum seconds for each optimizer.",
)
@click.option(
    "-o", "--keep", type=FileName(file_okay=False),
    help="Folder in which to keep the optimized models and superopt's reports.",
)  # fmt: skip
@click.option("--svg", type=_File, help="Write a bar chart to this SVG file.")
@click.option("--json", "as_json", is_flag=True, help="Print all results as JSON.")
@click.option("--markdown", is_flag=True, help="Print the tables as Markdown.")
@one_line_errors
def bench_command(
    models: tuple[Path, ...],
    peers: list[str] | None,
    ep: str,
    threads: int,
    seed: int,
    budget: float,
    rules: Path | None,
    shapes: dict[str, tuple[int, ...]],
    measure_s: float,
    timeout: float,
    keep: Path | None,
    svg: Path | None,
    as_json: bool,
    markdown: bool,
) -> None:
    """Compare superopt with other optimizers on each MODEL, and measure all results in one run.

    ONNX Runtime runs every result with all its optimizations on, in turns and in fresh sessions. OpenVINO runs the
    original ("openvino") and what superopt makes for it ("superopt+openvino"). A ratio compares with the original in
    ONNX Runtime alone; above 1 is faster. "saved again" is the original, read and written: its ratio shows the noise. A
    result with different outputs is not timed.

    Exit code 1: a result of superopt is wrong, failed, or surely slower than 0.98. Exit code 2: an option or a model
    cannot be used. Files that are not models are refused before any measurement; models that do not run are reported
    and skipped.

    \b
    Examples:
      superopt bench model.onnx
      superopt bench *.onnx --budget 30 --svg bench.svg --json > bench.json
      superopt bench model.onnx --peers onnxsim,onnxslim --threads 4 -o models
      superopt bench model.onnx --peers none --shape ids=1x128
    """
    from superopt.bench.chart import draw
    from superopt.bench.contest import BenchmarkSettings
    from superopt.bench.run import bench
    from superopt.cli.bench_tables import print_contest, print_summary
    from superopt.runtime import resolve_target

    check_files({"the chart": svg}, {f"the model {model}": model for model in models} | {"the rules": rules})
    target = resolve_target(ep, 1)
    contestants, absent = choose(peers, target.provider)
    ours = {"budget": budget} | ({} if rules is None else {"rules": str(rules)})
    options = BenchmarkSettings(target, threads, seed, shapes, measure_s, timeout, ours)
    console, clocks = results(), {name: title for name, (title, _) in options.clocks.items()}

    def finished(contest: Contest) -> None:
        for notice in contest.notices:
            errors().print(f"notice: {contest.model}: {notice}", markup=False)
        if not as_json:
            print_contest(console, contest, clocks, markdown)

    with ProgressLines() as progress:
        benchmark = bench(models, contestants, options, keep=keep, absent=absent, progress=progress, finished=finished)
    if svg is not None:
        write_text(svg, draw(benchmark))
    if as_json:
        click.echo(benchmark.to_json())
    else:
        print_summary(console, benchmark, markdown)
        if absent:
            console.print("absent: " + "; ".join(f"{name} ({why})" for name, why in absent.items()), markup=False)
    losses = benchmark.losses()
    for loss in losses:
        errors().print(f"ours: {loss}", markup=False)
    if losses:
        raise SystemExit(NEGATIVE)
    if any(contest.problem is not None for contest in benchmark.contests):
        raise SystemExit(UNUSABLE)
