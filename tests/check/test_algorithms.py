"""Algorithms for an operator (Winograd convolution) in one of the models: rules bring them into the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from superopt.check.equality import joined, prove_equal
from superopt.ir.pattern import Bindings
from superopt.ir.rule import Rule
from superopt.ir.term import Attr, topological
from superopt.onnx_io import read_simplified
from superopt.optimizer import optimize
from superopt.optimizer.model_search import FoundRewrites, SearchRequest
from superopt.search import AnalyticCost, search
from tests.support.models import floats, model, weights

ATTRIBUTES = {"dilations": [1, 1], "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}


def convolutions() -> onnx.ModelProto:
    """Two Convs with kernels of 3 x 3, of images of 10 x 9, with 8 and with 4 channels."""
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["first"], **ATTRIBUTES),
        helper.make_node("Relu", ["first"], ["positive"]),
        helper.make_node("Conv", ["positive", "v"], ["y"], **ATTRIBUTES),
    ]
    given = [("w", weights(8, 4, 3, 3, seed=1)), ("b", weights(8, seed=2)), ("v", weights(4, 8, 3, 3, seed=3))]
    return model(nodes, [floats("x", 2, 4, 10, 9)], [floats("y", 2, 4, 10, 9)], given)


class Chosen:
    """The gains of the algorithm with tiles of so many rows, for kernels of so many channels."""

    def __init__(self, rows: Callable[[int], int]) -> None:
        self._rows = rows

    def expected_ps(self, rule: Rule, bindings: Bindings) -> int:
        return 1

    def measured(self, rule: Rule, bindings: Bindings) -> float:
        strides = {term.attr("strides") for term in topological(rule.rhs) if term.op == "ConvTranspose"}
        kernel = bindings.terms["w"].type
        assert kernel is not None and kernel.shape is not None and isinstance(kernel.shape[1], int)
        wanted: Attr = (self._rows(kernel.shape[1]),) * 2
        return 2.0 * (wanted in strides)


def with_algorithms(rows: Callable[[int], int]) -> onnx.ModelProto:
    def finder(request: SearchRequest) -> FoundRewrites:
        found = search(
            request.model.outputs, request.rules, request.proofs.check, AnalyticCost(), position={}, efforts=0,
            algorithm_gains=Chosen(rows),
        )  # fmt: skip
        return FoundRewrites(found.traces)

    result = optimize(convolutions(), ep="cpu", quick=True, finder=finder)
    assert result.changed and result.proto is not None
    return result.proto


@pytest.mark.parametrize("rows", [lambda channels: 2, lambda channels: 2 if channels == 4 else 4])
def test_an_algorithm_is_the_operator(rows: Callable[[int], int]) -> None:
    pair = joined(read_simplified(convolutions()), read_simplified(with_algorithms(rows)))
    found = prove_equal(*pair, seconds=60)
    assert found.outputs == (True,) and found.certificate is not None


def test_an_algorithm_with_another_weight_is_another_operator() -> None:
    changed = with_algorithms(lambda channels: 2)
    weight = next(one for one in changed.graph.initializer if len(one.dims) == 4 and one.dims[0] % 16 == 0)
    values = np.array(numpy_helper.to_array(weight))
    values[0, 0] *= 1.001
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    pair = joined(read_simplified(convolutions()), read_simplified(changed))
    assert prove_equal(*pair, seconds=8).outputs == (False,)
