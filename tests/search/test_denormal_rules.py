"""Rules against denormal numbers: applied wherever they fit, kept where a timing says that they pay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from superopt.evaluate import evaluate
from superopt.ir.notation import parse_terms
from superopt.ir.term import Term, topological
from superopt.ir.types import TensorType, tensor
from superopt.rulebook.loading import certified_rules
from superopt.search import AnalyticCost, Gain, SearchResult, Untimed, search
from superopt.search.apply import AppliedTrace
from tests.support.search_graphs import operators
from verify.certificates import CertifiedBook
from verify.replay import replay

CERTIFIED, CERTIFICATES = certified_rules(None)
SHIFT = [
    listed.rule
    for listed in CERTIFIED
    if "Softmax" in {term.op for term in topological(listed.rule.lhs)}
    and "Constant" in {term.op for term in topological(listed.rule.rhs)}
]
BEFORE = "MatMul(Softmax[axis=-1](Add(x, m)), v)"
TYPES = {"x": tensor(3, 4, 4), "m": tensor(3, 4, 4), "v": tensor(3, 4, 2)}


def graph(types: dict[str, TensorType] | None = None) -> tuple[Term, ...]:
    return parse_terms(BEFORE, types or TYPES)


def found(
    outputs: tuple[Term, ...],
    timer: Callable[[tuple[Term, ...], tuple[Term, ...]], Gain | None],
) -> SearchResult:
    book = CertifiedBook(CERTIFICATES)
    return search(outputs, SHIFT, book.check, AnalyticCost(), position={}, denormal_timer=timer)


def test_the_rule_ships() -> None:
    assert len(SHIFT) == 1


def test_the_rule_is_used_where_it_is_faster_and_proven() -> None:
    timed: list[tuple[Term, ...]] = []

    def timer(before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain:
        timed.append(after)
        return Gain(3.0, 2.5)

    outputs = graph()
    result = found(outputs, timer)
    assert "Softmax" not in operators(result.outputs) and operators(result.outputs) == operators(timed[0])
    assert len(timed) == 1 and result.rule_uses == {SHIFT[0].id: 1}
    assert list(result.savings_s.values()) == [pytest.approx(result.cost_before * 2 / 3, rel=0.01)]
    (trace,) = result.traces
    assert (
        AppliedTrace(outputs, trace, {}).outputs
        == result.outputs
        == replay(outputs, trace, CertifiedBook(CERTIFICATES))
    )


@pytest.mark.parametrize("gain", [Gain(1.5, 1.0), Gain(0.9, 0.9), None, Untimed])
def test_the_rule_is_not_used_where_it_may_be_slower_or_cannot_be_timed(gain: Gain | type[Untimed] | None) -> None:
    def timer(before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        if isinstance(gain, type):
            raise gain
        return gain

    assert found(graph(), timer).traces == ()


def test_costs_alone_never_choose_the_rule() -> None:
    class Free(AnalyticCost):
        """Everything is free except Softmax."""

        def cost(self, term: Term) -> float:
            return float(term.op == "Softmax")

    book = CertifiedBook(CERTIFICATES)
    assert not search(graph(), SHIFT, book.check, Free(), position={}).traces


def test_the_rule_is_not_used_in_float16() -> None:
    outputs = graph({name: TensorType("float16", type.shape) for name, type in TYPES.items()})
    assert not found(outputs, lambda before, after: Gain(3.0, 3.0)).traces


def test_masked_values_are_no_longer_subnormal() -> None:
    outputs = graph()
    after = found(outputs, lambda before, after: Gain(3.0, 3.0)).outputs
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(type.concrete() or ()).astype(np.float32) for name, type in TYPES.items()}
    arrays["m"] = np.where(np.eye(4, dtype=bool), 0, -100).astype(np.float32) * np.ones((3, 1, 1), np.float32)

    def run(terms: tuple[Term, ...], op: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the output, and the value of the first operator `op`."""
        inner = next(term for term in topological(terms) if term.op == op)
        leaves = {t: arrays[str(t.attr("name"))] for t in topological((*terms, inner)) if t.op == "Var"}
        whole, part = evaluate((*terms, inner), leaves, {})
        return np.asarray(whole), np.asarray(part)

    def subnormal(values: np.ndarray) -> int:
        return int(((values != 0) & (np.abs(values) < np.finfo(np.float32).tiny)).sum())

    (one, softmax), (other, exponentials) = run(outputs, "Softmax"), run(after, "Exp")
    assert subnormal(softmax.astype(np.float32)) > 0 == subnormal(exponentials.astype(np.float32))
    np.testing.assert_allclose(one, other, rtol=1e-5)
