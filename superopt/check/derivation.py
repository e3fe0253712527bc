"""Derivations: both models are rewritten by shipped rules, as `optimize` does, before they are compared.

A tool that merges branches, folds weights or fuses a layer leaves no tensor between by which a proof could proceed. But
the rules lead the other model there as well: what two models become is closer than what they were. Every step is
proven by the kernel, and a certificate has all steps.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace as with_fields
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from superopt.check.joining import by_digest, free_sizes
from superopt.ir.infer import OPERATORS, IllTyped, replace
from superopt.ir.notation import parse_signature, show_signature
from superopt.ir.pattern import Bindings, instantiate, match, pattern_names
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, node_of, topological
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.onnx_io import Model
from superopt.ops.definition import NoSemantics
from superopt.ops.equation import unfold
from superopt.optimizer.algorithm_timer import alone
from superopt.optimizer.equations import parse_side, show_sides
from superopt.properties import moves
from superopt.search import AnalyticCost, Device, find_device, search
from superopt.search.apply import replacements
from superopt.search.cost.over_sizes import SizeGuard
from verify.proof_book import Book, both_ways
from verify.replay import ReplayError, replay, with_general_sizes

__all__ = [
    "DerivationText",
    "Derived",
    "carried_out",
    "derivation_text",
    "derived",
    "devices_of",
    "fused_in",
    "holds_backwards",
    "keeps_operands",
    "parse_sides",
    "stepped",
    "steps_text",
]

DerivationText: TypeAlias = tuple[Any, ...]


class Derived(NamedTuple):
    """A model after rules have rewritten it, and the traces that lead there."""

    model: Model
    traces: tuple[Trace, ...]


_FUSED_FOR_GPUS = frozenset({"Attention", "MultiHeadAttention"})
_SIZES = (1, 64)  # free sizes that costs are for; a search makes no rewrite that costs more at either


def devices_of(models: Iterable[Model]) -> list[Device]:
    """Return the devices that the models may be optimized for: their costs lead the other model to the same graph.

    Starting kernels takes most of the time on GPUs. So their costs merge and fuse more, and in another order.
    """
    operators = {term.op for model in models for term in topological(model.outputs)}
    return [find_device(name) for name in ("cpu", "cuda")[: 1 if operators.isdisjoint(_FUSED_FOR_GPUS) else 2]]


def fused_in(models: Iterable[Model]) -> frozenset[str]:
    """Return the operators of runtimes in `models`, and those that these are defined by."""
    found: set[str] = set()
    waiting = [term for model in models for term in topological(model.outputs)]
    while waiting:
        term = waiting.pop()
        node = node_of(term)
        if term is node and len(node.types) > 1:  # its outputs are among the terms
            continue
        if node.op in OPERATORS and OPERATORS[node.op].domain and node.op not in found:
            found.add(node.op)
            with contextlib.suppress(NoSemantics):
                waiting += topological((unfold(term),))
    return frozenset(found)


def derived(
    model: Model,
    rules: Iterable[Rule],
    proofs: Book,
    book: Book,
    seconds: float,
    deadline: float,
    device: Device,
    fused: Collection[str],
    other: Sequence[Term],
    is_second: bool,
) -> list[Derived]:
    """Return `model` and what it is after each pass of a search of about `seconds` seconds.

    The search ends at `deadline`, a time of `time.monotonic`, in any case.
    Its costs are those of `device`. `proofs` says where a rule may be applied; `book` proves each step again. A pass
    that the kernel does not confirm is the end. Each step of the second model must hold backwards, see
    `holds_backwards`. Of the operators that only runtimes have, rules introduce those that are `fused` already: others
    would hide tensors at which a proof proceeds. Algorithms for an operator, such as Winograd convolution, are taken
    where the `other` model, with these outputs, has their operators.
    """
    rules = [rule for rule in rules if not is_second or keeps_operands(rule)]
    costs = [AnalyticCost(device, sizes=dict.fromkeys(free_sizes(model), size)) for size in _SIZES]

    def check(rule: Rule, bindings: Bindings) -> Signature | None:
        signature = proofs.check(rule, bindings)
        if signature is None or not is_second or holds_backwards(rule, signature, bindings, proofs):
            return signature
        return None

    found = search(
        model.outputs,
        rules,
        check,
        SizeGuard(costs),
        position=model.position,
        efforts=1,
        budget_s=seconds,
        deadline=deadline,
        available=lambda operator: not OPERATORS[operator.op].domain or operator.op in fused,
        algorithm_gains=_Algorithms(other),
    )
    passes = [Derived(model, ())]
    with contextlib.suppress(ReplayError, IllTyped):
        for trace in found.traces:
            last = passes[-1]
            if is_second:
                _check_backwards((step for one in trace.applications for step in one.rewrite.steps), book)
            passes.append(Derived(_after(last.model, trace, book), (*last.traces, trace)))
    return passes


class _Algorithms:
    """Says that an algorithm gains where the arithmetic that it introduces is in the model with these outputs."""

    def __init__(self, outputs: Sequence[Term]) -> None:
        self._operators = {_kind(term) for term in topological(outputs)}

    def expected_ps(self, rule: Rule, bindings: Bindings) -> int:
        return 1

    def measured(self, rule: Rule, bindings: Bindings) -> float:
        new = topological(instantiate(rule.rhs, alone(bindings), bindings.dtype() or "float"))
        run = (term for term in new if term.inputs and not term.is_constant and not moves(term.op))
        return math.inf if all(_kind(term) in self._operators for term in run) else 0.0


def _kind(term: Term) -> tuple[object, ...]:
    return term.op, term.attrs, term.types, *(None if i is None else i.types for i in term.inputs)


@lru_cache(maxsize=1 << 14)
def keeps_operands(rule: Rule) -> bool:
    """Return True if every variable of the left side is in the right side as well."""
    left, right = (pattern_names(side)[0] for side in (rule.lhs, rule.rhs))
    return left <= right


def holds_backwards(rule: Rule, signature: Signature, bindings: Bindings, book: Book) -> bool:
    """Return True if the left side of `rule`, which `book` allows at a match, is defined wherever the right side is.

    Where the second model is rewritten, the first is compared with what the rules make of it. So that must not be
    defined more often: neither x + (log z - log z) nor x z / z is x.
    """
    if not keeps_operands(rule):
        return False
    if both_ways(book.verdict(rule, signature)) is not None:
        return True
    return book.allows(rule.reversed(), signature, with_general_sizes(bindings))


def _check_backwards(steps: Iterable[Step], book: Book) -> None:
    """Raise ReplayError unless all steps hold backwards."""
    for step in dict.fromkeys(steps):
        bindings = match(step.rule.lhs, step.roots)
        if bindings is None or not holds_backwards(step.rule, step.signature, bindings, book):
            raise ReplayError("a step of the second model is defined more often than the model")


def _after(model: Model, trace: Trace, book: Book) -> Model:
    """Return the model after a trace, with the names of the tensors that it still has. Raises ReplayError."""
    result = model.with_outputs(replay(model.outputs, trace, book), replacements(trace))
    present = set(topological(result.outputs))
    return with_fields(result, names={term: name for term, name in result.names.items() if term in present})


# A derivation as text. Terms of the model are named by their digests.


def derivation_text(model: Model, traces: Sequence[Trace], book: Book) -> DerivationText:
    """Return traces on `model` as nested lists: for each, its rewrites and the places where they are applied."""
    found = []
    for trace in traces:
        number: dict[Rewrite, int] = {}
        places = []
        for application in trace.applications:
            leaves = dict(application.leaves)
            roots = replace(application.rewrite.before, leaves)
            k = number.setdefault(application.rewrite, len(number))
            places.append((k, tuple(r.digest for r in roots), tuple(t.digest for t in leaves.values())))
        leaves_of = {a.rewrite: tuple(leaf for leaf, _ in a.leaves) for a in trace.applications}
        found.append((tuple(_rewrite_text(one, leaves_of[one]) for one in number), tuple(places)))
        model = _after(model, trace, book)
    return tuple(found)


def _rewrite_text(rewrite: Rewrite, leaves: Sequence[Term]) -> DerivationText:
    return tuple((leaf.op, leaf.attrs) for leaf in leaves), steps_text(rewrite.steps)


def steps_text(steps: Sequence[Step]) -> DerivationText:
    """Return steps by both sides of their rules, their signatures, and the digests of their roots."""
    return tuple((show_sides(s.rule), show_signature(s.signature), tuple(r.digest for r in s.roots)) for s in steps)


def carried_out(model: Model, text: DerivationText, book: Book, *, is_second: bool) -> Model:
    """Return the model after the derivation `text`, whose steps `book` proves.

    Raises ReplayError, also for steps that `derived` does not make, and LookupError, IllTyped and others if the text
    does not fit the model.
    """
    for rewrites, places in text:
        ours = by_digest(model.outputs)
        made: dict[int, Rewrite] = {}
        applications = []
        for k, roots, actual in places:
            terms = [ours[digest] for digest in actual]
            shown_leaves, steps = rewrites[k]
            leaves = [_leaf(op, attrs, term) for (op, attrs), term in zip(shown_leaves, terms, strict=True)]
            if k not in made:
                before = replace([ours[digest] for digest in roots], dict(zip(terms, leaves, strict=True)))
                made[k] = Rewrite(before, *stepped(before, steps))
                if is_second:
                    _check_backwards(made[k].steps, book)
            applications.append(Application(made[k], tuple(zip(leaves, terms, strict=True))))
        model = _after(model, Trace(tuple(applications)), book)
    return model


def _leaf(op: str, attrs: Any, term: Term) -> Term:
    """Return what stands for `term` in a rewrite: a name for any value. Raises LookupError for what has a meaning."""
    if op not in ("Const", "Var"):
        raise LookupError(f"{op} stands for a value of its own")
    return Term.of(op, (), dict(attrs), term.types)


def stepped(state: tuple[Term, ...], shown: DerivationText) -> tuple[tuple[Step, ...], tuple[Term, ...]]:
    """Return the steps of a text (see `steps_text`) and what they make of `state`. Raises LookupError and others."""
    steps: list[Step] = []
    for sides, signature, places in shown:
        here = by_digest(state)
        step = Step(parse_sides(sides), parse_signature(signature), tuple(here[place] for place in places))
        bindings = match(step.rule.lhs, step.roots)
        if bindings is None:
            raise LookupError("a step does not match")
        results = instantiate(step.rule.rhs, bindings, bindings.dtype() or "float")
        state = replace(state, dict(zip(step.roots, results, strict=True)))
        steps.append(step)
    return tuple(steps), state


def parse_sides(sides: Sequence[str]) -> Rule:
    """Return an equation by its sides, as `show_sides` writes them. Raises NotationError, and ValueError unless two."""
    lhs, rhs = map(parse_side, sides)
    return Rule(lhs, rhs)
