"""A graph with dynamic sizes: no rewrite that is slower at any of the sizes, and all that are a gain at one."""

from __future__ import annotations

import pytest

from superopt.ir.dim import symbol
from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType, tensor
from superopt.search import AnalyticCost, Gain, ModelTimer, SearchResult, TimerOverSizes, search
from superopt.search.cost.device import CPU
from superopt.search.cost.over_sizes import MeanCost, SizeGuard
from tests.support.search_graphs import Graphs, operators
from tests.support.search_rules import RULES, believe

X = var("x", TensorType("float", (symbol("N"), 64)))


def at(*sizes: int) -> list[AnalyticCost]:
    return [AnalyticCost(CPU, sizes={"N": size}) for size in sizes]


def found(output: Term, *sizes: int, **options: object) -> SearchResult:
    arguments = {"position": {}, "max_expansions": 400, **options}
    return search((output,), RULES, believe, SizeGuard(at(*sizes)), **arguments)  # type: ignore[arg-type]


def bottleneck(graphs: Graphs, x: Term) -> Term:
    """A product through 8 channels: one product of 64 x 64 is faster at N = 1, and slower at large N."""
    return make("Relu", (make("MatMul", (make("MatMul", (x, graphs.const(64, 8))), graphs.const(8, 64))),))


def twice_relu(x: Term) -> Term:
    return make("Relu", (make("Relu", (x,)),))


@pytest.mark.parametrize(("sizes", "products"), [((1,), 1), ((1, 4096), 2), ((4096, 1), 2), ((1, 8, 4096), 2)])
def test_no_rewrite_that_is_slower_at_any_size(sizes: tuple[int, ...], products: int) -> None:
    assert operators(found(bottleneck(Graphs(), X), *sizes).outputs).count("MatMul") == products


def test_other_gains_stay_beside_it() -> None:
    """In the same region, before and after what is no gain at all sizes."""
    graphs = Graphs()
    value = twice_relu(bottleneck(graphs, twice_relu(X)))
    assert operators(found(value, 1, 4096).outputs) == ["Relu", "MatMul", "MatMul", "Relu"]


def test_a_gain_at_one_size_that_is_neutral_at_others_is_made() -> None:
    """One operator less of 0.2 microseconds is nothing to a second of arithmetic."""
    graphs, value = Graphs(), twice_relu(X)
    for _ in range(4):
        value = make("MatMul", (value, graphs.const(64, 64)))
    result = found(value, 1, 10**6)
    assert "Relu" in operators(result.outputs) and operators(result.outputs).count("Relu") == 1


def test_a_gain_is_reached_through_a_graph_that_is_slower_at_a_size() -> None:
    """x W + (x A) B = x (W + A B), through x W + x (A B), which has more arithmetic and one operator less."""
    output = Graphs().lora(X, 64, 16)
    for sizes in ((1,), (64,), (1, 64), (1, 8, 4096)):
        assert operators(found(output, *sizes).outputs).count("MatMul") == 1, sizes


def test_costs_are_told_as_those_of_the_first_size() -> None:
    value = twice_relu(X)
    one, two = found(value, 8), found(value, 8, 4096)
    assert two.cost_before == pytest.approx(one.cost_before, rel=1e-3)
    assert two.cost_after < two.cost_before


def test_each_size_has_the_same_weight() -> None:
    graphs = Graphs()
    outputs = (bottleneck(graphs, X),)
    guard = SizeGuard(at(1, 4096))
    mean = guard.mean(outputs)
    assert isinstance(mean, MeanCost)
    shares = [weight * sum(model.cost(t) for t in _terms(outputs)) for model, weight in mean._models]
    assert shares[0] == pytest.approx(shares[1], rel=0.05)  # but for the reading of weights


def _terms(outputs: tuple[Term, ...]) -> list[Term]:
    (relu,) = outputs
    (second,) = relu.inputs
    assert second is not None and second.inputs[0] is not None
    return [relu, second, second.inputs[0]]


def test_one_size_needs_no_guard() -> None:
    guard = SizeGuard(at(1))
    one, two = make("Relu", (X,)), twice_relu(X)
    assert not guard.is_slower((two,), (one,)) and not SizeGuard().is_slower((two,), (one,))
    assert isinstance(guard.mean((one,)), AnalyticCost)


class FixedTimer(ModelTimer):
    """Answers without measuring."""

    def __init__(self, gain: Gain | None) -> None:
        self.gain, self.asked = gain, 0

    def __call__(self, before: tuple[Term, ...], after: tuple[Term, ...]) -> Gain | None:
        self.asked += 1
        return self.gain


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ([Gain(1.2, 1.1)], Gain(1.2, 1.1)),
        ([Gain(1.21, 1.1), Gain(1.0, 0.98)], Gain(1.1, (1.1 * 0.98) ** 0.5)),
        ([Gain(0.9, 0.8), Gain(2.0, 1.9)], Gain(0.9, 0.8)),
        ([Gain(2.0, 1.9), Gain(0.9, 0.8)], Gain(0.9, 0.8)),
        ([None, Gain(1.2, 1.1)], Gain(1.2, 1.1)),
        ([None, None], None),
    ],
)
def test_a_region_is_timed_at_several_sizes(gains: list[Gain | None], expected: Gain | None) -> None:
    timer = TimerOverSizes([FixedTimer(gain) for gain in gains])
    result = timer((tensor_var(),), (tensor_var(),))
    assert (result is None) == (expected is None)
    if result is not None and expected is not None:
        assert tuple(result) == pytest.approx(tuple(expected))


def tensor_var() -> Term:
    return var("y", tensor(1))
