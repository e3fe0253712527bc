"""`superopt generate`: finds and proves the rules from the grammar, on one machine or on a cluster."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.file_names import FileName, Integer
from superopt.cli.supervisor import INTERRUPTED
from superopt.cli.terminal import NEGATIVE, ProgressLines, errors, fail, one_line_errors, results

if TYPE_CHECKING:
    from superopt.generate.grammar import Family
    from superopt.ir.rule import Rule, Signature
    from verify.verdict import Counterexample

__all__ = ["MOST_WINDOWS", "generate_command"]

MOST_WINDOWS = 200  # taken from a corpus by default: those with the largest share of cost

_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _bytes(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Parse a size such as 512M, 1.5G or 4GiB to bytes."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT])(i?B)?", value.strip(), re.IGNORECASE)
    size = int(float(found[1]) * _UNITS[found[2].upper()]) if found else 0
    if size < 1:
        raise click.BadParameter(f"{value!r} is no size like 512M or 4G", context, parameter)
    return size


def _families(names: tuple[str, ...], corpus: Path | None, windows: int) -> tuple[Family, ...]:
    """Return the families with these names; by default all, with the windows of the corpus."""
    from superopt.corpus import CorpusError, read_corpus
    from superopt.generate import UnknownFamily, choose
    from superopt.generate.conjectures.written_functions import function_families
    from superopt.generate.families import FAMILIES
    from superopt.generate.targets import window_families

    if corpus is None and windows != MOST_WINDOWS:
        raise click.UsageError("--windows is for --corpus")
    if corpus is None and "corpus" in names:
        raise click.UsageError("--family corpus needs --corpus FILE, which `superopt harvest` writes")
    try:
        of_windows = () if corpus is None else list(read_corpus(corpus))
        found = (*window_families(of_windows, windows), *function_families(of_windows))
        return choose(names, (*FAMILIES, *found))
    except UnknownFamily as error:
        raise click.BadParameter(str(error), param_hint="'--family'") from error
    except CorpusError as error:
        raise click.BadParameter(str(error), param_hint="'--corpus'") from error


def _asked(path: Path | None) -> str:
    """Return the text of a list of signatures. Raises RulesError."""
    if path is None:
        return ""
    from superopt.rulebook.loading import read_rules

    read_rules(path)  # which names what cannot be read
    return path.read_text(encoding="utf-8")


@click.command("generate", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "-o", "--out", type=FileName(file_okay=False), default=Path("rules"), show_default=True,
    help="Folder to write. Until the run ends, results of shards are kept beside it in OUT.shards.",
)  # fmt: skip
@click.option(
    "--seed",
    type=Integer(min=0),
    default=0,
    show_default=True,
    help="Random seed; equal seeds give equal files.",
)
@click.option(
    "--operators", metavar="N", type=Integer(min=1),
    help="Maximum number of operators on a side of an equation; by default each family has its own.",
)  # fmt: skip
@click.option(
    "--family", "names", metavar="NAME", multiple=True,
    help="Generate only this family of graphs, or group of families; repeatable. `corpus` is the windows of --corpus.",
)  # fmt: skip
@click.option(
    "--corpus", type=FileName(dir_okay=False),
    help="Also find faster graphs for the windows of models in this file, which `superopt harvest` writes.",
)  # fmt: skip
@click.option(
    "--windows", metavar="N", type=Integer(min=1), default=MOST_WINDOWS, show_default=True,
    help="Largest number of windows of the corpus, those with the largest share of cost first.",
)  # fmt: skip
@click.option(
    "--asked", type=FileName(dir_okay=False),
    help="Also prove the rules at the signatures in this file, which `superopt rules asked` writes.",
)  # fmt: skip
@click.option(
    "-j", "--jobs", type=Integer(min=1), default=1, show_default=True,
    help="Number of processes; the rules do not depend on it.",
)  # fmt: skip
@click.option(
    "--scheduler", metavar="URL",
    help="Run on the cluster of this Dask scheduler: tcp://host:8786 (pip install 'superopt[cluster]').",
)  # fmt: skip
@click.option(
    "--memory", metavar="SIZE", callback=_bytes,
    help="Memory for the compared graphs, such as 512M or 4G: for all processes together, or for each worker of"
    " a cluster. The rules do not depend on it.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Stop with an error if the interrupted run had other options.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@one_line_errors
def generate_command(
    out: Path,
    seed: int,
    operators: int | None,
    names: tuple[str, ...],
    corpus: Path | None,
    windows: int,
    asked: Path | None,
    jobs: int,
    scheduler: str | None,
    memory: int | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Find rules by enumeration, prove them, and write them to a folder.

    Counterexamples of refuted rules are also run in ONNX Runtime. A run may be stopped or killed at any moment; the
    same command goes on from there, and one with other options starts over. The same seed and options give the same
    rules, for any number of processes or machines.

    All files of an earlier run in the folder are replaced at one moment (on Linux; elsewhere one by one). Files that
    `superopt generate` has not written stay.

    \b
    Examples:
      superopt generate --out rules
      superopt generate --out other --seed 1 --family matrix --family conv
      superopt generate --out mine --corpus corpus.txt --family corpus
      superopt generate --out mine --asked asked.rules
      superopt generate --out deep --operators 4 -j 8 --memory 16G
      superopt generate --out deep --scheduler tcp://10.0.0.1:8786
      dask worker tcp://10.0.0.1:8786 --nthreads 1    (on the machines there)
    """
    if scheduler is not None and jobs > 1:
        raise click.UsageError("--jobs is for this machine only; with --scheduler, start more workers on the cluster")
    from superopt.cli.summary_table import show_summary
    from superopt.generate import generate
    from superopt.generate.run.shard_results import StoreError
    from superopt.generate.run.workers import WorkersError

    families = _families(names, corpus, windows)
    try:
        with ProgressLines(0.0) as progress:
            summary = generate(
                out,
                seed,
                progress,
                families=families,
                operators=operators,
                jobs=jobs,
                scheduler=scheduler,
                memory=memory,
                resume=resume,
                confirm=_confirmation,
                asked=_asked(asked),
            )
    except (StoreError, WorkersError) as error:
        fail(str(error))
    except (KeyboardInterrupt, SystemExit):  # the latter if a supervisor stops this process
        errors().print("interrupted; the same command goes on from here", markup=False)
        raise SystemExit(INTERRUPTED) from None
    if as_json:
        click.echo(summary.to_json(), nl=False)
    else:
        show_summary(results(), summary, out)
    contradicted = list(_contradicted(out))
    for message in contradicted:
        errors().print(f"error: {message}", markup=False)
    if contradicted:
        raise SystemExit(NEGATIVE)


def _confirmation(rule: Rule, signature: Signature, example: Counterexample) -> dict[str, str]:
    """Run a counterexample in ONNX Runtime, on the machine that found it."""
    from superopt.diagnose.confirmation import confirm

    return asdict(confirm(rule, signature, example))


def _contradicted(folder: Path) -> Iterator[str]:
    """Describe the refused equations whose sides are equal in ONNX Runtime."""
    from superopt.diagnose.confirmation import Confirmation

    for line in (folder / "refused.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        said = Confirmation(**entry.get("confirmation", {"outcome": ""}))
        if said.contradicts:
            yield f"{entry['rule']} @ {entry['signature']}: {said}"
