"""Cost models, the price of a graph, and incremental prices of rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.ir.dim import Size, symbol
from superopt.ir.infer import make, replace
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import TensorType, tensor
from superopt.rulebook.loading import load_rules
from superopt.runtime import RunnableModel, Target, TimedModel, Timing, sample_times
from superopt.search import CPU, AnalyticCost, Device, ModelTimer
from superopt.search.cost import operator_timer
from superopt.search.cost.graph_cost import GraphCost
from superopt.search.cost.incremental import IncrementalCost
from superopt.search.cost.microbench import Unmeasurable, concrete
from superopt.search.cost.operator_form import isolated
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from superopt.store import ResultStore
from tests.support.search_graphs import Graphs, image
from tests.support.search_rules import RULES

ANALYTIC = AnalyticCost()


def price(*outputs: Term) -> float:
    """Return the seconds of the operators, without reading constants: equal graphs differ in a few of these."""
    cost = GraphCost(ANALYTIC)
    whole = cost.price(outputs)
    return (whole.time_ps - cost.weight_read_ps(whole.weight_bytes)) * 1e-12


def test_copies_cost() -> None:
    copies: dict[str, dict[str, Attr]] = {
        "Transpose": {"perm": (0, 2, 3, 1)},
        "Split": {"axis": -3, "split": (4, 4)},
        "Pad": {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0},
    }
    for op, attrs in copies.items():
        assert ANALYTIC.cost(make(op, (image(),), attrs)) > CPU.overhead + 1e-9


def test_constant_expressions_are_free() -> None:
    graphs = Graphs()
    product = make("MatMul", (graphs.const(64, 64), graphs.const(64, 64)))
    assert ANALYTIC.cost(product) == 0.0
    x = var("x", tensor(8, 64))
    assert price(make("MatMul", (x, product))) == pytest.approx(price(make("MatMul", (x, graphs.const(64, 64)))))


def test_a_larger_folded_weight_costs_more() -> None:
    graphs = Graphs()
    x = var("x", tensor(1, 256))
    small = make("MatMul", (make("MatMul", (x, graphs.const(256, 4))), graphs.const(4, 256)))
    large = make("MatMul", (x, make("MatMul", (graphs.const(256, 4), graphs.const(4, 256)))))
    assert price(large) > price(small)
    assert GraphCost(ANALYTIC).price([large]).weight_bytes > GraphCost(ANALYTIC).price([small]).weight_bytes


def test_fused_epilogues_are_free() -> None:
    graphs = Graphs()
    conv = graphs.conv(image(), 3, 8)
    normed = graphs.norm(conv)
    assert price(normed) == price(conv) == price(make("Relu", (normed,))) == price(make("Sigmoid", (conv,)))
    assert price(graphs.norm(image())) > 0
    assert price(make("Relu", (normed,)), conv) > price(conv)  # another user: it cannot be fused


@pytest.mark.parametrize(
    ("op", "attrs", "after_sums"),
    [
        ("Clip", {"bound_high": 6.0, "bound_low": 0.0}, False),
        ("HardSigmoid", {"alpha": 0.2, "beta": 0.5}, True),
        ("HardSwish", {}, True),
        ("LeakyRelu", {"alpha": 0.01}, False),
        ("Tanh", {}, True),
    ],
)
def test_activations_after_a_conv_are_free(op: str, attrs: dict[str, Attr], after_sums: bool) -> None:
    conv = Graphs().conv(image(), 3, 8)
    added = make("Add", (conv, var("y", conv.type)))
    assert price(make(op, (conv,), attrs)) == price(conv)
    assert (price(make(op, (added,), attrs)) == price(added)) == after_sums
    assert price(make("Elu", (conv,), {"alpha": 1.0})) > price(conv)


def test_a_conv_accumulates_into_what_is_computed() -> None:
    graphs = Graphs()
    conv = graphs.conv(image(), 3, 8)
    computed, constant = var("y", conv.type), graphs.const(1, 8, 14, 14)
    alone = price(make("Add", (var("z", conv.type), computed)))
    assert price(make("Add", (conv, computed))) == pytest.approx(price(conv) + alone / 2)
    read_ps = price(make("Add", (var("z", conv.type), constant)))
    assert price(make("Add", (conv, constant))) == pytest.approx(price(conv) + read_ps, rel=0.01)


def test_bias_after_a_product_is_half_an_add() -> None:
    graphs = Graphs()
    weight, bias = graphs.const(64, 64), graphs.const(64)
    for x in (var("x", tensor(8, 64)), var("y", tensor(2, 8, 64))):
        product = make("MatMul", (x, weight))
        biased = make("Add", (product, bias))
        alone = price(make("Add", (var("z", product.type), bias)))
        assert price(biased) == pytest.approx(price(product) + alone / 2)
    assert price(make("Relu", (biased,))) > price(biased)
    flat = make("MatMul", (var("x", tensor(8, 64)), weight))
    biased = make("Add", (flat, bias))
    assert price(make("Relu", (biased,))) == price(biased)
    attrs = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}
    assert price(make("Gemm", (var("x", tensor(8, 64)), weight, bias), attrs)) == pytest.approx(price(biased), rel=0.1)


def test_a_factor_of_a_product_is_free() -> None:
    graphs = Graphs()
    product = make("MatMul", (var("x", tensor(4, 8, 16)), var("y", tensor(4, 16, 8))))
    factor = graphs.const()
    for op, operands in (("Mul", (product, factor)), ("Mul", (factor, product)), ("Div", (product, factor))):
        assert price(make(op, operands)) == price(product)
    assert price(make("Div", (factor, product))) > price(product)


@pytest.mark.parametrize("sizes", [(1, 8, 64), (1, symbol("sequence"), 64), (symbol("batch"), symbol("sequence"), 64)])
def test_a_sum_before_a_normalization_becomes_the_skip_kernel(sizes: tuple[Size, ...]) -> None:
    graphs = Graphs()
    x, y = var("x", tensor(*sizes)), var("y", tensor(*sizes))
    scale, shift = graphs.const(64), graphs.const(64)
    attrs = {"axis": -1, "epsilon": 1e-5}
    total = make("Add", (x, y))
    norm = make("LayerNormalization", (total, scale, shift), attrs)
    assert price(norm) == price(make("SkipLayerNormalization", (x, y, scale, shift), {"epsilon": 1e-5}))
    alone = price(make("LayerNormalization", (x, scale, shift), attrs))
    assert price(norm, total) == pytest.approx(price(total) + alone)  # another user: it stays
    blocked = make("LayerNormalization", (make("Sum", (x, y)), scale, shift), attrs)
    assert price(blocked) < price(norm)  # the kernel is slower than what it replaces


def test_the_runtime_does_not_fuse_sums_of_sizes_without_a_name() -> None:
    graphs, attrs = Graphs(), {"axis": -1, "epsilon": 1e-5}
    scale, shift = graphs.const(64), graphs.const(64)

    def normalized(op: str, size: Size) -> float:
        x, y = var("x", tensor(1, size, 64)), var("y", tensor(1, size, 64))
        return price(make("LayerNormalization", (make(op, (x, y)), scale, shift), attrs))

    assert normalized("Add", symbol("length")) > normalized("Sum", symbol("length"))
    assert normalized("Add", symbol("unk_1")) <= normalized("Sum", symbol("unk_1"))


@pytest.mark.parametrize("order", range(4))
def test_gelu_in_parts_is_gelu(order: int) -> None:
    graphs = Graphs()
    x = var("x", tensor(8, 64))
    one = make("Ones", (), {"shape": ()})
    root, half = graphs.const(), graphs.const()
    erf = make("Add", (make("Erf", (make("Div", (x, root)),)), one))
    parts = make("Mul", (x, half)) if order > 1 else make("Mul", (erf, x) if order else (x, erf))
    gelu = make("Mul", ((erf, parts) if order == 3 else (parts, erf)) if order > 1 else (parts, half))
    assert price(gelu) == price(make("Gelu", (x,), {"approximate": "none"}))
    assert price(gelu, erf) > price(gelu)  # another user: it stays as it is


@pytest.mark.parametrize("in_parts", [False, True])
def test_a_bias_before_gelu_is_part_of_it_unless_it_is_part_of_a_product(in_parts: bool) -> None:
    graphs, attrs = Graphs(), {"approximate": "none"}

    def gelu(x: Term) -> Term:
        if not in_parts:
            return make("Gelu", (x,), attrs)
        erf = make("Erf", (make("Div", (x, graphs.const())),))
        return make("Mul", (make("Mul", (x, make("Add", (erf, make("Ones", (), {"shape": ()}))))), graphs.const()))

    x, bias, weight = var("x", tensor(2, symbol("length"), 64)), graphs.const(64), graphs.const(64, 64)
    total = make("Add", (bias, x))
    assert price(gelu(total)) == price(make("BiasGelu", (x, bias))) < price(make("Add", (bias, x))) + price(gelu(x))
    assert price(gelu(total), total) > price(gelu(total))
    product = make("MatMul", (x, weight))
    assert price(gelu(make("Add", (product, bias)))) == price(make("BiasGelu", (product, bias)))
    stacked = make("MatMul", (var("x", tensor(2, 8, 64)), weight))
    assert price(gelu(make("Add", (stacked, bias)))) > price(make("BiasGelu", (stacked, bias)))


@pytest.mark.parametrize("swapped", [False, True])
def test_a_gated_value_is_quick_gelu(swapped: bool) -> None:
    graphs, x = Graphs(), var("x", tensor(8, 64))
    kernel = price(make("QuickGelu", (x,), {"alpha": 1.0}))
    for inner in (x, make("Mul", (x, graphs.const()))):
        gate = make("Sigmoid", (inner,))
        gated = make("Mul", (gate, x) if swapped else (x, gate))
        assert price(gated) == kernel
        assert price(gated, gate) > kernel  # another user: it stays as it is
    assert price(make("Mul", (x, make("Sigmoid", (var("y", tensor(8, 64)),))))) > kernel
    double = var("x", TensorType("double", (8, 64)))
    assert price(make("Mul", (double, make("Sigmoid", (double,))))) > kernel


@pytest.mark.parametrize("inverse", [False, True])
def test_a_root_mean_square_in_parts_is_simplified_layer_normalization(inverse: bool) -> None:
    graphs, x, one = Graphs(), var("x", tensor(2, 4, 64)), make("Ones", (), {"shape": ()})
    mean = make("ReduceMean", (make("Pow", (x, graphs.const())),), {"axes": (-1,), "keepdims": 1})
    root = make("Sqrt", (make("Add", (mean, graphs.const())),))
    normed = make("Mul", (make("Div", (one, root)), x)) if inverse else make("Div", (x, root))
    scale = graphs.const(64)
    kernel = make("SimplifiedLayerNormalization", (x, scale), {"axis": -1, "epsilon": 1e-5})
    assert price(make("Mul", (scale, normed))) == price(kernel)
    assert price(make("Mul", (scale, normed)), root) > price(kernel)  # another user: it stays as it is
    assert price(make("Mul", (graphs.const(4, 64), normed))) > price(kernel)


def test_neutral_operators_are_free_but_counted() -> None:
    x = image()
    relu = make("Relu", (x,))
    same = make("Identity", (make("Add", (relu, make("Zeros", (), {"shape": ()}))),))
    assert price(same) == price(relu)
    assert GraphCost(ANALYTIC).price([same]) > GraphCost(ANALYTIC).price([relu])


def test_a_shared_term_is_paid_once() -> None:
    relu = make("Relu", (image(),))
    assert price(make("Sigmoid", (relu,)), relu) == pytest.approx(price(make("Sigmoid", (relu,))))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.sampled_from([1, 3]), st.integers(0, 3))
def test_the_incremental_price_is_the_price_of_the_result(branches: int, scale: bool, kernel: int, steps: int) -> None:
    outputs: tuple[Term, ...] = (Graphs().mobileone(image(), 8, kernel, 8, branches, scale),)
    costs, matcher = GraphCost(ANALYTIC), Matcher(RuleIndex(RULES))
    for step in range(steps + 1):
        graph = IncrementalCost(costs, GraphIndex(outputs))
        matches = list(matcher.matches(graph.index))
        for match in matches:
            result = replace(outputs, dict(zip(match.roots, match.results, strict=True)))
            assert graph.price(match.roots, match.results) == costs.price(result)
        if matches:
            chosen = matches[(7 * step) % len(matches)]
            outputs = replace(outputs, dict(zip(chosen.roots, chosen.results, strict=True)))


@cache
def shipped() -> Matcher:
    return Matcher(RuleIndex(load_rules()))


def transformer_block(x: Term) -> Term:
    """Return a block with operators that the runtime fuses, and some that it does not because values are used twice."""
    graphs = Graphs()
    ones, divisor, half = make("Ones", (), {"shape": ()}), graphs.const(), graphs.const()
    projected = make("Add", (make("MatMul", (x, graphs.const(8, 8))), graphs.const(8)))
    norm = {"axis": -1, "epsilon": 1e-5}
    y = make("LayerNormalization", (make("Add", (projected, x)), graphs.const(8), graphs.const(8)), norm)
    z = make("Add", (y, graphs.const(8)))
    erf = make("Add", (make("Erf", (make("Div", (z, divisor)),)), ones))
    gelu = make("Mul", (make("Mul", (z, erf)), half))
    silu = make("Mul", (gelu, make("Sigmoid", (gelu,))))
    mean = make("ReduceMean", (make("Pow", (silu, graphs.const())),), {"axes": (-1,), "keepdims": 1})
    inverse = make("Div", (ones, make("Sqrt", (make("Add", (mean, graphs.const())),))))
    normed = make("Mul", (graphs.const(8), make("Mul", (silu, inverse))))
    scaled = make("Mul", (make("MatMul", (normed, graphs.const(8, 8))), half))
    both = make("Add", (make("Add", (scaled, y)), make("Relu", (make("Relu", (projected,)),))))
    return make("LayerNormalization", (both, graphs.const(8), graphs.const(8)), norm)


@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 10**6), max_size=6), st.booleans())
def test_the_incremental_price_is_exact_where_kernels_change(choices: list[int], twice: bool) -> None:
    x = var("x", tensor(2, 4, 8))
    outputs: tuple[Term, ...] = (transformer_block(transformer_block(x)) if twice else transformer_block(x),)
    costs = GraphCost(ANALYTIC)
    for choice in [*choices, 0]:
        graph = IncrementalCost(costs, GraphIndex(outputs))
        matches = list(shipped().matches(graph.index))
        for match in matches:
            result = replace(outputs, dict(zip(match.roots, match.results, strict=True)))
            estimated, exact = graph.price(match.roots, match.results), costs.price(result)
            # Terms above the roots that come to equal others are counted twice.
            assert estimated == exact if estimated.nodes == exact.nodes else estimated.nodes > exact.nodes
        chosen = matches[choice % len(matches)]
        outputs = replace(outputs, dict(zip(chosen.roots, chosen.results, strict=True)))


def test_a_faster_device_costs_less() -> None:
    conv = Graphs().conv(image(), 3, 8)
    fast = Device(dense=1e13, scalar=1e13, bandwidth=1e12, overhead=1e-7)
    assert AnalyticCost(fast).cost(conv) < AnalyticCost(CPU).cost(conv)
    assert AnalyticCost(CPU, threads=4).cost(conv) < AnalyticCost(CPU).cost(conv)


@pytest.mark.parametrize("provider", ["cpu", "cuda"])
def test_operators_of_all_kinds_can_be_measured(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The models that are timed on a GPU run on the CPU as well, with one input and one output for each type."""

    def on_cpu(
        models: Sequence[TimedModel], target: Target, count: int, sample_s: float
    ) -> list[list[tuple[float, float]]]:
        if provider == "cuda":
            assert all(len(model.feeds) == 1 and feed.ndim == 1 for model in models for feed in model.feeds.values())
            whole, rest = (_count(model.model, "Slice") for model in models)
            extra_slices.add(whole - rest)
        return sample_times(models, Target("cpu", 1), count, sample_s)

    extra_slices: set[int] = set()
    monkeypatch.setattr(operator_timer, "sample_times", on_cpu)
    graphs = Graphs()
    x, m = image(4, 6), var("m", tensor(3, 4))
    gemm = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
    terms = [
        graphs.norm(x),
        make("Concat", (x, x), {"axis": -3}),
        make("Split", (x,), {"axis": -3, "split": (1, 3)}),
        make("Slice", (x,), {"axes": (-1,), "starts": (1,), "ends": (3,), "steps": (1,)}),
        make("Transpose", (x,), {"perm": (0, 2, 3, 1)}),
        make("Pad", (x,), {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}),
        make("Squeeze", (x,), {"axes": (-4,)}),
        make("Unsqueeze", (x,), {"axes": (-1,)}),
        make("ReduceSum", (x,), {"axes": (-1,), "keepdims": 1}),
        make("Gemm", (m, graphs.const(5, 4), graphs.const(5)), gemm),
        make("MatMul", (m, m_t := var("n", tensor(4, 3)))),
        make("Mul", (m, m)),
        make("Sum", (m, m, m)),
        make("Sub", (m, graphs.const())),
        make("Add", (m, make("Zeros", (), {"shape": (3, 4)}))),
    ]
    assert m_t.type is not None
    timer = OperatorTimer(Target(provider, 1), 17, ResultStore(tmp_path / "store.sqlite"), ANALYTIC)
    assert all(0 < timer.seconds(isolated(term, {})) < 0.1 for term in terms)
    assert provider == "cpu" or extra_slices == {0, 12}  # only copies of the Slice itself


def _count(model: RunnableModel, op: str) -> int:
    assert isinstance(model, onnx.ModelProto)
    return sum(node.op_type == op for node in model.graph.node)


def test_operators_that_would_fill_the_memory_are_not_measured(tmp_path: Path) -> None:
    timer = OperatorTimer(Target("cpu", 1), 17, ResultStore(tmp_path / "store.sqlite"), ANALYTIC)
    large = make("Mul", (Graphs().const(512, 1280, 1, 1), image(1280, 28)))
    with pytest.raises(Unmeasurable, match="bytes"):
        timer.seconds(isolated(large, {}))


def test_regions_are_timed_as_models(tmp_path: Path) -> None:
    graphs = Graphs()
    x = image(8, 28)
    slow, fast = graphs.repvgg(x, 8), make("Relu", (graphs.conv(x, 3, 8),))
    rng = np.random.default_rng(0)
    weights = {}
    for k in range(1, 40):
        weights[f"c{k}"] = rng.random(tuple(_shapes(slow, fast).get(f"c{k}", (1,)))).astype(np.float32)
    timer = ModelTimer(Target("cpu", 1), weights, budget_s=0.1)
    gain = timer((slow,), (fast,))
    assert gain is not None and gain.ratio > 1 and 0 < gain.low <= gain.ratio


@pytest.mark.parametrize(("columns", "sample_s"), [(64, 0.01), (8192, 0.05)])
def test_samples_are_longer_where_weights_are_fetched_anew(
    monkeypatch: pytest.MonkeyPatch, columns: int, sample_s: float
) -> None:
    heard: list[float] = []

    def listening(*models: object, sample_s: float, **options: object) -> Timing:
        heard.append(sample_s)
        return Timing(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1, "cpu")

    monkeypatch.setattr("superopt.search.cost.region_timer.time_pair", listening)
    weight = Term.of("Const", (), {"hash": "w"}, (tensor(512, columns),))
    product = make("MatMul", (var("x", tensor(1, 512)), weight))
    weights = {"w": np.ones((512, columns), np.float32)}
    assert ModelTimer(Target("cpu", 1), weights)((product,), (product,)) is not None
    assert heard == [sample_s]


def test_products_of_large_weights_are_not_computed_to_time_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[TimedModel] = []

    def listening(before: TimedModel, after: TimedModel, *_: object, **options: object) -> Timing:
        timed.extend((before, after))
        return Timing(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1, "cpu")

    monkeypatch.setattr("superopt.search.cost.region_timer.time_pair", listening)
    monkeypatch.setattr("superopt.search.cost.region_timer._MAX_FOLDING_SECONDS", 0.0)
    shapes = {"a": (4, 8), "b": (8, 4)}
    a, b = (Term.of("Const", (), {"hash": name}, (tensor(*shape),)) for name, shape in shapes.items())
    unknown = {name: np.full(shape, np.nan, np.float32) for name, shape in shapes.items()}
    x = var("x", tensor(1, 4))
    before, after = make("MatMul", (make("MatMul", (x, a)), b)), make("MatMul", (x, make("MatMul", (a, b))))
    assert ModelTimer(Target("cpu", 1), unknown)((before,), (after,)) is not None
    protos = [one.model for one in timed if isinstance(one.model, onnx.ModelProto)]
    assert [[node.op_type for node in proto.graph.node].count("MatMul") for proto in protos] == [2, 1]
    weights = [onnx.numpy_helper.to_array(tensor) for tensor in protos[1].graph.initializer]
    (product,) = (weight for weight in weights if weight.shape == (4, 4))
    assert np.isfinite(product).all()


def _shapes(*outputs: Term) -> dict[str, tuple[int, ...]]:
    shapes = {}
    for term in GraphIndex(outputs).position:
        if term.op == "Const":
            assert term.type is not None
            shapes[str(term.attr("hash"))] = term.type.concrete() or ()
    return shapes


def test_a_region_that_cannot_run_by_itself_is_not_timed() -> None:
    x = var("x", TensorType("float", (symbol("n"), 4)))
    timer = ModelTimer(Target("cpu", 1), {})
    assert timer((make("Relu", (x,)),), (make("Relu", (x,)),)) is None
    sized = ModelTimer(Target("cpu", 1), {}, sizes={"n": 2}, budget_s=0.05)
    assert sized((make("Relu", (x,)),), (make("Relu", (x,)),)) is not None


def test_sizes_must_be_known_and_positive() -> None:
    assert concrete(TensorType("float", (symbol("n") + 1, 2)), {"n": 3}) == tensor(4, 2)
    for type in (None, TensorType("float", None), TensorType("float", (symbol("n"),)), tensor(0, 3)):
        with pytest.raises(Unmeasurable):
            concrete(type, {})
