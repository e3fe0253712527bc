"""The validator: results that lose digits are refused, and what the runtime breaks is no standard."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from superopt.optimizer import validator as validator_module
from superopt.optimizer.options import Options
from superopt.optimizer.original import open_original
from superopt.optimizer.source import Source
from superopt.optimizer.validator import Validator
from superopt.runtime import CannotRun, Session, Target, open_session, sessions
from tests.support.models import floats, model

node = helper.make_node
RNG = np.random.default_rng(0)
W = RNG.standard_normal((32, 64)).astype(np.float32)
MEAN, STD = RNG.uniform(5e5, 2e6, 32).astype(np.float32), RNG.uniform(1, 5, 32).astype(np.float32)


def affine(nodes: list[onnx.NodeProto], **constants: np.ndarray) -> onnx.ModelProto:
    return model(nodes, [floats("x", 16, 32)], [onnx.ValueInfoProto(name="y")], list(constants.items()))


def problem(original: onnx.ModelProto, candidate: onnx.ModelProto, **options: Any) -> str | None:
    validator = Validator(Source(original), Target(), Options(**options))
    return validator.compare(candidate.SerializeToString())[0].problem


def standardized() -> onnx.ModelProto:
    nodes = [node("Sub", ["x", "mean"], ["c"]), node("Div", ["c", "std"], ["s"]), node("MatMul", ["s", "w"], ["y"])]
    return affine(nodes, mean=MEAN, std=STD, w=W)


def test_distributing_over_a_difference_is_refused() -> None:
    wide = W.astype(float) / STD.astype(float)[:, None]
    folded = {"v": wide.astype(np.float32), "c": (MEAN.astype(float) @ wide).astype(np.float32)}
    distributed = affine([node("MatMul", ["x", "v"], ["p"]), node("Sub", ["p", "c"], ["y"])], **folded)
    assert "against float64" in str(problem(standardized(), distributed))
    scaled = affine([node("Sub", ["x", "mean"], ["c"]), node("MatMul", ["c", "v"], ["y"])], mean=MEAN, v=folded["v"])
    assert problem(standardized(), scaled) is None


def test_a_variance_as_a_difference_of_squares_is_refused() -> None:
    mean = node("ReduceMean", ["x"], ["m"], axes=[1])
    stable = [
        mean,
        node("Sub", ["x", "m"], ["c"]),
        node("Mul", ["c", "c"], ["d"]),
        node("ReduceMean", ["d"], ["y"], axes=[1]),
    ]
    squares = [mean, node("Mul", ["x", "x"], ["q"]), node("ReduceMean", ["q"], ["e"], axes=[1]),
               node("Mul", ["m", "m"], ["n"]), node("Sub", ["e", "n"], ["y"])]  # fmt: skip
    assert problem(affine(stable), affine(squares)) is not None
    assert problem(affine(squares), affine(stable)) is None
    assert problem(affine(squares), affine(squares)) is None


def test_other_classes_are_refused() -> None:
    def classes(nodes: list[onnx.NodeProto], **constants: np.ndarray) -> onnx.ModelProto:
        return affine([*nodes, node("ArgMax", ["s"], ["y"], axis=1, keepdims=0)], **constants)

    scores = node("MatMul", ["x", "w"], ["s"])
    original, other = classes([scores], w=W), classes([scores], w=W * np.float32(1.0001))
    assert problem(original, other) is None
    changed = W.copy()
    changed[:, 0] += 1
    assert "int64 values differ" in str(problem(original, classes([scores], w=changed)))


def test_a_candidate_must_run_without_optimizations_too() -> None:
    """Both levels are compared, because the runtime's optimizer may hide a fault."""
    validator = Validator(Source(standardized()), Target(), Options())
    first = validator.feeds[0]
    assert first["x"].shape == (16, 32)
    comparison, accuracies = validator.compare(standardized().SerializeToString())
    assert comparison.ok and len(accuracies) == len(validator.feeds)
    kinds = [one.kind for one in accuracies]
    assert {"random", "around constants", "offset", "large", "small"} == set(kinds)
    assert all(one.no_reference is None and one.original == one.result for one in accuracies)


def test_without_time_only_what_differs_is_evaluated_in_float64() -> None:
    validator = Validator(Source(standardized()), Target(), Options())
    first, *others = validator.compare(standardized().SerializeToString(), references_s=0)[1]
    assert first.no_reference is None
    assert {one.no_reference for one in others} == {"not computed in the time of the run"}

    exact = affine([node("Neg", ["x"], ["n"]), node("Neg", ["n"], ["y"])])
    other = affine([node("Mul", ["x", "two"], ["d"]), node("Sub", ["d", "x"], ["s"]), node("Identity", ["s"], ["y"])],
                   two=np.array(2, np.float32))  # fmt: skip
    validator = Validator(Source(exact), Target(), Options())
    assert validator.compare(other.SerializeToString(), references_s=0)[0].ok
    wrong = affine([node("Mul", ["x", "c"], ["y"])], c=np.array(1.001, np.float32))
    assert "against float64" in str(validator.compare(wrong.SerializeToString(), references_s=0)[0].problem)


def test_an_original_that_the_runtimes_optimizer_breaks() -> None:
    """Cast, Div and Mul: ONNX Runtime 1.31 runs them unoptimized only. If a later one runs them, there is no notice."""
    nodes = [
        node("Cast", ["x"], ["mid"], to=TensorProto.FLOAT),
        node("Div", ["one", "d"], ["q"]),
        node("Mul", ["q", "mid"], ["y"]),
    ]
    broken = affine(nodes, one=np.array(1, np.float32), d=np.ones((16, 32), np.float32))
    validator = Validator(Source(broken), Target(), Options())
    sound = affine([node("Abs", ["x"], ["a"]), node("Sign", ["x"], ["s"]), node("Mul", ["a", "s"], ["y"])])
    assert validator.compare(sound.SerializeToString())[0].ok
    assert len([notice for notice in validator.notices if "optimizer breaks the original" in notice]) <= 1


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_other_real_types(dtype: int) -> None:
    numbers = helper.tensor_dtype_to_np_dtype(dtype)

    def product(scale: float) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", dtype, [16, 32])]
        values = [("w", W.astype(numbers)), ("s", np.array(scale, numbers))]
        nodes = [node("MatMul", ["x", "w"], ["p"]), node("Mul", ["p", "s"], ["y"])]
        return model(nodes, inputs, [onnx.ValueInfoProto(name="y")], values)

    u = float(np.finfo(numbers).eps)
    assert problem(product(1.0), product(1.0)) is None
    assert problem(product(1.0), product(1 + 30 * u)) is not None


def test_random_models_are_compared_without_a_reference() -> None:
    nodes = [node("RandomNormalLike", ["x"], ["r"]), node("Sub", ["r", "r"], ["z"]), node("Add", ["x", "z"], ["y"])]
    validator = Validator(Source(affine(nodes)), Target(), Options())
    comparison, accuracies = validator.compare(affine(nodes).SerializeToString())
    assert comparison.ok
    assert all(one.no_reference == "operator RandomNormalLike" for one in accuracies)


@pytest.mark.parametrize("thorough", [True, False])
def test_a_model_that_draws_numbers_is_told_of(thorough: bool) -> None:
    """Also in quick runs, which run no model without optimizations; a candidate is then refused for these numbers."""
    nodes = [node("RandomNormalLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])]
    validator = Validator(Source(affine(nodes)), Target(), Options(), thorough=thorough, plain=thorough)
    validator.complete()
    assert any("draws random numbers" in notice for notice in validator.notices)


@pytest.mark.parametrize("error", [1e-4, 1e-2])
def test_on_cuda_a_candidate_must_be_accurate_in_tf32_too(error: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU stands for a GPU with products in TF32, whose errors are 1e-4 in the original, `error` in the result."""

    class Rounding:
        def __init__(self, session: Session, size: float) -> None:
            self.session, self.size = session, size

        def run(self, feeds: dict[str, Any]) -> list[Any]:
            return [
                x * (1 + self.size * RNG.standard_normal(x.shape)).astype(np.float32) for x in self.session.run(feeds)
            ]

    def opened(size: float) -> Any:
        def open_one(model: Any, target: Target, *level: str, **options: str) -> Any:
            session = (open_original if isinstance(model, Source) else open_session)(model, target, *level, **options)
            return Rounding(session, size) if target.rounds_operands else session

        return open_one

    monkeypatch.setitem(sessions._PROVIDERS, "cuda", "CPUExecutionProvider")
    monkeypatch.setattr(validator_module, "open_original", opened(1e-4))
    monkeypatch.setattr(validator_module, "open_session", opened(error))
    candidate = affine([node("MatMul", ["x", "w"], ["y"])], w=W)
    validator = Validator(Source(candidate), Target("cuda"), Options())
    comparison, accuracies = validator.compare(candidate.SerializeToString())
    assert accuracies[-1].kind == "TF32"
    if error == 1e-4:
        assert comparison.problem is None and comparison.relative < 1e-6  # in float32
    else:
        assert "TF32" in str(comparison.problem)


def test_an_attempt_that_fails_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the inputs are no standard: a comparison runs the original on all of them, or is none."""
    whole = Validator(Source(standardized()), Target(), Options())
    validator = Validator(Source(standardized()), Target(), Options())
    draw = Validator._draw

    def fails_at_the_second(self: Validator, shapes: Any, values: Any, index: int = 0) -> Any:
        if index:
            raise CannotRun("interrupted")
        return draw(self, shapes, values, index)

    with monkeypatch.context() as patch:
        patch.setattr(Validator, "_draw", fails_at_the_second)
        with pytest.raises(CannotRun):
            validator.compare(standardized().SerializeToString())
    _, accuracies = validator.compare(standardized().SerializeToString())
    assert [one.kind for one in accuracies] == [
        one.kind for one in whole.compare(standardized().SerializeToString())[1]
    ]
