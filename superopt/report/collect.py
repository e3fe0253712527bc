"""Collection of rules, certificates, refused candidates and stage counts into a `Report`. Nothing is proven here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from superopt.ir.notation import NotationError, parse_rule, show_rule, show_signature, show_terms
from superopt.ir.operator import OPERATORS
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, topological
from superopt.report.data import (
    Proof,
    RefusedCandidate,
    Report,
    RuleEntry,
    ShownConfirmation,
    ShownCounterexample,
    Tested,
    Totals,
)
from superopt.rulebook.loading import OTHER_FORM
from superopt.search.match.split_rule import can_apply
from verify.certificates import Certificate, kernel_hash, line_hash
from verify.verdict import NUMERICS, Proved

__all__ = ["ReportError", "collect"]


class ReportError(ValueError):
    """A file beside the rules cannot be read; the message is one line that names it."""


def collect(
    families: Mapping[str, Sequence[tuple[int, Rule]]],
    certificates: Mapping[Rule, Certificate],
    beside: Callable[[str], Path],
) -> Report:
    """Return the report on `families` (name -> certified rules with their line numbers).

    `beside(name)` is the path of a file beside the rules: `refused.jsonl`, `summary.json` and `times.json` are read,
    and a missing file counts as empty. Raises ReportError.
    """
    times = _times(beside("times.json"))
    rules = tuple(
        _entry(family, line, rule, certificates[rule], times.get(rule.id))
        for family, of in families.items()
        for line, rule in of
    )
    return Report(
        program=_program(),
        kernel=kernel_hash(),
        solvers=tuple(sorted({rule.solver for rule in rules if rule.solver})),
        rules=rules,
        candidates=tuple(_candidates(beside("refused.jsonl"))),
        totals=tuple(_totals(family, [r for r in rules if r.family == family]) for family in families),
        classes={name: sum(rule.numerics == name for rule in rules) for name in NUMERICS},
        tested=Tested(len(OPERATORS)),
        stages=_stages(beside("summary.json")),
    )


def _program() -> str:
    try:
        return f"superopt {version('superopt')}"
    except PackageNotFoundError:  # run from a checkout
        return "superopt"


def _lines(path: Path) -> list[tuple[str, str]]:
    """Return the place (for messages) and the text of each non-empty line. Raises ReportError."""
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: holds bytes that are no text in UTF-8") from error
    return [(f"{path}:{number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _times(path: Path) -> dict[str, float]:
    if not path.is_file():
        return {}
    try:
        return {rule: float(seconds) for rule, seconds in json.loads(path.read_text(encoding="utf-8")).items()}
    except OTHER_FORM as error:
        raise ReportError(f"{path}: not the prover's times: {error}") from error


def _entry(family: str, line: int, rule: Rule, certificate: Certificate, seconds: float | None) -> RuleEntry:
    terms = list(topological((*rule.lhs, *rule.rhs)))
    classes = {proved.numerics for _, proved in certificate.proofs}
    return RuleEntry(
        id=rule.id,
        family=family,
        line=line,
        equation=show_rule(Rule(rule.lhs, rule.rhs)),
        left=show_terms(rule.lhs),
        right=show_terms(rule.rhs),
        outputs=len(rule.lhs),
        operators=tuple(sorted({t.op for t in terms if t.op not in ("Var", "Out")})),
        variables=tuple(sorted(str(t.attr("name")) for t in terms if t.op == "Var")),
        backwards=can_apply(rule.reversed()),
        numerics=next(name for name in reversed(NUMERICS) if name in classes),
        text=certificate.text,
        certificate=line_hash(certificate.to_json()),
        kernel=certificate.kernel,
        solver=certificate.solver,
        seconds=seconds,
        proofs=tuple(_proof(signature, proved) for signature, proved in certificate.proofs),
    )


def _proof(signature: Signature, proved: Proved) -> Proof:
    return Proof(
        signature=show_signature(signature),
        ranks={name: len(shape) for name, shape in signature.shapes},
        conditions=tuple(map(str, proved.conditions)),
        guards=tuple(map(str, proved.guards)),
        obligations=proved.obligations,
        numerics=proved.numerics,
        error=None if proved.roundings is None else str(proved.roundings[0] + proved.roundings[1]),
        defined_left=proved.defined_left,
        weakest=getattr(proved, "weakest", None),
    )


def _candidates(path: Path) -> list[RefusedCandidate]:
    found = []
    for place, line in _lines(path):
        try:
            data = json.loads(line)
            left, right = sides(data["rule"])
            counterexample, confirmation = data.get("counterexample"), data.get("confirmation")
            found.append(
                RefusedCandidate(
                    equation=data["rule"],
                    left=show_terms(left),
                    right=show_terms(right),
                    outputs=len(left),
                    signature=data["signature"],
                    verdict=data["verdict"],
                    reason=data["reason"],
                    counterexample=_counterexample(counterexample) if counterexample else None,
                    confirmation=ShownConfirmation(**confirmation) if confirmation else None,
                )
            )
        except OTHER_FORM as error:
            raise ReportError(f"{place}: not a refused candidate: {error}") from error
    return found


def sides(equation: str) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Parse an equation into its two sides. Raises NotationError."""
    rule = parse_rule(equation)
    return rule.lhs, rule.rhs


def _counterexample(text: str) -> ShownCounterexample:
    """Parse the text that `verify.verdict.Counterexample` prints. Raises NotationError for other text."""
    lines = [line.strip() for line in text.splitlines()]
    place = re.fullmatch(r"(output .*?): left (.*), right (.*)", lines[1]) if len(lines) > 1 else None
    if place is None or not lines[0].startswith("with "):
        raise NotationError(f"cannot read the counterexample {text!r}")
    sizes = dict(_named(part) for part in lines[0].removeprefix("with ").split(", ") if " = " in part)
    return ShownCounterexample(sizes, dict(map(_named, lines[2:])), *place.groups())


def _named(text: str) -> tuple[str, str]:
    name, _, value = text.partition(" = ")
    return name, value


def _totals(family: str, rules: Sequence[RuleEntry]) -> Totals:
    return Totals(
        family=family,
        rules=len(rules),
        two_outputs=sum(rule.outputs > 1 for rule in rules),
        signatures=sum(len(rule.proofs) for rule in rules),
        guarded=sum(bool(rule.guards) for rule in rules),
        obligations=sum(rule.obligations for rule in rules),
        seconds=round(sum(rule.seconds or 0.0 for rule in rules), 3),
    )


def _stages(path: Path) -> dict[str, dict[str, int]]:
    if not path.is_file():
        return {}
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        stages = {**data["families"], "total": data["total"]}
        return {family: {stage: int(count) for stage, count in of.items()} for family, of in stages.items()}
    except OTHER_FORM as error:
        raise ReportError(f"{path}: not a summary of the generator: {error}") from error
