"""Models that are simplified while they are read."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import parser

from superopt.onnx_io import read_simplified, write_model
from superopt.onnx_io.subgraphs import all_nodes
from tests.support.runtime_oracle import assert_equal, session

__all__ = ["parsed", "simplified"]


def parsed(body: str, opset: int = 17) -> onnx.ModelProto:
    """Return the model of this text."""
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {body}')


def simplified(model: onnx.ModelProto, *feeds: dict[str, np.ndarray]) -> list[str]:
    """Return the operators that are left, after comparing outputs on each of `feeds`."""
    before = model.SerializeToString()
    written = write_model(read_simplified(model))
    assert model.SerializeToString() == before
    assert list(written.graph.input) == list(model.graph.input)
    assert list(written.graph.output) == list(model.graph.output)
    onnx.checker.check_model(written)
    for feed in feeds:
        assert_equal(session(written).run(None, feed), session(model).run(None, feed))
    return [node.op_type for node in all_nodes(written.graph)]
