"""The generator from end to end: grammar -> graphs -> equal pairs -> rules -> proofs -> files.

What is written depends on the seed, the grammar and the kernel only: no machine, and no times but in `times.json`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from superopt.generate.candidates import Equation, conjectures, operators
from superopt.generate.enumerator import enumerate_family
from superopt.generate.families import FAMILIES
from superopt.generate.fingerprints import Evaluator
from superopt.generate.generalise import Schema, generalise
from superopt.generate.grammar import Family
from superopt.generate.minimise import Cost, Minimiser, cost, is_usable, is_weak, normal
from superopt.generate.signatures import variations
from superopt.generate.trial import Trial
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term
from superopt.ir.text import show_rule, show_signature
from verify.facts import solver_version
from verify.proofs import Certificate, kernel_hash, prove_at, with_weakest
from verify.verdict import Counterexample, Proved, Refuted, Verdict

__all__ = ["FamilyCount", "Summary", "generate"]

Prover: TypeAlias = Callable[[Rule, Signature], Verdict]
Progress: TypeAlias = Callable[[str], None]
# What somebody else, who need not trust the kernel, says of a counterexample; kept beside it.
Witness: TypeAlias = Callable[[Rule, Signature, Counterexample], Mapping[str, str]]


_HEAD = "# Found by enumeration and proven by verify/; written by `superopt generate`. One equation a line."


@dataclass
class FamilyCount:
    """How many each stage kept, for one family (families of one name are counted together)."""

    graphs: int = 0
    classes: int = 0
    equal_pairs: int = 0
    conjectures: int = 0  # after renaming and special cases
    derivable: int = 0
    accidental: int = 0  # equal at the sizes enumerated only, or with a variable on each side that the other lacks
    weak: int = 0  # the same cost on both sides, and large or with a variable repeated
    again: int = 0  # refused in another family already
    refuted: int = 0
    unknown: int = 0
    proved: int = 0
    redundant: int = 0  # proven, but derivable from rules found later
    rules: int = 0
    signatures: int = 0


@dataclass
class Summary:
    """Stage counts by family, and what was written."""

    seed: int
    families: dict[str, FamilyCount] = field(default_factory=dict)
    trials: int = 0
    files: list[str] = field(default_factory=list)

    @property
    def total(self) -> FamilyCount:
        """Sums over all families."""
        total = FamilyCount()
        for count in self.families.values():
            for name, value in asdict(count).items():
                setattr(total, name, getattr(total, name) + value)
        return total

    def to_json(self) -> str:
        """The summary as stable, indented JSON."""
        data = {
            "seed": self.seed,
            "kernel": kernel_hash(),
            "solver": solver_version(),
            "total": asdict(self.total),
            "families": {name: asdict(count) for name, count in self.families.items()},
            "trials": self.trials,
        }
        return json.dumps(data, indent=2) + "\n"


@dataclass
class _Kept:
    rule: Rule
    schema: Schema
    equation: Equation
    proofs: dict[Signature, Proved]


def generate(
    out_dir: str | Path,
    seed: int = 0,
    progress: Progress | None = None,
    *,
    families: Sequence[Family] = FAMILIES,
    prover: Prover = prove_at,
    witness: Witness | None = None,
) -> Summary:
    """Finds, proves and writes all rules of `families` into `out_dir` (made where missing): `<family>.rules`,
    `certificates.jsonl`, `refused.jsonl`, `summary.json`, `times.json`. The same seed gives the same bytes, the
    prover's times aside. `witness` is asked about each counterexample. Raises OSError."""
    work = _Work(seed, prover, progress or (lambda message: None), witness)
    for family in families:
        work.find(family)
    work.drop_redundant()
    work.prove_signatures()
    return work.write(Path(out_dir))


class _Work:
    def __init__(self, seed: int, prover: Prover, progress: Progress, witness: Witness | None) -> None:
        self.prover, self.progress, self.witness = prover, progress, witness
        self.seconds: dict[str, float] = {}  # of the prover, by rule id
        self.evaluator = Evaluator(seed)
        self.trial = Trial(self.evaluator, seed)
        self.minimiser = Minimiser(self.evaluator)
        self.kept: dict[str, _Kept] = {}
        self.seen: set[str] = set()
        self.sides: set[tuple[tuple[Term, ...], Cost]] = set()
        self.refused: list[dict[str, Any]] = []
        self.summary = Summary(seed)

    def find(self, family: Family) -> None:
        """Enumerates one family; its proven rules join those kept so far."""
        count = self.summary.families.setdefault(family.name, FamilyCount())
        state = enumerate_family(family, self.evaluator)
        equations, pairs = conjectures(state, self.evaluator)
        count.graphs += state.graphs
        count.classes += len(state.shapes)
        count.equal_pairs += pairs
        count.conjectures += len(equations)
        self.progress(f"{family.name}: {state.graphs} graphs, {pairs} equal pairs, {len(equations)} conjectures")
        before = len(self.kept)
        for equation in equations:
            self._settle(_oriented(equation), count)
        self.progress(f"{family.name}: {len(self.kept) - before} rules proven")

    def _settle(self, equation: Equation, count: FamilyCount) -> None:
        if self.minimiser.derivable(equation):
            count.derivable += 1
            return
        if is_weak(equation):
            count.weak += 1
            return
        schema = generalise(equation, self.trial)
        if schema is None:
            count.accidental += 1
            return
        rule = schema.rule
        if rule.id in self.kept or rule.reversed().id in self.kept:
            count.derivable += 1
            return
        weights = frozenset(v.name for v in equation.family.variables if v.weight)
        if not is_usable(rule, weights):
            count.weak += 1
            return
        same = (normal(rule.lhs), cost(equation.rhs, weights))
        if same in self.sides:  # another form of a result that is known
            count.weak += 1
            return
        if rule.id in self.seen:
            count.again += 1
            return
        self.seen.add(rule.id)
        verdict = self._prove(rule, schema.base)
        if isinstance(verdict, Proved):
            count.proved += 1
            self.kept[rule.id] = _Kept(rule, schema, equation, {schema.base: verdict})
            self.minimiser.add(rule)
            self.sides.add(same)
            return
        refuted = isinstance(verdict, Refuted)
        count.refuted += refuted
        count.unknown += not refuted
        shown = getattr(verdict, "counterexample", None)
        entry = {"rule": show_rule(rule), "signature": show_signature(schema.base), "verdict": type(verdict).__name__}
        entry["reason"] = str(getattr(verdict, "reason", ""))
        said: dict[str, Any] = {}
        if isinstance(shown, Counterexample):
            said["counterexample"] = str(shown)
            if self.witness is not None:
                said["confirmation"] = dict(self.witness(rule, schema.base, shown))
        self.refused.append({**entry, **said})

    def _prove(self, rule: Rule, signature: Signature) -> Verdict:
        start = time.perf_counter()
        verdict = self.prover(rule, signature)
        self.seconds[rule.id] = self.seconds.get(rule.id, 0.0) + time.perf_counter() - start
        return verdict

    def drop_redundant(self) -> None:
        """Rules that the others give, those that gain least first."""
        for kept in sorted(self.kept.values(), key=lambda k: _gain(k.equation)):
            if self.minimiser.derivable(kept.equation, without=kept.rule):
                self.summary.families[kept.equation.family.name].redundant += 1
                self.minimiser.remove(kept.rule)
                del self.kept[kept.rule.id]

    def prove_signatures(self) -> None:
        """More signatures for every rule that stays."""
        for kept in self.kept.values():
            for wide in variations(kept.schema, kept.equation.family.lifts):
                signature = self.trial.pinned(kept.rule, wide)
                if any(_covers(known, signature) for known in kept.proofs):
                    continue
                if not self.trial.holds(kept.rule, signature):
                    continue
                verdict = self._prove(kept.rule, signature)
                if isinstance(verdict, Proved):
                    kept.proofs = {s: p for s, p in kept.proofs.items() if not _covers(signature, s)}
                    kept.proofs[signature] = verdict
            count = self.summary.families[kept.equation.family.name]
            count.rules += 1
            count.signatures += len(kept.proofs)
        self.progress(f"{self.summary.total.rules} rules at {self.summary.total.signatures} signatures")

    def write(self, folder: Path) -> Summary:
        """Writes the files; what other runs left there under these names is replaced."""
        folder.mkdir(parents=True, exist_ok=True)
        self.summary.trials = self.trial.count
        files: dict[str, list[str]] = {}
        certificates: list[str] = []
        for kept in self.kept.values():
            rule = Rule(kept.rule.lhs, kept.rule.rhs, tuple(kept.proofs))
            files.setdefault(f"{kept.equation.family.name}.rules", []).append(show_rule(rule))
            proofs = [(s, v) for s, p in kept.proofs.items() if isinstance(v := with_weakest(rule, s, p), Proved)]
            certificates.append(Certificate.of(rule, proofs).to_json())
        files["certificates.jsonl"] = sorted(certificates)
        files["refused.jsonl"] = [json.dumps(entry) for entry in self.refused]
        for name in sorted(files):
            head = [_HEAD] if name.endswith(".rules") else []
            _write(folder / name, head + files[name])
        (folder / "summary.json").write_text(self.summary.to_json(), encoding="utf-8")
        times = {rule: round(self.seconds[rule], 3) for rule in sorted(self.kept)}
        (folder / "times.json").write_text(json.dumps(times, indent=0) + "\n", encoding="utf-8")
        self.summary.files = [*sorted(files), "summary.json", "times.json"]
        return self.summary


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _oriented(equation: Equation) -> Equation:
    """The side with more operators at inference on the left; of several outputs, the side that computes them apart."""
    if len(equation.lhs) > 1:
        return equation
    weights = frozenset(v.name for v in equation.family.variables if v.weight)
    if operators(equation.rhs, weights) > operators(equation.lhs, weights):
        return Equation(equation.rhs, equation.lhs, equation.family)
    return equation


def _gain(equation: Equation) -> float:
    weights = frozenset(v.name for v in equation.family.variables if v.weight)
    return abs(cost(equation.lhs, weights).total - cost(equation.rhs, weights).total)


def _covers(general: Signature, special: Signature) -> bool:
    """Whether every match at `special` is a match at `general`."""
    return all(_wider(a, b) for (_, a), (_, b) in zip(general.shapes, special.shapes, strict=True)) and all(
        _wider(a, b) for (_, a), (_, b) in zip(general.attrs, special.attrs, strict=True)
    )


def _wider(general: object, special: object) -> bool:
    if isinstance(general, tuple) and isinstance(special, tuple):
        return len(general) == len(special) and all(a is None or a == b for a, b in zip(general, special, strict=True))
    return general is None or general == special
