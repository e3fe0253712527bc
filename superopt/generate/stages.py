"""The four kinds of shards of a run: pure functions of their arguments and of the results of earlier shards.

    enumerate_part    a part of a family's graphs     -> conjectures
    prove_family      the conjectures of a family     -> proven rules
    merge_families    the rules of all families       -> rules that cannot be derived from the others
    prove_signatures  some of these rules             -> lines of the rule files, and certificates

Results are JSON with terms in the notation of rules. Their bytes do not depend on the machine that ran a shard, and a
person can read the results of an unfinished run.
"""

from __future__ import annotations

import functools
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeGuard

from superopt.blas import one_thread
from superopt.generate.conjectures.equal_pairs import conjectures
from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.conjectures.minimal_filtering import filtering_conjectures
from superopt.generate.conjectures.reals import RealEvaluator, enumerate_reals
from superopt.generate.conjectures.softmax_shift import shift_conjectures
from superopt.generate.conjectures.target_pairs import target_conjectures
from superopt.generate.derive.defining_equation import defining_equation
from superopt.generate.enumeration.enumerator import LevelCounts, enumerate_family
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.generalise.size_equations import pinned
from superopt.generate.grammar import Family
from superopt.generate.prove.asked_signatures import with_asked
from superopt.generate.prove.covered_signatures import covers
from superopt.generate.prove.more_operands import extensions
from superopt.generate.prove.other_ranks import at_other_ranks
from superopt.generate.prove.prove_conjectures import ConjectureProver, CounterexampleCheck, Prover
from superopt.generate.prove.proven_rules import ProvenRule, ProvenRules, by_gain
from superopt.generate.prove.shipped_signatures import variations
from superopt.generate.prove.stable_order import in_stable_order
from superopt.generate.prove.used_signatures import UsedSignatures
from superopt.generate.stage_counts import StageCounts
from superopt.ir.notation import NotationError, parse_rule, parse_rules, parse_terms, show_rule
from superopt.ir.pattern import Bindings, instantiate, pattern_names
from superopt.ir.rule import Rule, Signature, SignatureValue
from superopt.ir.term import Attr, AttrVar, Term, map_terms, topological, var
from superopt.ir.types import tensor
from superopt.properties import is_linear_product
from superopt.rulebook.variadic import Schema
from verify.certificates import Certificate
from verify.diagnose.decide import decide, with_weakest
from verify.stability.analysis import stability
from verify.verdict import Proved

__all__ = ["RunConfig", "enumerate_part", "merge_families", "prove_family", "prove_signatures"]


_MAX_OPERANDS = 3  # of a rule that merges products
_CACHED_RULES = 50  # derivations are kept in memory for this many rules


@dataclass(frozen=True)
class RunConfig:
    """Settings that all shards of a run share."""

    families: tuple[Family, ...]
    operators: int | None = None  # largest number of operators on a side; None: the bound of each family
    seed: int = 0
    memory: int | None = None  # bytes for the graphs that one shard compares at once
    prover: Prover = decide
    confirm: CounterexampleCheck | None = None
    asked: str = ""  # a file of rules with further signatures (`prove.asked_signatures`)


@one_thread()
def enumerate_part(config: RunConfig, number: int, part: int, inputs: Mapping[str, bytes]) -> bytes:
    """Enumerate one part of a family's graphs, and return the conjectures among them."""
    family, evaluator = config.families[number], Evaluator(config.seed)
    if family.definitions:
        terms = [_typed(family, text) for text in family.definitions]
        if family.is_written_function:
            own = [GroundEquation(_typed(family, text), one, family) for text in family.targets for one in terms]
        else:
            own = [defining_equation(one, family) for one in terms]
        return _json({"counts": asdict(StageCounts(graphs=len(own))), "equations": [_show(e) for e in own]})
    if family.reals:
        operators = min(family.runtime, config.operators or family.runtime)
        found, levels = enumerate_reals(family, config.seed, operators)
        return _json({"counts": asdict(_counts(levels)), "equations": [_show(e) for e in found]})
    state = enumerate_family(
        family, evaluator, operators=config.operators, part=(part, family.parts), memory=config.memory
    )
    equations = (target_conjectures if family.targets else conjectures)(state, evaluator)
    own_levels = state.levels if part == 0 else state.levels[-1:]
    counts = _counts(own_levels)
    counts.classes += len(state.classes.leaves) if part == 0 else 0
    return _json({"counts": asdict(counts), "equations": [_show(e) for e in equations]})


def _counts(levels: Iterable[LevelCounts]) -> StageCounts:
    levels = list(levels)
    return StageCounts(
        graphs=sum(level.graphs for level in levels),
        classes=sum(level.classes for level in levels),
        equal_pairs=sum(level.pairs for level in levels),
        unexplained=sum(level.unexplained for level in levels),
    )


@one_thread()
def prove_family(config: RunConfig, number: int, known: Sequence[str], inputs: Mapping[str, bytes]) -> bytes:
    """Prove the conjectures of a family. The rules proven by the shards `known` may be used in derivations."""
    family = config.families[number]
    results = [json.loads(data) for name, data in inputs.items() if name not in known]
    evaluator = RealEvaluator(config.seed) if family.reals else Evaluator(config.seed)
    prover = ConjectureProver(evaluator, config.seed, config.prover, config.confirm)
    for name in known:
        for rule in _read_proven(config, json.loads(inputs[name])["kept"]):
            prover.known.add(rule)
    texts = dict.fromkeys(text for result in results for text in result["equations"])
    equations = sorted((_read(family, text) for text in texts), key=lambda e: (e.size, _show(e)))
    prover.prove_all(equations)
    prover.prove_general((*filtering_conjectures(family), *shift_conjectures(family)))
    counts = StageCounts.sum([prover.counts, *(StageCounts(**result["counts"]) for result in results)])
    return _json({
        "counts": asdict(counts),
        "kept": [_show_proven(config, rule) for rule in prover.kept],
        "used_signatures": prover.known.used_signatures.counts,
        "refused": prover.refused,
        "seconds": {rule: round(seconds, 3) for rule, seconds in prover.seconds.items()},
    })  # fmt: skip


def merge_families(config: RunConfig, order: Sequence[str], inputs: Mapping[str, bytes]) -> bytes:
    """Collect the rules of all families, without rules that can be derived from the others at all ranks.

    `order` names the shards, most general first.
    """
    # Rules that were compared at real numbers, and all others.
    evaluators: Mapping[bool, Evaluator] = {True: RealEvaluator(config.seed), False: Evaluator(config.seed)}
    by_kind = {is_real: ProvenRules(evaluator) for is_real, evaluator in evaluators.items()}
    checks = {is_real: SamplingCheck(evaluator, config.seed) for is_real, evaluator in evaluators.items()}

    def others(one: ProvenRule) -> Iterator[GroundEquation]:
        family = one.equation.family
        return at_other_ranks(one.schema, family, checks[family.reals])

    kept: list[ProvenRule] = []
    dropped = [StageCounts() for _ in config.families]
    for name in order:
        result = json.loads(inputs[name])
        by_kind[False].used_signatures.update(result["used_signatures"])
        for one in _read_proven(config, result["kept"]):
            known = by_kind[one.equation.family.reals]
            if known.covers(one, others(one)):
                dropped[config.families.index(one.equation.family)].redundant += 1
                known.note_uses((one.equation, *others(one)))
            else:
                kept.append(one)
                by_kind[True].add(one)
                if one.equation.family.reals:
                    by_kind[False].mark_seen(one.rule)
                else:
                    by_kind[False].add(one)
                if len(kept) % _CACHED_RULES == 0:
                    for each in by_kind.values():
                        each.minimiser.forget()
    for number, one in enumerate(by_gain(kept), 1):
        if number % _CACHED_RULES == 0:
            for each in by_kind.values():
                each.minimiser.forget()
        known = by_kind[one.equation.family.reals]
        derivable = functools.partial(known.minimiser.derivable, without=one.rule)
        if all(map(derivable, itertools.chain((one.equation,), others(one)))):
            dropped[config.families.index(one.equation.family)].redundant += 1
            by_kind[True].minimiser.remove(one.rule)
            if not one.equation.family.reals:
                by_kind[False].minimiser.remove(one.rule)
            known.note_uses((one.equation, *others(one)))
            kept.remove(one)
    used_signatures = by_kind[False].used_signatures
    used_signatures.update(by_kind[True].used_signatures.counts)
    kept.sort(key=lambda one: config.families.index(one.equation.family))  # stable
    return _json({
        "kept": [_show_proven(config, one) for one in kept],
        "used_signatures": used_signatures.counts,
        "counts": [asdict(count) for count in dropped],
    })  # fmt: skip


def prove_signatures(config: RunConfig, source: str, start: int, stop: int, inputs: Mapping[str, bytes]) -> bytes:
    """Prove some of the rules of shard `source` at all signatures worth shipping, and for more operands.

    A proof that assumes that the left side is defined does not hold from right to left, and a law of numbers cannot be
    applied there if its right side lacks an attribute, such as the shape of a constant. There the reversed rule is
    proven as well. The result holds their lines in the rule files and their certificates.
    """
    result = json.loads(inputs[source])
    entries = result["kept"][start:stop]
    used_signatures = UsedSignatures()
    used_signatures.update(result["used_signatures"])
    found = []
    for entry, one in zip(entries, _read_proven(config, entries), strict=True):
        kind = RealEvaluator if one.equation.family.reals else Evaluator
        check = SamplingCheck(kind(config.seed), config.seed)
        more = extensions([one.schema], check, config.prover, _MAX_OPERANDS) if _merges_products(one) else ()
        for schema in (one.schema, *more):
            start_s = time.perf_counter()
            wanted = used_signatures.of(schema.rule.id)
            family = one.equation.family
            if family.is_window:
                # Its attributes are free already. Where it needs conditions, random sizes would not hold.
                proofs = _proofs(config, None, schema, wanted)
            else:
                wanted = [*variations(schema, family.variation), *wanted]
                proofs = _proofs(config, check, schema, wanted)
            if not proofs:
                continue
            ordered = in_stable_order(schema, *next(iter(proofs.items())))
            if ordered is not schema:
                proofs = _proofs(config, None if family.is_window else check, ordered, wanted)
            certified = _certified(config, ordered.rule, proofs)
            if certified is None:
                continue
            seconds = time.perf_counter() - start_s
            fields = {"family": entry["family"], "extended": schema is not one.schema, "seconds": seconds}
            found.append({**fields, **certified})
            converse = _converse(ordered)
            lacking = one.equation.family.reals and not ordered.rule.reversed().applicable
            leads_back = not family.is_written_function  # to one of many forms; a function's own equations do that
            if (one.one_way or lacking) and leads_back and converse.rule.applicable:
                start_s = time.perf_counter()
                known = [attr for attr, _ in converse.base.attrs]
                wanted = [replace(s, attrs=tuple(a for a in s.attrs if a[0] in known)) for s in proofs]
                proofs = _proofs(config, None, converse, [s for s in wanted if s != converse.base])
                if proofs and (certified := _certified(config, converse.rule, proofs)) is not None:
                    seconds = time.perf_counter() - start_s
                    found.append({"family": entry["family"], "extended": True, "seconds": seconds, **certified})
    return _json({"rules": found})


def _converse(schema: Schema) -> Schema:
    """Return the reversed rule. Attribute variables that its left side does not bind have the instance's values."""
    rule = schema.rule.reversed()
    bound = {name.partition("[")[0] for name in pattern_names(rule.lhs)[1]}
    fixed: dict[str, Attr] = {n: value for n, value in schema.base.attrs if n not in bound and _is_literal(value)}

    def fill(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        attrs: dict[str, Attr] = dict(old.attrs)
        for name, value in old.attrs:
            if isinstance(value, AttrVar) and value.name in fixed:
                attrs[name] = fixed[value.name]
        return Term.of(old.op, inputs, attrs, old.types)

    lhs, rhs = map_terms(rule.lhs, fill), map_terms(rule.rhs, fill)

    def without(signature: Signature) -> Signature:
        return replace(signature, attrs=tuple(a for a in signature.attrs if a[0] not in fixed))

    # A literal may be written in several ways; the rule is the one that its line in the file is read as.
    read = parse_rule(show_rule(Rule(lhs, rhs)))
    return replace(schema, rule=read, base=without(schema.base), open=without(schema.open))


def _is_literal(value: SignatureValue) -> TypeGuard[Attr]:
    """Return True if the value has no symbol and no open entry."""
    entries = value if isinstance(value, tuple) else (value,)
    return all(isinstance(entry, (int, float, str)) for entry in entries)


def _certified(config: RunConfig, rule: Rule, proofs: Mapping[Signature, Proved]) -> dict[str, Any] | None:
    """Return a rule's line with the signatures of its proofs and those that models ask for, and its certificate.

    Return None if the certificate cannot be read again: for CumSum, the numbers of roundings name the index of an
    element, which has no notation.
    """
    proofs = with_asked(rule, proofs, config.asked, config.prover)
    rule = Rule(rule.lhs, rule.rhs, tuple(proofs))
    verdicts = [(s, v) for s, p in proofs.items() if isinstance(v := with_weakest(rule, s, p), Proved)]
    classes = [stability(rule, signature, proof) for signature, proof in verdicts]
    certificate = Certificate.of(rule, verdicts, stability=classes).to_json()
    try:
        Certificate.from_json(certificate)
    except NotationError:
        return None
    return {"id": rule.id, "rule": show_rule(rule), "signatures": len(proofs), "certificate": certificate}


def _merges_products(proven: ProvenRule) -> bool:
    """Return True if the rule makes one product of several: such rules save more for more operands."""
    left, right = (
        sum(is_linear_product(t.op) for t in topological(side)) for side in (proven.rule.lhs, proven.rule.rhs)
    )
    return left > right > 0


def _proofs(
    config: RunConfig, check: SamplingCheck | None, schema: Schema, wanted: Iterable[Signature]
) -> dict[Signature, Proved]:
    """Prove the rule at the wanted signatures, except those that another proven signature covers, or that the check
    refuses."""
    proofs: dict[Signature, Proved] = {}
    for wide in [schema.base, *wanted]:
        signature = pinned(schema.rule, wide)
        if signature in proofs or any(covers(known, signature, proof) for known, proof in proofs.items()):
            continue
        if check is not None and not check.holds(schema.rule, signature):
            continue
        verdict = config.prover(schema.rule, signature)
        if not isinstance(verdict, Proved):
            continue
        if any(covers(known, signature, proof, verdict) for known, proof in proofs.items()):
            continue
        proofs = {s: p for s, p in proofs.items() if not covers(signature, s, verdict, p)}
        proofs[signature] = verdict
    return proofs


def _show(equation: GroundEquation) -> str:
    return show_rule(Rule(equation.lhs, equation.rhs))


def _typed(family: Family, text: str) -> tuple[Term, ...]:
    """Parse terms over the variables of a family."""
    return parse_terms(text, {v.name: tensor(*v.shape, dtype=v.dtype) for v in family.variables})


def _read(family: Family, text: str) -> GroundEquation:
    """Parse an equation of a family."""
    types = {variable.name: tensor(*variable.shape, dtype=variable.dtype) for variable in family.variables}
    left, right = text.split(" = ")
    if not family.reals:
        return GroundEquation(parse_terms(left, types), parse_terms(right, types), family)
    rule = parse_rule(text)  # untyped: constants have the type of the variables that occur
    names, _ = pattern_names((*rule.lhs, *rule.rhs))
    bindings = Bindings({name: var(name, types[name]) for name in names})
    dtype = bindings.dtype() or "float"
    return GroundEquation(instantiate(rule.lhs, bindings, dtype), instantiate(rule.rhs, bindings, dtype), family)


def _show_proven(config: RunConfig, proven: ProvenRule) -> dict[str, Any]:
    schema = proven.schema
    return {
        "family": config.families.index(proven.equation.family),
        "equation": _show(proven.equation),
        "base": show_rule(Rule(schema.rule.lhs, schema.rule.rhs, (schema.base,))),
        "open": show_rule(Rule(schema.rule.lhs, schema.rule.rhs, (schema.open,))),
        "kinds": dict(schema.kinds),
        "one_way": proven.one_way,
    }


def _read_proven(config: RunConfig, entries: Iterable[Mapping[str, Any]]) -> list[ProvenRule]:
    found = []
    for entry in entries:
        (base,), (open_,) = (parse_rules(entry[name]) for name in ("base", "open"))
        rule = replace(base, signatures=())
        schema = Schema(rule, base.signatures[0], open_.signatures[0], entry["kinds"])
        equation = _read(config.families[entry["family"]], entry["equation"])
        found.append(ProvenRule(schema, equation, entry["one_way"]))
    return found


def _json(data: object) -> bytes:
    return json.dumps(data, indent=1).encode() + b"\n"
