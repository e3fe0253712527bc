"""Derivations of the rules in files from other rules, and their text, tables and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rich.table import Table

from superopt.cli.default_signatures import SignatureNeeded, default_signatures
from superopt.cli.equation_text import equation_text
from superopt.cli.file_names import shown_rules
from superopt.cli.terminal import results
from superopt.generate.derive import (
    DERIVED,
    NO_INSTANCE,
    NOT_DERIVED,
    CertificateCheck,
    Consequence,
    Derivation,
    DerivationStep,
    Deriver,
    consequence,
    normal,
)
from superopt.ir.notation import show_signature, show_terms
from superopt.ir.rule import Condition, Rule, Signature
from superopt.rulebook.loading import CERTIFICATES, RulesError, beside, certified_rules, load_rules
from superopt.wording import counted
from verify.certificates import kernel_hash, load_certificates

__all__ = [
    "SCHEMA_VERSION",
    "consequence_of",
    "deriver_of",
    "lines",
    "print_summary",
    "print_table",
    "rules_to_derive",
    "to_json",
]

SCHEMA_VERSION = 1
_Conditions: TypeAlias = Mapping[Signature, Sequence[Condition]]
_OUTCOMES = (DERIVED, NOT_DERIVED, NO_INSTANCE)


def deriver_of(path: Path, prove: bool) -> Deriver:
    """Return a deriver with the certified rules of `path`. Raises RulesError."""
    listed, certificates = certified_rules(path)
    rules = [one.rule for one in listed]
    check = CertificateCheck(rules, certificates, anew=prove)
    return Deriver(rules, check, is_possible=check.is_possible if prove else None)


def rules_to_derive(path: Path) -> list[tuple[Rule, _Conditions]]:
    """Return the rules to derive, each with the conditions of its certificate (if any), which restrict the sizes.

    Raises RulesError.
    """
    rules, source = load_rules(path), beside(path, CERTIFICATES)
    if not rules:
        raise RulesError(f"{path}: contains no rule")
    try:
        certificates = load_certificates(source) if source.is_file() else []
    except ValueError:
        certificates = []
    known = {one.rule: {at: proved.conditions for at, proved in one.proofs} for one in certificates}
    return [(rule, known.get(rule.id, {})) for rule in rules]


def consequence_of(deriver: Deriver, rule: Rule, conditions: _Conditions, steps: int) -> Consequence:
    """Derive a rule, in at most `steps` steps at each of its signatures (by default those that `verify` tries)."""
    try:
        signatures = rule.signatures or default_signatures(rule)
    except SignatureNeeded as needed:
        return Consequence(rule, NO_INSTANCE, str(needed), ())
    deriver.forget()  # each rule has its own sizes, and so its own terms
    return consequence(deriver, rule, signatures, steps, conditions)


def lines(found: Consequence, how: bool) -> Iterator[str]:
    """Yield the outcome for one rule as text; with `how`, its derivation or the reason why there is none."""
    outcome = found.outcome if found.steps is None else f"{found.outcome} in {counted(found.steps, 'step')}"
    yield f"{found.rule.id}  {outcome:18}  {equation_text(found.rule)}"
    if how and found.outcome == DERIVED:
        yield from _path(max(found.derivations, key=lambda derivation: len(derivation.steps or ())))
    elif how:
        yield f"    {found.reason}"


def _path(derivation: Derivation) -> Iterator[str]:
    sizes = ", ".join(f"{name} = {size}" for name, size in derivation.instance.sizes.items())
    yield f"    at {show_signature(derivation.signature)}" + (f" with {sizes}" if sizes else "")
    yield f"      {show_terms(normal(derivation.instance.lhs))}"
    for step in derivation.steps or ():
        yield f"    = {show_terms(step.after)}  by {step.rule.id}, {_direction(step)}"


def _direction(step: DerivationStep) -> str:
    return "left to right" if step.forward else "right to left"


def _totals(found: Iterable[Consequence]) -> dict[str, int]:
    counts = Counter(one.outcome for one in found)
    return {outcome: counts[outcome] for outcome in _OUTCOMES}


def print_summary(found: Sequence[Consequence], source: Path, target: Path, steps: int) -> None:
    """Print the counts of outcomes as a table."""
    table = Table(
        title=f"{shown_rules(target)} from {shown_rules(source)}, in at most {steps} steps", title_justify="left"
    )
    totals = {"rules": len(found), **_totals(found)}
    for name in totals:
        table.add_column(name, justify="right")
    table.add_row(*map(str, totals.values()))
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table, at its own width: a row is one line, even if paths are long."""
    console = results()
    console.width = max(console.width, console.measure(table, options=console.options.update(width=1000)).maximum)
    console.print(table)


def to_json(found: Sequence[Consequence], source: Path, target: Path, steps: int) -> str:
    """Return the outcomes and derivations as JSON."""
    content = {
        "schema_version": SCHEMA_VERSION,
        "kernel": kernel_hash(),
        "from": shown_rules(source),
        "rules_of": shown_rules(target),
        "steps": steps,
        "totals": {"rules": len(found), **_totals(found)},
        "rules": [
            {
                "id": one.rule.id,
                "equation": equation_text(one.rule),
                "outcome": one.outcome,
                "steps": one.steps,
                "reason": one.reason,
                "derivations": [_derivation_json(derivation) for derivation in one.derivations],
            }
            for one in found
        ],
    }
    return json.dumps(content, indent=1)


def _derivation_json(derivation: Derivation) -> dict[str, Any]:
    steps = derivation.steps
    return {
        "signature": show_signature(derivation.signature),
        "sizes": dict(derivation.instance.sizes),
        "start": show_terms(normal(derivation.instance.lhs)),
        "cut": derivation.cut,
        "steps": None
        if steps is None
        else [{"rule": step.rule.id, "direction": _direction(step), "after": show_terms(step.after)} for step in steps],
    }
