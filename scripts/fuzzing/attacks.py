"""Attacks with a random graph. Each returns the first difference from the original, in one line, or None.

    sized       read; tensors have the sizes that the reader states, at all sizes of the inputs
    written     read and written back; weights are folded, no rule is applied
    walked      rewritten at random by every proven rule that matches, whether it gains or not
    stepped     rewritten once, by one given rule, wherever it matches
    optimized   `superopt.optimize` with its clock replaced by one that accepts everything

Walks attack the proofs, the matcher and the writer harder than the search does, which takes few rewrites.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

import onnx

from superopt import optimize
from superopt.ir.dim import Size, evaluate
from superopt.ir.infer import replace
from superopt.ir.notation import show_rule
from superopt.ir.rule import Rule
from superopt.onnx_io import Model, ModelError, is_writable, read_simplified, write_model
from superopt.onnx_io.model import EqualSizes
from superopt.optimizer.proof_cache import ProofCache
from superopt.rulebook.loading import Certificates, certified_rules
from superopt.runtime import Timing
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.occurrence import Match
from superopt.search.match.rule_index import RuleIndex
from superopt.store import ResultStore
from verify.proof_book import Book
from verify.verdict import NUMERICS

from .feeds import Subject
from .judge import Judge
from .values import Array

__all__ = ["ATTACKS", "Attack", "Log", "accept", "matcher_for", "numerics_of", "proofs", "rewritten"]

_STEPS = 12
_TRIED_MATCHES = 8  # in each step
_MOST_TERMS = 150
# Walks of which one proves rules at the sizes of a match where no certificate does. These proofs are two thirds of the
# time of such a walk, and certificates reach all rules.
_PROVING_EVERY = 4


@dataclass
class Log:
    """Counts over many graphs: uses of rules, steps that could not be written, the rule of a failed step."""

    rules: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    culprit: tuple[onnx.ModelProto, str] | None = None  # the model before a step that changed values, and the rule


Attack = Callable[[Subject, Log], str | None]


def numerics_of(subject: Subject) -> str:
    """Return the class of rules for this subject: the strictest for special numbers and now and then, else the loosest
    that has a bound for its numbers.

    Equality over the reals says nothing of numbers of many magnitudes: the Softmax in Log(Softmax(x)) is 0 where
    LogSoftmax(x) is -992. Nor does a bound relative to the largest number: minimal filtering computes 1.8 beside 543
    with an error of 0.01, and Sigmoid shows it.
    """
    if subject.profile == "special" or (subject.seed % 4 == 0 and not _has_half(subject.model)):
        return NUMERICS[0]
    return NUMERICS[-1] if subject.profile in ("simple", "plain") else "stable"


def _has_half(model: onnx.ModelProto) -> bool:
    return onnx.TensorProto.FLOAT16 in _types(model)


def _types(model: onnx.ModelProto) -> set[int]:
    found = {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    found |= {tensor.data_type for tensor in model.graph.initializer}
    return found | {a.i for node in model.graph.node if node.op_type == "Cast" for a in node.attribute}


def _judge(subject: Subject, numerics: str) -> Judge:
    """Return the judge of results of the class `numerics`.

    float16 is never compared bit for bit: on the CPU ONNX Runtime computes it in float32, and rounds where it casts.
    """
    exact = numerics == NUMERICS[0] and not _has_half(subject.model)
    return Judge(subject.model, subject.feeds(), exact, subject.seed, bounded=numerics != NUMERICS[-1])


def sized(subject: Subject, log: Log) -> str | None:
    """Read the model, and compare the sizes of tensors.

    Nothing is claimed where a tensor is empty, or where sizes differ that the reader assumes to be equal.
    """
    model, judge = read_simplified(subject.model), _judge(subject, numerics_of(subject))
    equal = set().union(*model.assumed_sizes.values())
    for values, feeds in judge.tensors():
        sizes = _sizes_of(model, feeds)
        if not all(value.size for value in values.values()) or not all(_holds(one, sizes) for one in equal):
            continue
        for term, name in model.names.items():
            stated = None if term.type is None else term.type.with_sizes(sizes).shape
            actual = values[name].shape if name in values else None
            if stated is None or actual is None:
                continue
            log.counts["tensors of stated sizes"] += 1
            if len(stated) != len(actual) or any(
                isinstance(s, int) and 0 < s != n for s, n in zip(stated, actual, strict=True)
            ):
                return f"{name} ({term.op}) has sizes {list(actual)} and not {term.type}"
    return None


def _sizes_of(model: Model, feeds: Mapping[str, Array]) -> dict[str, Size]:
    """Return the sizes of the inputs' free axes, by name."""
    found: dict[str, Size] = {}
    for term in model.inputs:
        shape = None if term.type is None else term.type.shape
        found.update((str(s), n) for s, n in zip(shape or (), feeds[str(term.attr("name"))].shape, strict=True))
    return found


def _holds(equal: EqualSizes, sizes: Mapping[str, Size]) -> bool:
    """Return True if these sizes are equal, where the least of several counts as one; a 1 says that 1 is broadcast."""
    least = [min(size, key=lambda s: _number(s, sizes)) if isinstance(size, frozenset) else size for size in equal]
    return len({_number(size, sizes) for size in least if size != 1}) <= 1


def _number(size: Size, sizes: Mapping[str, Size]) -> int:
    found = evaluate(size, sizes)
    return found if isinstance(found, int) else -1  # a size that no input tells


def written(subject: Subject, log: Log) -> str | None:
    """Read the model and write it back. Exact: no bit of a result may change, folded weights included."""
    numerics = numerics_of(subject)
    judge = _judge(subject, numerics)
    return judge.problem(write_model(read_simplified(subject.model), exact=numerics == NUMERICS[0]))


def walked(subject: Subject, log: Log) -> str | None:
    """Rewrite at random, then compare; if that fails, find the step. `written` reports what fails without a rule."""
    numerics = numerics_of(subject)
    exact = numerics == NUMERICS[0]
    judge, model = _judge(subject, numerics), _read(subject)
    levels = ("none",)  # what ONNX Runtime's optimizer makes of a strange graph is no fault of a proof
    if judge.problem(write_model(model, exact=exact), levels) is not None:
        return None
    proves = subject.seed // 4 % _PROVING_EVERY == 0  # in exact walks as often as in others
    states = list(_walk(model, random.Random(subject.seed), proofs(numerics, proves), exact, log))
    log.counts["steps"] += len(states)
    if not states or judge.problem(states[-1].proto, levels) is None:
        return None
    before = subject.model
    for state in states:
        problem = judge.problem(state.proto, levels)
        if problem is not None:
            log.culprit = before, state.rule_id
            return f"rule {state.rule_id} {problem}; {state.rule[:300]}"
        before = state.proto
    return "a walk that is not repeatable"


def stepped(rule_id: str) -> Attack:
    """Return the attack that applies one rule, once at each of its matches."""

    def attack(subject: Subject, log: Log) -> str | None:
        numerics = numerics_of(subject)
        model, judge = _read(subject), _judge(subject, numerics)
        if judge.problem(write_model(model, exact=numerics == NUMERICS[0]), ("none",)) is not None:
            return None
        for match in matcher_for(model.opset).matches(GraphIndex(model.outputs)):
            if match.compiled.rule_id == rule_id and proofs(numerics).check(match.compiled.rule, match.bindings):
                try:
                    proto = write_model(rewritten(model, match), exact=numerics == NUMERICS[0])
                except ModelError:
                    continue
                problem = judge.problem(proto, ("none",))
                if problem is not None:
                    return f"rule {rule_id} {problem}; {show_rule(match.compiled.rule)[:300]}"
        return None

    return attack


def optimized(subject: Subject, log: Log) -> str | None:
    """Optimize, and compare what was written and what the comparison of outputs refused."""
    numerics = numerics_of(subject)
    judge = _judge(subject, numerics)
    result = optimize(
        subject.model, ep="cpu", cost="analytic", budget=0.3, samples=1, numerics=numerics, shapes=subject.shapes(),
        timer=accept,
    )  # fmt: skip
    log.counts["optimized"] += result.changed
    assert result.proto is not None
    return judge.problem(result.proto)


ATTACKS: dict[str, Attack] = {"sized": sized, "written": written, "walked": walked, "optimized": optimized}


def accept(*_: object) -> Timing:
    """Stand for the measurement of two models: the candidate is faster, whatever it is."""
    return Timing(1.1, 1.0, 1.1, 1.1, 1.1, 1.1, 1.0, 1, "cpu")


@dataclass(frozen=True)
class _State:
    proto: onnx.ModelProto
    rule_id: str
    rule: str


def _read(subject: Subject) -> Model:
    model = read_simplified(subject.model)
    dynamic = any(type is None or type.concrete() is None for term in model.inputs for type in term.types)
    return model.at_shapes(subject.shapes()) if dynamic else model


def _walk(model: Model, rng: random.Random, book: Book, exact: bool, log: Log) -> Iterator[_State]:
    matcher = matcher_for(model.opset)
    for _ in range(_STEPS):
        matches = list(matcher.matches(GraphIndex(model.outputs)))
        rng.shuffle(matches)
        matches.sort(key=lambda match: min(log.rules[match.compiled.rule_id], 20))  # rules that were hardly used first
        for match in matches[:_TRIED_MATCHES]:
            if not book.check(match.compiled.rule, match.bindings):
                log.counts["not proven"] += 1
                continue
            try:
                changed = rewritten(model, match)
                proto = write_model(changed, exact=exact)
            except ModelError:
                log.counts["not written"] += 1
                continue
            model = changed
            log.rules[match.compiled.rule_id] += 1
            yield _State(proto, match.compiled.rule_id, show_rule(match.compiled.rule))
            break
        else:
            return
        if len(GraphIndex(model.outputs).position) > _MOST_TERMS:
            return


def rewritten(model: Model, match: Match) -> Model:
    """Return the model after the rewrite. Raises IllTyped."""
    replaced = dict(zip(match.roots, match.results, strict=True))
    return model.with_outputs(replace(model.outputs, replaced), replaced)


@cache
def _certified() -> tuple[list[Rule], Certificates]:
    listed, certificates = certified_rules(None)
    return list(dict.fromkeys(entry.rule for entry in listed)), certificates


@cache
def _matchers() -> dict[int, Matcher]:
    return {}


def matcher_for(opset: int) -> Matcher:
    """Return the matcher of the shipped rules that this opset can express."""
    if opset not in _matchers():
        _matchers()[opset] = Matcher(RuleIndex(_certified()[0], lambda one: is_writable(one, opset)))
    matcher = _matchers()[opset]
    matcher.trim()
    return matcher


@cache
def proofs(numerics: str, proves: bool = True) -> Book:
    """Return the book that `optimize` uses: it bounds the effort of a proof. If not `proves`, certificates alone."""
    return ProofCache(ResultStore(), _certified()[1], numerics, proves=proves)
