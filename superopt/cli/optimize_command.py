"""`superopt optimize`, also installed as the program `optimize`: makes a model faster."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from superopt.choices import EXECUTION_PROVIDERS, FIRST_OPSET, MOST_THREADS, RUNTIMES
from superopt.cli.click_commands import Program
from superopt.cli.file_names import FileName, Integer, Number, RulesName
from superopt.cli.options import STREAMS, check_exist, check_rules, device, shapes
from superopt.cli.run_report import run_report_option, write_run_report
from superopt.cli.terminal import ProgressLines, errors, one_line_errors, results
from superopt.cli.worker import supervision
from superopt.files import OutputError, check_distinct, is_same
from superopt.optimizer.options import COST_SOURCES, DOMAINS, Options
from superopt.search.cost.device import shipped_devices
from superopt.search.strategy.efforts import EFFORTS
from superopt.wording import duration
from verify.stability.classes import LEVELS

if TYPE_CHECKING:
    from superopt.cli.second_proof import SecondProof
    from superopt.optimizer import Result
    from superopt.optimizer.outcome import Outcome

__all__ = ["optimize_command"]

_DEFAULTS = Options()
_File = FileName()


class _Opset(Integer):
    """Versions of ONNX's operator set. The newest is known to onnx only, which is asked when a version is given."""

    def __init__(self) -> None:
        super().__init__(min=FIRST_OPSET)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from superopt.onnx_io.opset import NEWEST_OPSET

        return Integer(FIRST_OPSET, NEWEST_OPSET).convert(value, param, ctx)


class _Optimize(Program):
    """The command, which says where the result's name belongs: other optimizers take it after the model's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            hint = "give one MODEL, and the file to write with -o FILE"
            raise click.UsageError(f"{error.message}; {hint}", ctx) from error


@click.command("optimize", cls=_Optimize, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", type=_File)
@click.option("-o", "--out", type=_File, help="File to write the result to.")
@click.option("--in-place", is_flag=True, help="Write the result to MODEL itself, in the place of -o.")
@click.option(
    "--ep", type=click.Choice(EXECUTION_PROVIDERS), default=_DEFAULTS.ep, show_default=True,
    help="Execution provider to optimize for; auto is CUDA if it works, else the CPU.",
)  # fmt: skip
@click.option(
    "--target", type=click.Choice(RUNTIMES), default=_DEFAULTS.target, show_default=True,
    help="Runtime to optimize for, and to measure in. openvino runs on the CPU (pip install"
    " 'superopt[openvino]'): costs are analytic, and rewrites introduce operators of ONNX itself only.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--seed", type=Integer(min=0), default=_DEFAULTS.seed, show_default=True,
    help="Seed of the search and of the random inputs.",
)  # fmt: skip
@click.option(
    "--budget", metavar="SECONDS", type=Number(min=0),
    help="Seconds of wall time for the whole run, which ends with the best result that it has validated by then. It"
    " takes longer only if reading, comparing and timing the model once takes longer. By default 40, times 3 for each"
    " further effort.",
)  # fmt: skip
@click.option(
    "--quick", is_flag=True,
    help="Take seconds: rewrite by rules that gain on every known device by analytic costs, compare outputs, time"
    " nothing, introduce operators of ONNX itself only. --budget, --effort, --cost and --domains have no effect then.",
)  # fmt: skip
@click.option(
    "--timeout", metavar="SECONDS", type=Number(min=0, min_open=True),
    help="End after this many seconds, whatever the run is doing, with the best result that was validated until then,"
    " else the unchanged original. Ctrl-C also leaves that result.",
)  # fmt: skip
@click.option(
    "--alpha", type=Number(min=1), default=_DEFAULTS.alpha, show_default=True,
    help="The search may visit graphs that cost up to alpha times the best one found.",
)  # fmt: skip
@click.option(
    "--effort", type=Integer(1, EFFORTS), default=_DEFAULTS.effort, show_default=True,
    help="Thoroughness in looking for gains behind more expensive graphs; each step takes three times as long.",
)  # fmt: skip
@click.option("--rules", type=RulesName(), help="File or folder of certified rules to use instead of the shipped ones.")
@click.option("--add-rules", type=RulesName(), multiple=True, help="The same, to use besides them. Repeatable.")
@click.option(
    "--skip-rule", "skip_rules", metavar="ID", multiple=True,
    help="Do without this rule (`superopt rules` lists the ids). Repeatable.",
)  # fmt: skip
@click.option(
    "--shape", "shapes", metavar="INPUT=1..64x128", multiple=True, callback=shapes,
    help="Shape at which a dynamic input is measured, with a range where several sizes matter: the result is not slower"
    " at its ends, nor between. Sizes that are not given are measured at 1 and at a larger size. Repeatable. The result"
    " stays dynamic.",
)  # fmt: skip
@click.option(
    "--inputs", metavar="FILE.npz", type=_File, multiple=True,
    help="Values of inputs, as numpy.savez writes them, for comparison and timing; they fix dynamic sizes as well."
    " Inputs that the file does not name are drawn at random. Repeatable: each file is one sample.",
)  # fmt: skip
@click.option(
    "--samples", type=Integer(min=1), default=_DEFAULTS.samples, show_default=True,
    help="Random inputs on which outputs are compared, besides those of other scales.",
)  # fmt: skip
@click.option(
    "--threads", type=Integer(min=0, max=MOST_THREADS), default=_DEFAULTS.threads, show_default=True,
    help="Threads of the runtime while measuring, as the model will be deployed; 0 is its own choice.",
)  # fmt: skip
@click.option(
    "--cost", type=click.Choice(COST_SOURCES), default=_DEFAULTS.cost, show_default=True,
    help="Source of the costs that guide the search: this machine, measured once (superopt calibrate), with timings of"
    " rewritten parts of the model; or only the description of a device.",
)  # fmt: skip
@click.option(
    "--device", metavar="FILE", callback=device,
    help=f"Device of the cost model, instead of this machine: a TOML file, or one of {', '.join(shipped_devices())}.",
)  # fmt: skip
@click.option(
    "--target-absent", is_flag=True,
    help="The device is not this machine: compare outputs, time nothing, and say so. Needs --cost analytic and"
    " --device.",
)  # fmt: skip
@click.option(
    "--remeasure", is_flag=True, help="Ignore the searches, comparisons and timings of whole models by earlier runs."
)
@click.option(
    "--explain", is_flag=True,
    help="Show how often the rules matched and were tried, and what those used save by prediction: the first ten, and"
    " all with --json.",
)  # fmt: skip
@click.option("--trace", type=_File, help="Write every step of the derivation to this file, as JSON.")
@click.option(
    "--numerics", type=click.Choice(LEVELS), default=_DEFAULTS.numerics, show_default=True,
    help="Loosest class of rules to use: exact keeps every bit; reassociating also adds up the same terms in another"
    " order; stable multiplies the bound on the rounding error of each element by a proven factor at most; normwise"
    " allows the same for the largest elements of what is summed; real-only has no such bound, and may remove what"
    " replaces NaN or infinity by a number.",
)  # fmt: skip
@click.option(
    "--domains", type=click.Choice(DOMAINS), default=_DEFAULTS.domains, show_default=True,
    help="Operators that rewrites may introduce: onnx for those that every runtime knows, all for functions of ONNX"
    " Runtime (com.microsoft) as well.",
)  # fmt: skip
@click.option(
    "--target-opset", metavar="N", type=_Opset(),
    help="Convert the model to this version of ONNX's operator set first; the result is compared with the original.",
)  # fmt: skip
@click.option("--external-data", is_flag=True, help="Write weights to a second file beside OUT, whatever their size.")
@click.option(
    "--check", "checked", is_flag=True,
    help="Prove the result equal to the original a second time, without the derivation (superopt check), before it is"
    " written. If they differ, nothing is written, and the exit code is 1.",
)  # fmt: skip
@run_report_option
@one_line_errors
def optimize_command(
    model: Path, out: Path | None, as_json: bool, report: Path | None, checked: bool, **settings: Any
) -> None:
    """Make MODEL faster with proven rules and write it to OUT, or to MODEL itself with --in-place.

    The result is written only if its derivation replays in the kernel, its outputs agree with the original's on
    random inputs, and it is not slower in a measurement interleaved with the original. Otherwise OUT is the unchanged
    original. If MODEL cannot be run here, it is unchanged; with --cost analytic or --quick it is rewritten by proven
    rules, and a notice says that nothing was compared or timed.

    MODEL (without --in-place), OUT and the files of --trace and --report must be different files. An existing file is
    replaced as a whole, at the end; devices, pipes and folders never are. With --external-data, or above 2 GB, weights
    go to a second file beside OUT, whose name begins with OUT's and ends in .data: move both together.

    \b
    Examples:
      optimize model.onnx -o fast.onnx
      optimize model.onnx -o fast.onnx --quick --check
      optimize model.onnx --in-place
      optimize model.onnx -o fast.onnx --ep cuda --budget 120
      optimize model.onnx -o fast.onnx --shape ids=1..8x128 --shape mask=1..8x128
      optimize model.onnx -o fast.onnx --target openvino
      optimize model.onnx -o fast.onnx --inputs sample1.npz --inputs sample2.npz
      optimize model.onnx -o fast.onnx --numerics exact
      optimize model.onnx -o fast.onnx --threads 4 --effort 3 --report run.html
      optimize model.onnx -o fast.onnx --domains onnx --target-opset 17
      optimize model.onnx -o fast.onnx --cost analytic --device cuda_h200 \\
        --target-absent
      optimize model.onnx -o fast.onnx --json --trace trace.json > result.json
    """
    if settings["target_absent"] and (settings["cost"] != "analytic" or settings["device"] is None):
        raise click.UsageError("--target-absent needs --cost analytic and --device")
    if (out is None) != settings["in_place"]:
        check_exist([model])
        raise click.UsageError("give either -o FILE, or --in-place to replace MODEL")
    out = out or model
    try:
        options = Options(**settings)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    check_distinct({"the result": out, "the trace": settings["trace"], "the report": report}, STREAMS)
    if out is not model and is_same(out, model):
        raise OutputError(f"{out}: cannot be both the result and the model; --in-place, without -o, replaces the model")
    check_exist(settings["inputs"])
    check_rules((settings["rules"], *settings["add_rules"]))
    with ProgressLines() as lines:
        progress = lines if options.quick else _with_time_left(lines, options.budget_s)
        second = _second_proof(options, progress) if checked else None
        result = _supervised(model, out, options, report, progress, second)
        if report is not None:
            progress("writing the report")
            write_run_report(report, model, result, options)
    _print_result(result, as_json, second)


def _with_time_left(progress: Callable[[str], None], budget_s: float) -> Callable[[str], None]:
    """Return `progress` such that each line says what is left of the budget."""
    begun = time.monotonic()

    def told(message: str) -> None:
        left = budget_s - (time.monotonic() - begun)
        if left >= 1:
            message += f"{',' if ':' in message else ':'} {duration(left)} of the budget left"
        progress(message)

    return told


def _second_proof(options: Options, progress: Callable[[str], None]) -> SecondProof:
    from superopt.cli.second_proof import SecondProof  # 33 more modules

    return SecondProof(options, progress)


def _supervised(
    model: Path,
    out: Path,
    options: Options,
    report: Path | None,
    progress: Callable[[str], None],
    second: SecondProof | None,
) -> Result:
    """Optimize in this process if another one supervises it; it may also have been started to finish a stopped run."""
    from superopt.optimizer.api import finish, optimize_file, optimize_here
    from superopt.optimizer.outcome import Checkpoint

    supervisor = supervision()
    confirm = second or (lambda *_: None)
    if supervisor is None:
        if second is not None:
            return optimize_here(model, out, options, report=report, progress=progress, confirm=confirm)
        return optimize_file(model, out, options, report=report, progress=progress)
    if supervisor.finish:
        return finish(model, out, options, supervisor.folder, supervisor.finish)
    checkpoint = Checkpoint(supervisor.folder)

    def validated(outcome: Outcome | None) -> None:
        checkpoint.replace(outcome)
        supervisor.checkpoint(outcome is not None)

    supervisor.limit(options.timeout)
    supervisor.checkpoint(False)
    return optimize_here(
        model,
        out,
        options,
        report=report,
        progress=progress,
        validated=validated,
        confirm=confirm,
        writing=supervisor.writing,
    )


def _print_result(result: Result, as_json: bool, second: SecondProof | None) -> None:
    from superopt.optimizer.result_text import result_text

    for notice in result.notices:
        errors().print(f"notice: {notice}", markup=False)
    if as_json:
        click.echo(result.to_json() if second is None else second.added_to(result))
    else:
        results().print(result_text(result), markup=False)
        if second is not None and result.changed:
            results().print(second.line(), markup=False)
