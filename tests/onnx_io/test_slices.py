"""All slices of a short axis: as read and written, they select what ONNX Runtime selects for the original."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from superopt.onnx_io import read_model, read_simplified, write_model
from tests.support.runtime_oracle import session

SIZE = 5
FAR = (-(2**63), -(2**31), 2**31 - 1, 2**63 - 1)
RANGES = [
    *itertools.product(range(-7, 8), range(-7, 8), (-7, -2, -1, 1, 2, 7)),
    *((start, end, step) for start in (*FAR, -1, 0, 2) for end in (*FAR, -1, 0, 3) for step in (-2, -1, 1, 2)),
]


def model(ranges: list[tuple[int, int, int]], size: int | str) -> onnx.ModelProto:
    """A model with one Slice of x for each of `ranges`."""
    nodes, numbers = [], sorted({number for triple in ranges for number in triple} | {0})
    for k, triple in enumerate(ranges):
        start, end, step = (f"c{numbers.index(number)}" for number in triple)
        nodes.append(helper.make_node("Slice", ["x", start, end, f"c{numbers.index(0)}", step], [f"y{k}"]))
    graph = helper.make_graph(
        nodes,
        "slices",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [size])],
        [onnx.ValueInfoProto(name=f"y{k}") for k in range(len(ranges))],
        [numpy_helper.from_array(np.array([number]), f"c{k}") for k, number in enumerate(numbers)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("size", [SIZE, "n"])
def test_slices_are_written_as_they_were_read(size: int | str) -> None:
    original = model(RANGES, size)
    written = write_model((read_model if size == SIZE else read_simplified)(original))
    ours, theirs = session(written), session(original)
    for n in (SIZE,) if isinstance(size, int) else (1, SIZE):
        feeds = {"x": np.arange(n, dtype=np.float32)}
        for triple, was, now in zip(RANGES, theirs.run(None, feeds), ours.run(None, feeds), strict=True):
            np.testing.assert_array_equal(now, was, err_msg=str(triple))
