"""Models of PyTorch: `optimize`, and the backend of `torch.compile`. Skipped where PyTorch is not installed."""

from __future__ import annotations

import copy
import importlib
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import superopt
from superopt.onnx_io import ModelError

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")
backend = importlib.import_module("superopt.pytorch").backend


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def _mlp() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval()


class _Function(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.forward = function


def _agree(module: Any, *calls: tuple[Any, ...], **options: Any) -> list[str]:
    """Check that compiled and eager outputs, and the inputs after it, agree; return the backend's warnings."""
    compiled = torch.compile(copy.deepcopy(module), backend=backend, options=options)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for args in calls:
            ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
            torch.manual_seed(1)
            expected = module(*theirs)
            torch.manual_seed(1)
            torch.testing.assert_close(compiled(*ours), expected, rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(ours, theirs)
    return [str(w.message) for w in caught if str(w.message).startswith("superopt:")]


@pytest.mark.slow
def test_optimize_takes_a_module_and_a_program() -> None:
    x = torch.randn(2, 8)
    module = _mlp()
    result = superopt.optimize(module, example_inputs=(x,), quick=True, ep="cpu")
    program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    assert result.proto is not None
    assert superopt.optimize(program, quick=True, ep="cpu").operators_before == result.operators_before


@pytest.mark.slow
def test_a_dict_at_the_end_of_the_inputs_holds_keyword_arguments() -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: Any, *, by: Any) -> Any:
            return x * by["factor"]

    x, factor = torch.randn(2), torch.randn(2)
    result = superopt.optimize(Scaled().eval(), example_inputs=(x, {"by": {"factor": factor}}), quick=True, ep="cpu")
    assert result.proto is not None and len(result.proto.graph.input) == 2


def test_optimize_says_what_a_module_needs() -> None:
    with pytest.raises(ModelError, match="needs example inputs"):
        superopt.optimize(_mlp(), quick=True)
    with pytest.raises(ModelError, match="cannot export"):
        superopt.optimize(_mlp(), example_inputs=(torch.randn(2, 7),), quick=True)


@pytest.mark.slow
def test_graphs_agree_at_several_sizes() -> None:
    assert (
        _agree(_mlp(), (torch.randn(3, 8),), (torch.randn(5, 8),), (torch.randn(8, 3).t(),), (torch.randn(7, 8),)) == []
    )


@pytest.mark.slow
def test_convolutions_agree() -> None:
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.Flatten()
    assert _agree(torch.nn.Sequential(*layers).eval(), (torch.randn(1, 3, 8, 8),)) == []


@pytest.mark.slow
def test_structures_and_graph_breaks_agree() -> None:
    def forward(x: Any) -> Any:
        y = x * 2 if x.sum() > 0 else x - 1
        return {"y": y + 1, "rest": (y.t() @ y, [y.argmax(1)])}

    assert _agree(_Function(forward), (torch.ones(3, 4),), (-torch.ones(3, 4),)) == []


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda x: x.add_(1) * 2, "writes to its inputs"),
        (lambda x: (x.view(-1), x + 1), "shares memory"),
        (lambda x: torch.nn.functional.dropout(x), "random numbers"),
        (lambda x: torch.cond(x.norm() > 0, lambda x: x + 1, torch.nn.functional.dropout, (x,)), "random numbers"),
        (lambda x: torch.linalg.eigvals(x @ x.t()).abs().sum(), "cannot"),
    ],
)
def test_other_graphs_run_in_pytorch_after_one_warning(forward: Any, reason: str) -> None:
    x = torch.randn(3, 4)
    (warning,) = _agree(_Function(forward), (x,), (x,))
    assert reason in warning


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [False, True])
def test_changed_weights_are_seen(frozen: bool) -> None:
    module, x = _mlp(), torch.randn(3, 8)
    compiled = torch.compile(module, backend=backend, options={"frozen": frozen})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), module(x))
        module[0].weight.mul_(2)
        torch.testing.assert_close(compiled(x), module(x))
        if not frozen:
            module[2].weight.data[0, 0] = 5
            torch.testing.assert_close(compiled(x), module(x))


def test_gradients_are_pytorch_s() -> None:
    module, x = _mlp(), torch.randn(3, 8)
    with pytest.warns(UserWarning, match="gradients"):
        torch.compile(module, backend=backend)(x).sum().backward()
    assert module[0].weight.grad is not None


def test_gradients_that_a_graph_records_by_itself_are_kept() -> None:
    linear = torch.nn.Linear(4, 4)

    def forward(x: Any) -> Any:
        with torch.enable_grad():
            return linear(x)

    with torch.no_grad(), pytest.warns(UserWarning, match="records gradients"):
        y = torch.compile(_Function(forward), backend=backend)(torch.randn(2, 4))
    y.sum().backward()
    assert linear.weight.grad is not None


@pytest.mark.slow
def test_empty_inputs_agree() -> None:
    assert _agree(_mlp(), (torch.randn(0, 8),)) == []


@pytest.mark.slow
def test_threads_that_call_at_once_share_a_session() -> None:
    x = torch.randn(3, 8)
    graph = backend(torch.fx.symbolic_trace(lambda x: torch.relu(x @ x.t())), [x])
    with warnings.catch_warnings(), ThreadPoolExecutor(10) as threads:
        warnings.filterwarnings("error", message="superopt:")
        for y in threads.map(graph, [x] * 10):
            torch.testing.assert_close(y, torch.relu(x @ x.t()), rtol=1e-3, atol=1e-5)
    assert graph._made == 1


def test_options_are_checked() -> None:
    with pytest.raises(Exception, match="leave out the option target"):
        torch.compile(_mlp(), backend=backend, options={"target": "openvino"})(torch.randn(3, 8))
    with pytest.raises(Exception, match="unknown option of the superopt backend: speed"):
        torch.compile(_mlp(), backend=backend, options={"speed": 1})(torch.randn(3, 8))
