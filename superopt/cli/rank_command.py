"""`superopt rules rank`: ranks the rules by their use on models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from superopt.cli.file_names import FileName, Integer, RulesName
from superopt.cli.terminal import ProgressLines, fail, one_line_errors

if TYPE_CHECKING:
    from superopt.optimizer.ranking import Ranking, RuleRank

__all__ = ["rank_command"]

SCHEMA_VERSION = 1

_File = FileName()


@click.command(
    "rank", short_help="Rank rules by their use on models.", context_settings={"help_option_names": ["-h", "--help"]}
)
@click.argument("models", metavar="MODEL...", type=_File, nargs=-1, required=True)
@click.option("--rules", type=RulesName(), help="File or folder of rules to rank instead of the shipped ones.")
@click.option("--trace", "traces", type=_File, multiple=True, help="File written by `optimize --trace`; repeatable.")
@click.option(
    "--prove",
    is_flag=True,
    help="Also count matches at signatures that are not certified, if the rule can be proven there now.",
)
@click.option("--top", type=Integer(min=1), help="Number of rules to show; by default all that match or are used.")
@click.option("--json", "as_json", is_flag=True, help="Print all rules, with counts for each model, as JSON.")
@one_line_errors
def rank_command(
    models: tuple[Path, ...],
    rules: Path | None,
    traces: tuple[Path, ...],
    prove: bool,
    top: int | None,
    as_json: bool,
) -> None:
    """Rank rules by their use on models: by steps in traces first, then by models and sites where they match.

    A rule matches if one of its sides can replace the other at a certified signature, with the conditions of the proof
    met. A site is a set of operators and counts once for a rule. Some rules match only after other rules were applied;
    such matches are seen in traces only. A step counts once for each place where it was applied.

    \b
    Examples:
      superopt rules rank model.onnx
      superopt rules rank *.onnx --top 20
      superopt rules rank model.onnx --rules mine.rules --trace trace.json
      superopt rules rank model.onnx --json > ranking.json
    """
    from superopt.optimizer.ranking import TraceError, count_steps, rank
    from superopt.rulebook.loading import certified_rules

    with ProgressLines() as progress:
        steps = []
        for path in traces:  # before the rules, which take seconds to read
            progress(f"reading traces: {path}")
            try:
                steps.append(count_steps(path))
            except TraceError as error:
                fail(str(error))
        listed, certificates = certified_rules(rules)
        ranking = rank(models, [entry.rule for entry in listed], certificates, steps, prove=prove, progress=progress)
    if as_json:
        click.echo(json.dumps(_content(ranking, models, traces), indent=1))
    else:
        click.echo("\n".join(_lines(ranking, top)))


def _unmatched(ranking: Ranking) -> tuple[int, int]:
    """Return the number of rules that match nowhere, and how many of these are used in traces."""
    nowhere = [one for one in ranking.ranks if not one.sites]
    return len(nowhere), sum(one.uses > 0 for one in nowhere)


def _lines(ranking: Ranking, top: int | None) -> Iterator[str]:
    """Yield the table as plain text, one line for each rule, and the number of rules left out."""
    from superopt.cli.equation_text import equation_text

    found = [one for one in ranking.ranks if one.uses or one.sites]
    if found:
        yield f"{'rule':12}  {'uses':>6}  {'models':>6}  {'sites':>6}  equation"
    for one in found[:top]:
        yield f"{one.rule.id:12}  {one.uses:6}  {one.models:6}  {one.sites:6}  {equation_text(one.rule)}"
    nowhere, used = _unmatched(ranking)
    yield f"{nowhere} of {len(ranking.ranks)} rules match nowhere" + (
        f", {used} of them used in traces" if used else ""
    )
    if any(ranking.foreign):
        yield f"{sum(ranking.foreign)} of {sum(ranking.steps)} steps in traces use other rules"


def _content(ranking: Ranking, models: tuple[Path, ...], traces: tuple[Path, ...]) -> dict[str, object]:
    from verify.certificates import kernel_hash

    nowhere, used = _unmatched(ranking)
    return {
        "schema_version": SCHEMA_VERSION,
        "kernel": kernel_hash(),
        "models": list(map(str, models)),
        "traces": [
            {"path": str(path), "steps": steps, "foreign_steps": foreign}
            for path, steps, foreign in zip(traces, ranking.steps, ranking.foreign, strict=True)
        ],
        "totals": {"rules": len(ranking.ranks), "match_nowhere": nowhere, "match_nowhere_but_used": used},
        "rules": [_rank_json(one) for one in ranking.ranks],
    }


def _rank_json(one: RuleRank) -> dict[str, object]:
    from superopt.cli.equation_text import equation_text

    return {
        "id": one.rule.id,
        "equation": equation_text(one.rule),
        "uses": one.uses,
        "models": one.models,
        "sites": one.sites,
        "sites_by_model": list(one.sites_of),
    }
