"""`superopt check`: are two models equal, or where do they differ?"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from superopt.check.known_tools import TOOLS
from superopt.check.options import CheckOptions
from superopt.cli.file_names import FileName, Integer, Number
from superopt.cli.options import check_exist, check_files, shapes
from superopt.cli.terminal import NEGATIVE, ProgressLines, errors, fail, one_line_errors, results
from superopt.files import OutputError, check_writable, write_text

if TYPE_CHECKING:
    from superopt.check import Answer
    from superopt.check.tools import Checked

__all__ = ["UNDECIDED", "check_command", "exit_code"]

UNDECIDED = 3  # exit code of Unknown
_DEFAULTS = CheckOptions()
_File = FileName()


@click.command("check", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("models", metavar="A B | MODEL...", type=_File, nargs=-1, required=True)
@click.option(
    "--seconds", type=Number(min=0, min_open=True), default=_DEFAULTS.seconds, show_default=True,
    help="Seconds for proof and search together, for each pair of models. On a busy machine they may be twice as many.",
)  # fmt: skip
@click.option("--seed", type=Integer(min=0), default=_DEFAULTS.seed, show_default=True, help="Seed of the inputs.")
@click.option(
    "--shape", "shapes", metavar="INPUT=1..64x128", multiple=True, callback=shapes,
    help="Shape of a dynamic input at which to search for a difference. Proofs are about all sizes. Repeatable.",
)  # fmt: skip
@click.option(
    "--inputs", metavar="FILE.npz", type=_File, multiple=True,
    help="Values of inputs at which to search, as numpy.savez writes them. Inputs that the file does not name are drawn"
    " at random. Repeatable.",
)  # fmt: skip
@click.option(
    "--by-position", is_flag=True,
    help="Pair inputs and outputs of the models by position; without it, their names must agree.",
)  # fmt: skip
@click.option(
    "--witness", metavar="FILE.npz", type=_File,
    help="Write an input on which the models differ to this file (without --against: different.npz).",
)  # fmt: skip
@click.option("-o", "--out", metavar="FILE", type=_File, help="Write the certificate to this file if they are equal.")
@click.option(
    "--certificate", metavar="FILE", type=_File,
    help="Search nothing: replay this certificate for A and B in the kernel.",
)  # fmt: skip
@click.option("--html", metavar="FILE", type=_File, help="Write the answer as an HTML page to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
@click.option(
    "--against", metavar="TOOL", type=click.Choice(list(TOOLS)),
    help=f"Run this optimizer on each MODEL, and check its result: {', '.join(TOOLS)}. It must be installed.",
)  # fmt: skip
@click.option("--keep", metavar="FOLDER", type=_File, help="With --against: folder for the results and witnesses.")
@one_line_errors
def check_command(
    models: tuple[Path, ...],
    witness: Path | None,
    out: Path | None,
    certificate: Path | None,
    html: Path | None,
    as_json: bool,
    against: str | None,
    keep: Path | None,
    **settings: Any,
) -> None:
    """Prove that the models A and B compute the same outputs, or show an input on which they differ.

    Equivalent: the interfaces agree, and the kernel proves that each output is the same real number, for all dynamic
    sizes that A's inputs allow (one name is one size) at which no tensor is empty, and all inputs for which all numbers
    that A computes are finite, even those that no output shows. Rounding and overflow are no part of the proof, nor are
    infinities among the weights. Weights that one model has folded are compared by value, within a stated bound if not
    bit for bit: then the proof is about A with weights that differ by no more. Where no bound says what folding may
    give, they are compared with what ONNX Runtime computes, bit for bit, and the answer says so.
    Different: the interfaces differ, or ONNX Runtime confirms an input on which outputs differ by more than roundings;
    or all is proven equal but a few elements of weights, and outputs differ in float64. The input is saved, and the
    first pair of tensors where the models part is named. Unknown: neither; the answer says if only roundings before a
    function that jumps, such as ArgMax, are in the way.

    Exit codes: 0 Equivalent, 1 Different, 3 Unknown, 2 a model that cannot be read, wrong usage, or after the answer a
    file that cannot be written. With --against: 1 if any result is Different, else 3 if any is not proven, else 2 if a
    model cannot be read.

    \b
    Examples:
      superopt check model.onnx fast.onnx
      superopt check model.onnx fast.onnx -o proof.json --html answer.html
      superopt check --certificate proof.json model.onnx fast.onnx
      superopt check legacy.onnx dynamo.onnx --by-position --seconds 300
      superopt check model.onnx fast.onnx --shape ids=1..8x128 --json
      superopt check model.onnx fast.onnx --inputs sample.npz
      superopt check --against onnxsim models/*.onnx --keep results
    """
    check_exist(settings["inputs"])
    if against is None:
        _check_pair(models, CheckOptions(**settings), witness, out, certificate, html, as_json, keep)
    elif any(option is not None for option in (witness, out, certificate, html)) or settings["by_position"]:
        raise click.UsageError(
            "--witness, -o, --certificate, --html and --by-position are for two models, not --against"
        )
    else:
        _check_tool(against, models, CheckOptions(**settings), keep, as_json)


def _check_pair(
    models: tuple[Path, ...],
    options: CheckOptions,
    witness: Path | None,
    out: Path | None,
    certificate: Path | None,
    html: Path | None,
    as_json: bool,
    keep: Path | None,
) -> None:
    if len(models) != 2:
        raise click.UsageError(f"give two models, A and B, not {len(models)}; or --against TOOL and any number")
    if keep is not None:
        raise click.UsageError("--keep is for --against")
    if certificate is not None and (out is not None or witness is not None):
        raise click.UsageError("--certificate replays a proof; it does not go with -o or --witness")
    from superopt.check import EQUIVALENT, check, replay

    left, right = models
    inputs = {"model A": left, "model B": right, "the certificate": certificate}
    inputs |= {f"the values {path}": Path(str(path)) for path in options.inputs}
    witness = witness or _default_witness()
    check_files({"the certificate": out, "the page": html, "the input": None if certificate else witness}, inputs)
    check_exist([] if certificate is None else [certificate])
    with ProgressLines() as progress:
        if certificate is not None:
            answer = replay(certificate, left, right, by_position=options.by_position, progress=progress)
        else:
            options = replace(options, witness=witness, certificate=out)
            answer = check(left, right, options, progress=progress)
    for notice in answer.notices:
        errors().print(f"notice: {notice}", markup=False)
    if as_json:
        click.echo(answer.to_json())
    else:
        results().print(str(answer), markup=False)
    if html is not None:
        from superopt.report import render_check  # only here, as most runs need neither Jinja nor the pages

        write_text(html, render_check(json.loads(answer.to_json())))
        errors().print(f"page: {html}", markup=False)
    if out is not None and answer.verdict != EQUIVALENT:
        errors().print(f"notice: {out}: not written, as the models were not proven equal", markup=False)
    if answer.not_written:
        fail("; ".join(answer.not_written))
    raise SystemExit(exit_code(answer))


def _default_witness() -> Path | None:
    """Return the usual file for an input, or None if this folder cannot be written to."""
    path = Path("different.npz")
    try:
        check_writable(path)
    except OutputError:
        return None
    return path


def exit_code(answer: Answer) -> int:
    """Return 0 for Equivalent, 1 for Different, 3 for Unknown."""
    from superopt.check import DIFFERENT, EQUIVALENT

    return {EQUIVALENT: 0, DIFFERENT: NEGATIVE}.get(answer.verdict, UNDECIDED)


def _check_tool(name: str, models: tuple[Path, ...], options: CheckOptions, keep: Path | None, as_json: bool) -> None:
    from superopt.check.tools import check_tool, find_tool

    find_tool(name)
    if keep is not None:
        twice = [stem for stem, count in Counter(model.stem for model in models).items() if count > 1]
        if twice:
            raise click.UsageError(f"two models are called {twice[0]}; --keep would write both results to one file")
        keep.mkdir(parents=True, exist_ok=True)
    rows: list[Checked] = []
    with ProgressLines() as progress:
        for number, model in enumerate(models, 1):

            def told(message: str, place: str = f"{number} of {len(models)}, {model.name}") -> None:
                progress(f"{message} ({place})")

            rows.append(check_tool(name, model, options, keep, told))
    if as_json:
        click.echo(json.dumps([_row(row) for row in rows], indent=2))
    else:
        _show(rows)
    codes = {row.order for row in rows}
    raise SystemExit(NEGATIVE if NEGATIVE in codes else max(codes))


def _row(row: Checked) -> dict[str, Any]:
    answer = None if row.answer is None else json.loads(row.answer.to_json())
    return {
        "model": row.model,
        "tool": row.tool,
        "version": row.version,
        "verdict": row.verdict,
        "failure": row.failure,
        "nodes": row.nodes,
        "answer": answer,
    }


def _show(rows: list[Checked]) -> None:
    from rich.table import Table

    table = Table(title=" ".join(filter(None, (rows[0].tool, rows[0].version))), title_justify="left")
    for name in ("model", "answer", "nodes", "seconds", "reason"):
        table.add_column(name, justify="right" if name in ("nodes", "seconds") else "left", overflow="fold")
    for row in rows:
        seconds = "" if row.answer is None else f"{sum(row.answer.seconds.values()):.1f}"
        nodes = "" if row.nodes is None else f"{row.nodes[0]} to {row.nodes[1]}"
        reason = row.failure if row.answer is None else row.answer.reason
        table.add_row(Path(row.model).name, row.verdict, nodes, seconds, reason)
    console = results()
    console.print(table, markup=False)
    counts = {
        verdict: sum(row.verdict == verdict for row in rows) for verdict in dict.fromkeys(r.verdict for r in rows)
    }
    console.print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()), markup=False)
