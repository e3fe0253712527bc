"""Proving the rules of files: one report a rule, in the order of the files, by one process or several."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from superopt.cli.default_signatures import SignatureNeeded, default_signatures
from superopt.diagnose.confirmation import Confirmation, confirm
from superopt.ir.dim import Dim, Size
from superopt.ir.notation import parse_rule, show_rule, show_signature
from superopt.ir.rule import Condition, Rule, Signature
from superopt.ir.term import AttrVar
from superopt.rulebook.loading import RulesError, read_rules, rule_files
from verify.certificates import Certificate
from verify.diagnose.decide import decide, with_weakest
from verify.diagnose.second_opinion import Opinion, second_opinion
from verify.prove.facts import SolverQuery
from verify.verdict import NUMERICS, Counterexample, Proved, Refuted, Verdict

__all__ = ["PROVEN", "REFUTED", "UNKNOWN", "AtSignature", "Report", "Task", "prove_all", "tasks"]

PROVEN, REFUTED, UNKNOWN = "proven", "refuted", "unknown"


@dataclass(frozen=True)
class Task:
    """A line of a rule file. Rules travel between processes as text."""

    file: str
    line: int
    text: str
    ask_second: bool = False


@dataclass(frozen=True)
class AtSignature:
    """The verdict at one signature.

    `literals` are the sizes and attributes that it fixes. Where proven: `guards`; the class of `numerics`; and `error`,
    how many roundings the sides may differ by (see `verify.verdict.Proved`), None where the class is exact. Else why
    not, and what ONNX Runtime says of the counterexample.
    """

    signature: str
    verdict: str
    literals: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    weakest: bool | None = None
    numerics: str = ""
    error: str | None = None
    reason: str = ""
    counterexample: Counterexample | None = None
    confirmation: Confirmation | None = None


@dataclass(frozen=True)
class Report:
    """What was found out about one rule: proven only if it is at every signature.

    `guessed`: the rule gives no signature, default ones were tried. `seconds` is the prover's wall time. `numerics` is
    the loosest class at any signature. `certificate` is its line of JSON, where the rule is proven as it stands.
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
    certificate: str = ""

    @property
    def numerics(self) -> str:
        """The loosest class of numerics at any signature; empty where not proven."""
        found = {at.numerics for at in self.signatures}
        return next((name for name in reversed(NUMERICS) if name in found), "") if self.verdict == PROVEN else ""

    @property
    def accepted(self) -> bool:
        """Proven, and not contradicted by the second solver."""
        return self.verdict == PROVEN and not (self.second_opinion and self.second_opinion.contradicted)


def tasks(paths: Iterable[Path], ask_second: bool) -> list[Task]:
    """Every rule of files and folders (the shipped ones where there are none). Raises RulesError."""
    found = [
        Task(str(file), listed.line, listed.text, ask_second)
        for path in tuple(paths) or (None,)
        for file in rule_files(path)
        for listed in read_rules(file)
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
    rule = parse_rule(task.text)
    reason, queries = "", list[SolverQuery]()
    verdicts: list[tuple[Signature, Verdict]] = []
    start = time.perf_counter()
    try:
        signatures = rule.signatures or default_signatures(rule)
    except SignatureNeeded as error:
        signatures, reason = (), str(error)
    for signature in signatures:
        heard: list[SolverQuery] = []
        verdict = decide(rule, signature, heard.append)
        verdicts.append((signature, verdict))
        if isinstance(verdict, Proved):
            queries += heard
    seconds = time.perf_counter() - start
    verdicts = [(signature, with_weakest(rule, signature, verdict)) for signature, verdict in verdicts]
    found = tuple(_at(rule, signature, verdict) for signature, verdict in verdicts)
    proofs = [(signature, verdict) for signature, verdict in verdicts if isinstance(verdict, Proved)]
    certified = proofs and tuple(signature for signature, _ in proofs) == rule.signatures
    names = {at.verdict for at in found} or {UNKNOWN}
    return Report(
        task.file,
        task.line,
        rule.id,
        show_rule(Rule(rule.lhs, rule.rhs)),
        next(name for name in (REFUTED, UNKNOWN, PROVEN) if name in names),
        reason,
        not rule.signatures,
        found,
        seconds,
        second_opinion(queries) if task.ask_second else None,
        Certificate.of(rule, proofs, task.text).to_json() if certified else "",
    )


def _at(rule: Rule, signature: Signature, verdict: Verdict) -> AtSignature:
    shown, literals = show_signature(signature), tuple(_literals(signature))
    if isinstance(verdict, Proved):
        guards = tuple(map(_plain, verdict.guards))
        error = None if verdict.roundings is None else str(verdict.roundings[0] + verdict.roundings[1])
        return AtSignature(shown, PROVEN, literals, guards, verdict.weakest, verdict.numerics, error)
    example = verdict.counterexample if isinstance(verdict, Refuted) else None
    return AtSignature(
        shown,
        REFUTED if isinstance(verdict, Refuted) else UNKNOWN,
        literals,
        reason=verdict.reason,
        counterexample=example,
        confirmation=None if example is None else confirm(rule, signature, example),
    )


def _literals(signature: Signature) -> Iterator[str]:
    """The sizes and attributes that are numbers in a signature: those for which the proof speaks."""
    for name, shape in signature.shapes:
        yield from (f"{name}.shape[{k}] = {size}" for k, size in enumerate(shape) if size is not None)
    for name, value in signature.attrs:
        if isinstance(value, tuple):
            if None not in value:
                yield f"{name} = {list(value)}"
            else:
                yield from (f"{name}[{k}] = {item}" for k, item in enumerate(value) if item is not None)
        elif value is not None and not isinstance(value, AttrVar):
            yield f"{name} = {value}"


def _plain(guard: Condition) -> str:
    """The guard with like terms together and no minus sign: `0 <= a - b` as `b <= a`."""
    difference = guard.right - guard.left
    sides: list[Size] = [0, 0]
    for monomial, coefficient in difference.terms if isinstance(difference, Dim) else (((), difference),):
        term: Size = Dim(((monomial, abs(coefficient)),)) if monomial else abs(coefficient)
        sides[coefficient > 0] += term
    return f"{sides[0]} {guard.relation} {sides[1]}"
