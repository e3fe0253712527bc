"""Proofs of the rules in files, by one or more processes: one report for each rule, in the order of the files."""

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
from superopt.rulebook.loading import CERTIFICATES, RulesError, beside, certificate_lines, read_all_rules, rule_files
from verify.certificates import Certificate, line_hash, rule_analysis_hash
from verify.diagnose.decide import decide, with_weakest
from verify.diagnose.second_opinion import Opinion, second_opinion
from verify.prove.facts import SolverQuery
from verify.stability.analysis import Directions, stability
from verify.stability.classes import UNSTABLE
from verify.verdict import NUMERICS, Counterexample, Proved, Refuted, Verdict

__all__ = ["PROVEN", "REFUTED", "UNKNOWN", "SignatureReport", "RuleReport", "ProofTask", "prove_all", "tasks"]

PROVEN, REFUTED, UNKNOWN = "proven", "refuted", "unknown"


@dataclass(frozen=True)
class ProofTask:
    """A line of a rule file to prove. Rules travel between processes as text.

    `ask_second`: also ask the second solver about the queries of the proof. `known`: a certificate as a line of JSON;
    what it certifies is not proven again. `signs`: a rule without signatures gets those default ones at which it is
    proven.
    """

    file: str
    line: int
    text: str
    ask_second: bool = False
    known: str = ""
    signs: bool = False


@dataclass(frozen=True)
class SignatureReport:
    """The verdict at one signature.

    `literals` are the sizes and attributes that the signature fixes. A proof has `guards`, a class of `numerics`,
    `error`, the number of roundings by which the sides may differ (see `verify.verdict.Proved`; None for the exact
    class), and the stability classes of the rule (`forward`) and of the reversed rule (`backward`). Any other verdict
    has a `reason`, and may have a `counterexample` with its `confirmation` in ONNX Runtime.
    """

    signature: str
    verdict: str
    literals: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    weakest: bool | None = None
    numerics: str = ""
    error: str | None = None
    forward: str = ""
    backward: str = ""
    reason: str = ""
    counterexample: Counterexample | None = None
    confirmation: Confirmation | None = None


@dataclass(frozen=True)
class RuleReport:
    """The verdict on one rule, which is proven only if it is proven at every signature.

    `guessed`: the rule has no signatures, and default ones were tried. `seconds` is the prover's wall time, or None if
    the proofs are those of a certificate.
    `certificate` is the certificate as a line of JSON, if the rule is proven at the signatures in its file. `signed` is
    the line of the file with the signatures that were proven, if it had none and was to get some. Then the report is
    about that line, and `reason` says at which other signatures it was not proven.
    """

    file: str
    line: int
    id: str
    equation: str
    verdict: str
    reason: str
    guessed: bool
    signatures: tuple[SignatureReport, ...]
    seconds: float | None
    second_opinion: Opinion | None
    certificate: str = ""
    signed: str = ""

    @property
    def numerics(self) -> str:
        """The loosest class of numerics at any signature; empty if the rule is not proven."""
        found = {at.numerics for at in self.signatures}
        return next((name for name in reversed(NUMERICS) if name in found), "") if self.verdict == PROVEN else ""

    @property
    def accepted(self) -> bool:
        """True if the rule is proven and the second solver does not contradict."""
        return self.verdict == PROVEN and not (self.second_opinion and self.second_opinion.contradicted)


def tasks(paths: Iterable[Path], ask_second: bool, reuse: bool = False, signs: bool = False) -> list[ProofTask]:
    """List every rule of `paths`, files and folders; without paths, the shipped rules. Raises RulesError.

    `reuse`: with the certificates that are beside the rules. `signs`: see `ProofTask`.
    """
    found = []
    for path in tuple(paths) or (None,):
        known = certificate_lines(beside(path, CERTIFICATES)) if reuse else {}
        for listed in read_all_rules(rule_files(path)):
            certificate = known.get((listed.rule.id, line_hash(listed.text)), "")
            found.append(ProofTask(str(listed.file), listed.line, listed.text, ask_second, certificate, signs))
    if not found:
        raise RulesError("the files contain no rule")
    return found


def prove_all(todo: list[ProofTask], processes: int) -> Iterator[RuleReport]:
    """Prove all tasks and yield their reports, in order."""
    if processes == 1:
        yield from map(_prove, todo)
        return
    # Spawned, not forked: a copy of this process would hold its solver's memory and its threads' locks.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(todo)), mp_context=context) as pool:
        yield from pool.map(_prove, todo)


def _prove(task: ProofTask) -> RuleReport:
    rule = parse_rule(task.text)
    reason, queries, seconds = "", list[SolverQuery](), None
    known = _fitting(task, rule)
    if known is not None:
        verdicts: list[tuple[Signature, Verdict]] = list(known.proofs)
    else:
        start = time.perf_counter()
        try:
            signatures = rule.signatures or default_signatures(rule)
        except SignatureNeeded as error:
            signatures, reason = (), str(error)
        verdicts = []
        for signature in signatures:
            heard: list[SolverQuery] = []
            verdict = decide(rule, signature, heard.append)
            verdicts.append((signature, verdict))
            if isinstance(verdict, Proved):
                queries += heard
        seconds = time.perf_counter() - start
        verdicts = [(signature, with_weakest(rule, signature, verdict)) for signature, verdict in verdicts]
    proofs = [(signature, verdict) for signature, verdict in verdicts if isinstance(verdict, Proved)]
    if known is not None and known.stability and known.analysis == rule_analysis_hash(rule):
        classes = known.stability
    else:
        classes = tuple(stability(rule, signature, proof) for signature, proof in proofs)
    at = dict(zip((signature for signature, _ in proofs), classes, strict=True))
    found = tuple(_signature_report(rule, s, verdict, at.get(s, (UNSTABLE, UNSTABLE))) for s, verdict in verdicts)
    names = {at.verdict for at in found} or {UNKNOWN}
    text, signed = task.text, ""
    if task.signs and proofs and not rule.signatures and REFUTED not in names:
        rule = Rule(rule.lhs, rule.rhs, tuple(signature for signature, _ in proofs))
        text = signed = f"{task.text.rstrip()} @ {' | '.join(map(show_signature, rule.signatures))}"
        others = [one for one in found if one.verdict != PROVEN]
        found, names = tuple(one for one in found if one.verdict == PROVEN), {PROVEN}
        reason = "; ".join(f"not proven at {one.signature}: {one.reason}" for one in others)
    certified = proofs and tuple(signature for signature, _ in proofs) == rule.signatures
    return RuleReport(
        task.file,
        task.line,
        rule.id,
        show_rule(Rule(rule.lhs, rule.rhs)),
        next(name for name in (REFUTED, UNKNOWN, PROVEN) if name in names),
        reason,
        signed != "" or not rule.signatures,
        found,
        seconds,
        second_opinion(queries) if task.ask_second else None,
        Certificate.of(rule, proofs, text, classes).to_json() if certified else "",
        signed,
    )


def _fitting(task: ProofTask, rule: Rule) -> Certificate | None:
    """Return the known certificate if it certifies the rule as written, else None."""
    known = Certificate.from_json(task.known) if task.known else None
    return known if known is not None and known.misfit(rule, task.text) is None else None


def _signature_report(rule: Rule, signature: Signature, verdict: Verdict, classes: Directions) -> SignatureReport:
    shown, literals = show_signature(signature), tuple(_literals(signature))
    if isinstance(verdict, Proved):
        guards = tuple(map(_show_guard, verdict.guards))
        error = None if verdict.roundings is None else str(verdict.roundings[0] + verdict.roundings[1])
        forward, backward = map(str, classes)
        weakest, numerics = verdict.weakest, verdict.numerics
        return SignatureReport(shown, PROVEN, literals, guards, weakest, numerics, error, forward, backward)
    example = verdict.counterexample if isinstance(verdict, Refuted) else None
    return SignatureReport(
        shown,
        REFUTED if isinstance(verdict, Refuted) else UNKNOWN,
        literals,
        reason=verdict.reason,
        counterexample=example,
        confirmation=None if example is None else confirm(rule, signature, example),
    )


def _literals(signature: Signature) -> Iterator[str]:
    """Yield the sizes and attributes that are numbers in a signature: the proof holds for these values only."""
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


def _show_guard(guard: Condition) -> str:
    """Return a guard as text, with like terms collected and no minus sign: `0 <= a - b` as `b <= a`."""
    difference = guard.right - guard.left
    sides: list[Size] = [0, 0]
    for monomial, coefficient in difference.terms if isinstance(difference, Dim) else (((), difference),):
        term: Size = Dim(((monomial, abs(coefficient)),)) if monomial else abs(coefficient)
        sides[coefficient > 0] += term
    return f"{sides[0]} {guard.relation} {sides[1]}"
