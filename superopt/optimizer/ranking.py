"""Rules ranked by their use in traces of `optimize` and by the number of places in models where they match."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule, Signature
from superopt.onnx_io import read_model
from superopt.rulebook.commutative import operand_orders
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.signature_check import Check
from superopt.search.match_counts import count_matches
from verify.certificates import Certificate, CertifiedBook
from verify.diagnose.counterexample import find_counterexample
from verify.proof_book import Book

__all__ = ["RuleRank", "Ranking", "TraceError", "count_steps", "rank"]


class TraceError(ValueError):
    """A file is not a trace of `optimize --trace`; the message is one line that names the file."""


@dataclass(frozen=True)
class RuleRank:
    """A rule, the number of steps in the traces that use it, and the number of sites in each model where it matches."""

    rule: Rule
    uses: int
    sites_of: tuple[int, ...]

    @property
    def sites(self) -> int:
        """Number of sites in all models."""
        return sum(self.sites_of)

    @property
    def models(self) -> int:
        """Number of models with a site."""
        return sum(count > 0 for count in self.sites_of)


@dataclass(frozen=True)
class Ranking:
    """Rules by uses, models and sites, in descending order; equal rules in the order of their files.

    `steps` is the number of steps in each trace, `foreign` the number of those that use other rules.
    """

    ranks: tuple[RuleRank, ...]
    steps: tuple[int, ...]
    foreign: tuple[int, ...]


def rank(
    models: Sequence[Path],
    rules: Iterable[Rule],
    certificates: Mapping[Rule, Certificate],
    traces: Sequence[Counter[str]] = (),
    *,
    prove: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Ranking:
    """Rank `rules`, which `certificates` certify, by their use in `traces` and by their matches in `models`.

    `traces` has the steps of each trace (see `count_steps`).

    A rule matches where one of its certified signatures fits and the conditions of the proof hold (see
    `count_matches`); with `prove` also where it can be proven now, as `optimize` does. A step of a trace counts once
    for each place to which its rewrite was applied, as in the result of `optimize`.

    Raises ModelError.
    """
    rules = list(dict.fromkeys(rules))
    origin: dict[str, str] = {}  # id of a rule as applied (in steps) -> id of the listed rule
    for rule, variant in _variants(rules):
        origin.setdefault(variant.id, rule.id)

    uses: Counter[str] = Counter()
    for counts in traces:
        for step, count in counts.items():
            if step in origin:
                uses[origin[step]] += count

    ready, check = RuleIndex(rules), _check(CertifiedBook(certificates, refute=find_counterexample), prove)
    sites: list[Counter[str]] = []
    for number, path in enumerate(models, 1):
        progress(f"matching: {path} ({number} of {len(models)})")
        sites.append(count_matches(read_model(path).outputs, ready, check))

    ranks = [RuleRank(rule, uses[rule.id], tuple(found[rule.id] for found in sites)) for rule in rules]
    ranks.sort(key=lambda one: (-one.uses, -one.models, -one.sites))
    foreign = tuple(sum(count for step, count in counts.items() if step not in origin) for counts in traces)
    return Ranking(tuple(ranks), tuple(counts.total() for counts in traces), foreign)


def _variants(rules: Iterable[Rule]) -> Iterator[tuple[Rule, Rule]]:
    """Yield every form of each rule that a search may apply: both directions, and all orders of operands."""
    for rule in rules:
        for directed in (rule, rule.reversed()):
            for variant in operand_orders(directed):
                yield rule, variant


def _check(book: Book, prove: bool) -> Check:
    """Return a check that asks `book`. Without `prove`, only the rule's own signatures are tried."""

    def check(rule: Rule, bindings: Bindings) -> Signature | None:
        return next((at for at in rule.signatures if book.allows(rule, at, bindings)), None)

    return book.check if prove else check


def count_steps(path: Path) -> Counter[str]:
    """Count the steps of a trace that apply each rule, by the id in the trace. Raises TraceError, OSError."""
    try:
        trace = json.loads(path.read_text(encoding="utf-8"))
        rewrites = [[str(step["id"]) for step in rewrite["steps"]] for rewrite in trace["rewrites"]]
        return Counter(step for places in trace["passes"] for at in places for step in rewrites[at["rewrite"]])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise TraceError(f"{path}: not a trace of optimize; `optimize --trace FILE` writes one") from error
