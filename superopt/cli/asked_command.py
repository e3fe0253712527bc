"""`superopt rules asked`: lists the signatures at which searches of models ask for proofs that no certificate has."""

from __future__ import annotations

from pathlib import Path

import click

from superopt.cli.file_names import FileName, Number, RulesName
from superopt.cli.options import check_files
from superopt.cli.terminal import ProgressLines, one_line_errors
from superopt.files import write_text
from superopt.search.cost.device import find_device, shipped_devices
from superopt.wording import counted

__all__ = ["asked_command"]

_File = FileName()


@click.command(
    "asked",
    short_help="List where searches of models ask for further proofs.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("models", metavar="MODEL...", type=_File, nargs=-1, required=True)
@click.option("-o", "--out", type=_File, required=True, help="File to write the list to.")
@click.option("--rules", type=RulesName(), help="File or folder of rules to search with instead of the shipped ones.")
@click.option(
    "--device", "names", type=click.Choice(shipped_devices()), multiple=True, default=("cpu", "cuda_h200"),
    show_default=True, help="Device whose costs guide a search; repeatable.",
)  # fmt: skip
@click.option(
    "--work", type=Number(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
    help="Work of each search, in seconds on a typical machine, without proofs.",
)  # fmt: skip
@one_line_errors
def asked_command(models: tuple[Path, ...], out: Path, rules: Path | None, names: tuple[str, ...], work: float) -> None:
    """List the signatures at which searches of each MODEL ask for proofs that no certificate has, if they are proven.

    `optimize` proves them in its first run on a model, and remembers them. `superopt generate --asked` proves them
    beforehand. The list is a file of rules: each line is a rule with its further signatures. Equal models give an equal
    list. Nothing is run or measured.

    \b
    Examples:
      superopt rules asked model.onnx -o asked.rules
      superopt rules asked *.onnx -o asked.rules --device cpu --work 20
    """
    from superopt.ir.notation import show_rule
    from superopt.optimizer.asked_signatures import asked_signatures
    from superopt.rulebook.loading import certified_rules

    check_files({"the list": out}, {f"model {path}": path for path in models})
    with ProgressLines() as progress:
        listed, certificates = certified_rules(rules)
        found = asked_signatures(
            models,
            [entry.rule for entry in listed],
            certificates,
            [find_device(name) for name in names],
            work_s=work,
            progress=progress,
        )
    head = f"# Signatures at which searches of {counted(len(models), 'model')} asked for a proof."
    write_text(out, "".join(f"{line}\n" for line in (head, *map(show_rule, found))))
    total = sum(len(rule.signatures) for rule in found)
    click.echo(f"wrote {counted(len(found), 'rule')} with {counted(total, 'further signature')} to {out}")
