"""`superopt calibrate`: measures this machine, so that `optimize` can predict what is faster on it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import click

from superopt.choices import EXECUTION_PROVIDERS, MOST_THREADS
from superopt.cli.file_names import FileName, Integer
from superopt.cli.terminal import ProgressLines, errors, one_line_errors
from superopt.files import check_writable, write_text
from superopt.optimizer.options import Options
from superopt.search.cost.device import device_of, to_toml

__all__ = ["calibrate_command"]

_DEFAULTS = Options()
_LIMIT_SECONDS = 60.0


@click.command("calibrate", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--ep", type=click.Choice(EXECUTION_PROVIDERS), default=_DEFAULTS.ep, show_default=True,
    help="Execution provider to measure; auto is CUDA if it works, else the CPU.",
)  # fmt: skip
@click.option(
    "--threads", type=Integer(min=0, max=MOST_THREADS), default=_DEFAULTS.threads, show_default=True,
    help="Threads of ONNX Runtime; 0 is its own choice.",
)  # fmt: skip
@click.option(
    "-o", "--out", type=FileName(),
    help="Also write the description to this TOML file, for --device on other machines.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the description as JSON.")
@one_line_errors
def calibrate_command(ep: str, threads: int, out: Path | None, as_json: bool) -> None:
    """Time a fixed set of operators on this machine, within a minute, and keep the result for `optimize`.

    `optimize` does so by itself when it is first used with an execution provider, a number of threads and a version of
    ONNX Runtime. Call this when the machine was busy then, or has changed: everything is measured anew.

    \b
    Examples:
      superopt calibrate
      superopt calibrate --threads 4
      superopt calibrate -o server.toml
      optimize model.onnx -o fast.onnx --device server.toml    (elsewhere)
    """
    from superopt.runtime import close_unused, resolve_target, versions
    from superopt.search import calibrate
    from superopt.store import ResultStore

    if out is not None:
        check_writable(out)
    target, begun = resolve_target(ep, threads), time.monotonic()
    with ProgressLines() as progress, ResultStore() as store:
        prior = device_of(target.device)
        found = calibrate(target, prior, store, limit_s=_LIMIT_SECONDS, anew=True, progress=progress)
        problem = store.problem
    close_unused()
    runtime = f"ONNX Runtime {versions()['onnxruntime']}"
    count = f"{found.measured} of {found.probes} operators"
    if problem is not None:
        errors().print(f"notice: {problem}", markup=False)
    if out is not None:
        description = replace(found.device, name=out.stem)  # elsewhere it is not "this machine"
        write_text(out, to_toml(description, f"Fitted by superopt calibrate to {count}, in {runtime}."))
        errors().print(f"written: {out}", markup=False)
    if as_json:
        click.echo(json.dumps({key: dict(v) if hasattr(v, "items") else v for key, v in vars(found.device).items()}))
        return
    device = found.device
    click.echo(f"{count} measured in {time.monotonic() - begun:.0f} s on {target.provider}, {runtime}")
    click.echo(f"products {device.dense / 1e9:.4g} GFLOP/s, other arithmetic {device.scalar / 1e9:.4g} GFLOP/s")
    click.echo(f"memory {device.bandwidth / 1e9:.3g} GB/s, caches {device.cache_bandwidth / 1e9:.3g} GB/s")
    click.echo(f"{device.overhead * 1e6:.3g} us to start an operator, {len(device.slower)} kinds of kernels")
