"""Operators and regions that are measured: as models of their own, by a timer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from superopt.ir.dim import symbol
from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType, tensor
from superopt.runtime import RunnableModel, Target, TimedModel, Timing, sample_times
from superopt.search import ModelTimer
from superopt.search.cost import operator_timer
from superopt.search.cost.microbench import Unmeasurable, concrete
from superopt.search.cost.operator_form import isolated
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.search.match.graph_index import GraphIndex
from superopt.store import ResultStore
from tests.support.prices import ANALYTIC
from tests.support.search_graphs import Graphs, image


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
