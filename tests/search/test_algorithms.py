"""Algorithms for an operator (Winograd convolution): applied where a measurement says that they are faster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from superopt.evaluate import evaluate
from superopt.ir.infer import make
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.types import TensorType
from superopt.optimizer.algorithm_timer import AlgorithmTimer, without_algorithms
from superopt.rulebook.loading import certified_rules
from superopt.runtime import Target
from superopt.search import AnalyticCost, Gain, ModelTimer, SearchResult, Untimed, search
from superopt.search.strategy.algorithms import AlgorithmGains
from superopt.store import ResultStore
from verify.certificates import CertifiedBook
from verify.proof_book import ProofBook
from verify.replay import replay

CERTIFIED, CERTIFICATES = certified_rules(None)
WINOGRAD = [
    listed.rule
    for listed in CERTIFIED
    if {term.op for term in topological(listed.rule.lhs)} == {"Conv", "Var"}
    and "ConvTranspose" in {term.op for term in topological(listed.rule.rhs)}
]
ATTRIBUTES: dict[str, Attr] = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}


def graph(kernel: int = 3, *, has_bias: bool = True) -> tuple[Term, ...]:
    x = var("x", TensorType("float", (1, 4, 6, 5)))
    w, b = (
        Term.of("Const", (), {"hash": name}, (TensorType("float", shape),))
        for name, shape in (("w", (8, 4, kernel, kernel)), ("b", (8,)))
    )
    pads = (kernel // 2,) * 4
    return (make("Relu", (make("Conv", (x, w, *([b] if has_bias else [])), {**ATTRIBUTES, "pads": pads}),)),)


class Gains:
    """All algorithms are expected to save as much; `measured` is a function."""

    def __init__(self, measured: Callable[[Rule, Bindings], float], expected_ps: int = 1) -> None:
        self.measured, self._expected_ps = measured, expected_ps

    def expected_ps(self, rule: Rule, bindings: Bindings) -> int:
        return self._expected_ps


def found(outputs: tuple[Term, ...], gains: AlgorithmGains | None) -> SearchResult:
    book = CertifiedBook(CERTIFICATES, "normwise")
    return search(outputs, WINOGRAD, book.check, AnalyticCost(), position={}, algorithm_gains=gains)


def tile(rule: Rule) -> int:
    """Return the rows of the tiles of outputs."""
    (stride,) = {term.attr("strides") for term in topological(rule.rhs) if term.op == "ConvTranspose"}
    assert isinstance(stride, tuple) and isinstance(stride[0], int)
    return stride[0]


def test_the_rules_ship() -> None:
    assert sorted((tile(rule), len(rule.lhs[0].inputs)) for rule in WINOGRAD) == [(2, 2), (2, 3), (4, 2), (4, 3)]
    assert list(without_algorithms(WINOGRAD)) == []


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("best", [2, 4])
def test_the_largest_measured_gain_is_taken(best: int, has_bias: bool) -> None:
    def gain(rule: Rule, bindings: Bindings) -> float:
        assert bindings.terms["w"].is_constant and not bindings.terms["x"].is_constant
        return 1.5 if tile(rule) == best else 1.4

    outputs = graph(has_bias=has_bias)
    result = found(outputs, Gains(gain))
    (used,) = result.rule_uses
    assert [tile(rule) for rule in WINOGRAD if rule.id == used] == [best]
    (trace,) = result.traces
    assert result.outputs == replay(outputs, trace, ProofBook("normwise"))
    rng = np.random.default_rng(0)
    values = {term: rng.standard_normal((1, 4, 6, 5)) for term in topological(outputs) if term.op == "Var"}
    weights = {"w": rng.standard_normal((8, 4, 3, 3)), "b": rng.standard_normal(8)}
    before, after = (evaluate(list(side), values, weights)[0] for side in (outputs, result.outputs))
    np.testing.assert_allclose(after, before, atol=1e-12)


@pytest.mark.parametrize("times", [0.0, 1.05])
def test_a_gain_that_is_unknown_or_small_is_left(times: float) -> None:
    assert found(graph(), Gains(lambda rule, bindings: times)).traces == ()


def test_costs_alone_never_choose_an_algorithm() -> None:
    assert found(graph(), None).traces == ()


def test_other_kernels_are_never_measured() -> None:
    def gain(rule: Rule, bindings: Bindings) -> float:
        raise AssertionError

    assert found(graph(5), Gains(gain)).traces == ()


def test_what_is_expected_to_be_slower_is_not_measured() -> None:
    def gain(rule: Rule, bindings: Bindings) -> float:
        raise AssertionError

    assert found(graph(), Gains(gain, expected_ps=0)).traces == ()


def test_what_the_level_does_not_allow_is_not_measured() -> None:
    def gain(rule: Rule, bindings: Bindings) -> float:
        raise AssertionError

    book = CertifiedBook(CERTIFICATES, "stable")
    gains = Gains(gain)
    assert search(graph(), WINOGRAD, book.check, AnalyticCost(), position={}, algorithm_gains=gains).traces == ()


def test_what_may_save_most_is_measured_first() -> None:
    asked: list[int] = []

    class Expected(Gains):
        def expected_ps(self, rule: Rule, bindings: Bindings) -> int:
            return tile(rule)

    found(graph(), Expected(lambda rule, bindings: asked.append(tile(rule)) or 0.0))  # type: ignore[func-returns-value]
    assert asked[:2] == [4, 2]


def test_each_operator_is_measured_with_one_algorithm_first() -> None:
    asked: list[tuple[object, int]] = []

    class Expected(Gains):
        def expected_ps(self, rule: Rule, bindings: Bindings) -> int:
            assert bindings.terms["w"].type is not None
            return tile(rule) * (10 if bindings.terms["w"].type.shape == (8, 4, 3, 3) else 1)

    def gain(rule: Rule, bindings: Bindings) -> float:
        assert bindings.terms["w"].type is not None
        asked.append((bindings.terms["w"].type.shape, tile(rule)))
        return 0.0

    second = Term.of("Const", (), {"hash": "second"}, (TensorType("float", (4, 8, 3, 3)),))
    found((make("Relu", (make("Conv", (*graph(), second), ATTRIBUTES),)),), Expected(gain))
    large, small = (8, 4, 3, 3), (4, 8, 3, 3)
    assert asked[:4] == [(large, 4), (small, 4), (large, 2), (small, 2)]


def _asked(timer: AlgorithmTimer) -> list[float]:
    """Return what a timer says of the algorithms for the graph's Conv, those by smaller tiles first."""
    gains: dict[int, float] = {}

    def gain(rule: Rule, bindings: Bindings) -> float:
        gains[tile(rule)] = timer.measured(rule, bindings)
        assert timer.measured(rule, bindings) == gains[tile(rule)]
        assert timer.expected_ps(rule, bindings) < 0  # so small an image
        return 0.0

    found(graph(), Gains(gain))
    return [gains[rows] for rows in sorted(gains)]


def _timer() -> AlgorithmTimer:
    return AlgorithmTimer([AnalyticCost()], Target("cpu", 1), opset=17, budget_s=60.0, store=ResultStore())


def test_an_operator_is_timed_once_and_the_reading_of_weights_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[tuple[Term, ...]] = []

    def twice_as_fast(self: ModelTimer, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain:
        timed.append(after)
        return Gain(2.5, 2.0)

    monkeypatch.setattr(ModelTimer, "__call__", twice_as_fast)
    small, large = _asked(_timer())
    assert 1 < large < small < 2 and len(timed) == 2  # larger tiles have more weights


def test_an_operator_that_cannot_be_timed_has_no_gain(monkeypatch: pytest.MonkeyPatch) -> None:
    def untimed(self: ModelTimer, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain:
        raise Untimed

    monkeypatch.setattr(ModelTimer, "__call__", untimed)
    assert _asked(_timer()) == [0, 0]


def test_algorithms_run_here() -> None:
    assert all(times > 0 for times in _asked(_timer()))
