"""Sizes that no shape inference finds are found by running the model."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

from superopt.ir.dim import Dim
from superopt.ir.term import topological
from superopt.optimizer.source import Source
from superopt.optimizer.symbol_sizes import symbol_sizes
from superopt.runtime import Target
from tests.support.models import floats, model

CPU = Target("cpu", 1)


def of_nonzero() -> onnx.ModelProto:
    """Relu of the values at the places of numbers other than 0: as many as there are."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Squeeze", ["places", "first"], ["ids"]),
        helper.make_node("Gather", ["x", "ids"], ["some"]),
        helper.make_node("Relu", ["some"], ["y"]),
    ]
    proto = model(nodes, [floats("x", "n")], [floats("y", "k")])
    proto.graph.initializer.append(numpy_helper.from_array(np.array([0]), "first"))
    return proto


def unknown(source: Source, sizes: dict[str, int]) -> list[str]:
    types = [t for term in topological(source.terms.outputs) for t in term.types if t is not None]
    dims = [dim for type in types for dim in type.with_sizes(dict(sizes)).shape or ()]
    return [str(dim) for dim in dims if isinstance(dim, Dim)]


def test_sizes_that_depend_on_values_are_those_of_the_run() -> None:
    source = Source(of_nonzero())
    feeds = [{"x": np.array([0, 1, 2, 0], np.float32)}, {"x": np.ones(100, np.float32)}]
    shapes = [{"x": (4,)}, {"x": (100,)}]
    inferred = symbol_sizes(source, CPU, shapes, [])
    assert unknown(source, inferred[0])  # nobody can infer it
    for sizes, n, k in zip(symbol_sizes(source, CPU, shapes, feeds), (4, 100), (2, 100), strict=True):
        assert not unknown(source, sizes) and sizes["n"] == n and k in sizes.values()


def test_what_the_run_cannot_tell_stays_unknown() -> None:
    source = Source(of_nonzero())
    refused = symbol_sizes(source, CPU, [{"x": (4,)}], [{"x": np.ones((2, 2), np.float32)}])
    assert unknown(source, refused[0]) and refused[0]["n"] == 4


def test_a_rank_that_holds_for_some_sizes_only() -> None:
    """The file states two axes. Of a single row, the run leaves one."""
    squeeze = model([helper.make_node("Squeeze", ["x"], ["y"])], [floats("x", "n", 1, 3)], [floats("y", "a", "b")])
    source = Source(squeeze)
    feeds = [{"x": np.ones((n, 1, 3), np.float32)} for n in (1, 2)]
    one, two = symbol_sizes(source, CPU, [{"x": (1, 1, 3)}, {"x": (2, 1, 3)}], feeds)
    assert one["n"] == 1 and two == {"n": 2, "a": 2, "b": 3}
