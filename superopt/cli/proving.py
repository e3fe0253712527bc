"""Proving the rules of files: one report a rule, in the order of the files, by one process or several."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from superopt.cli.natural import SignatureNeeded, natural_signatures
from superopt.ir.dim import Dim, Size
from superopt.ir.rule import Condition, Rule
from superopt.ir.text import parse_rule, show_rule, show_signature
from superopt.rulebook import RulesError, read_rules, rule_files
from verify.facts import Query
from verify.proofs import prove_at
from verify.prove import Proved, Refuted
from verify.second_opinion import Opinion, second_opinion
from verify.verdict import Counterexample

__all__ = ["PROVEN", "REFUTED", "UNKNOWN", "AtSignature", "Report", "Task", "prove_all", "tasks"]

PROVEN, REFUTED, UNKNOWN = "proven", "refuted", "unknown"


@dataclass(frozen=True)
class Task:
    """A line of a rule file. Rules travel between processes as text."""

    file: str
    line: int
    rule: str
    ask_second: bool = False


@dataclass(frozen=True)
class AtSignature:
    """The verdict at one signature; `guards` where proven, else why not."""

    signature: str
    verdict: str
    guards: tuple[str, ...] = ()
    reason: str = ""
    counterexample: Counterexample | None = None


@dataclass(frozen=True)
class Report:
    """What was found out about one rule: proven only if it is at every signature.

    `guessed`: the rule gives no signature, natural ones were tried. `seconds` is the prover's wall time.
    """

    file: str
    line: int
    id: str
    equation: str
    verdict: str
    reason: str
    guessed: bool
    signatures: tuple[AtSignature, ...]
    seconds: float
    second_opinion: Opinion | None

    @property
    def accepted(self) -> bool:
        """Proven, and not contradicted by the second solver."""
        return self.verdict == PROVEN and not (self.second_opinion and self.second_opinion.contradicted)


def tasks(paths: Iterable[Path], ask_second: bool) -> list[Task]:
    """Every rule of files and folders (the shipped ones where there are none). Raises RulesError."""
    found = [
        Task(str(file), line, show_rule(rule), ask_second)
        for path in tuple(paths) or (None,)
        for file in rule_files(path)
        for line, rule in read_rules(file)
    ]
    if not found:
        raise RulesError("there is no rule in the files")
    return found


def prove_all(todo: list[Task], processes: int) -> Iterator[Report]:
    """A report for each task, in order."""
    if processes == 1:
        yield from map(_prove, todo)
        return
    # Started afresh: a copy of this process would hold its solver's memory and its threads' locks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(todo)), mp_context=context) as pool:
        yield from pool.map(_prove, todo)


def _prove(task: Task) -> Report:
    rule = parse_rule(task.rule)
    reason, queries, found = "", list[Query](), list[AtSignature]()
    start = time.perf_counter()
    try:
        signatures = rule.signatures or natural_signatures(rule)
    except SignatureNeeded as error:
        signatures, reason = (), str(error)
    for signature in signatures:
        heard: list[Query] = []
        verdict = prove_at(rule, signature, heard.append)
        shown = show_signature(signature)
        if isinstance(verdict, Proved):
            found.append(AtSignature(shown, PROVEN, tuple(map(_plain, verdict.guards))))
            queries += heard
        elif isinstance(verdict, Refuted):
            found.append(AtSignature(shown, REFUTED, (), verdict.reason, verdict.counterexample))
        else:
            found.append(AtSignature(shown, UNKNOWN, (), verdict.reason))
    seconds = time.perf_counter() - start
    verdicts = {at.verdict for at in found} or {UNKNOWN}
    return Report(
        task.file,
        task.line,
        rule.id,
        show_rule(Rule(rule.lhs, rule.rhs)),
        next(verdict for verdict in (REFUTED, UNKNOWN, PROVEN) if verdict in verdicts),
        reason,
        not rule.signatures,
        tuple(found),
        seconds,
        second_opinion(queries) if task.ask_second else None,
    )


def _plain(guard: Condition) -> str:
    """The guard with like terms together and no minus sign: `0 <= a - b` as `b <= a`."""
    difference = guard.right - guard.left
    sides: list[Size] = [0, 0]
    for monomial, coefficient in difference.terms if isinstance(difference, Dim) else (((), difference),):
        term: Size = Dim(((monomial, abs(coefficient)),)) if monomial else abs(coefficient)
        sides[coefficient > 0] += term
    return f"{sides[0]} {guard.relation} {sides[1]}"
