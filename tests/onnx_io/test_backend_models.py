"""All models that ship inside the onnx package: read, written back, and run against their expected outputs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from superopt.onnx_io import read_model, write_model
from tests.support.backend import CASES, LIGHT, assert_same, load_value
from tests.support.runtime_oracle import session

RUNTIME_REFUSES = (
    ort.capi.onnxruntime_pybind11_state.Fail,
    ort.capi.onnxruntime_pybind11_state.InvalidGraph,
    ort.capi.onnxruntime_pybind11_state.NotImplemented,
)


def assert_same_interface(written: onnx.ModelProto, model: onnx.ModelProto) -> None:
    # Before IR version 4 weights are listed as inputs; those that nothing reads may go.
    weights = {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    kept = {tensor.name for tensor in written.graph.initializer}
    assert list(written.graph.input) == [
        value for value in model.graph.input if value.name in kept or value.name not in weights
    ]
    assert list(written.graph.output) == list(model.graph.output)
    assert list(written.opset_import) == list(model.opset_import)
    assert written.ir_version == model.ir_version
    assert (written.producer_name, written.graph.name) == (model.producer_name, model.graph.name)


def said(model: onnx.ModelProto) -> list[tuple[Any, ...]]:
    """Describe the nodes without names and order, with weights by value."""
    weights = {t.name: repr(numpy_helper.to_array(t).tolist()) for t in model.graph.initializer}
    constants = {n.output[0]: n.attribute[0].t for n in model.graph.node if n.op_type == "Constant"}
    weights.update((name, repr(numpy_helper.to_array(t).tolist())) for name, t in constants.items())
    return sorted(
        (
            node.op_type,
            node.domain,
            tuple(weights.get(name, name) for name in node.input),
            tuple(node.output),
            tuple(sorted(attribute.SerializeToString() for attribute in node.attribute)),
        )
        for node in model.graph.node
        if node.op_type != "Constant"
    )


def test_all_models_are_there() -> None:
    assert len(CASES) + len(LIGHT) == 149


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_round_trip(case: Path) -> None:
    model = onnx.load(case / "model.onnx")
    written = write_model(read_model(case / "model.onnx"))
    assert_same_interface(written, model)
    try:
        session(model)
    except RUNTIME_REFUSES:  # operators of opset 6 and of the training domain, for which it has no kernel
        assert said(written) == said(model)
        return
    inputs = [load_value(path) for path in sorted(case.glob("test_data_set_0/input_*.pb"))]
    expected = [load_value(path) for path in sorted(case.glob("test_data_set_0/output_*.pb"))]
    runner = session(written)
    names = [value.name for value in runner.get_inputs()]
    got = runner.run(None, dict(zip(names, inputs, strict=True)))
    assert_same(got, expected, rtol=1e-3, atol=1e-7)


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node if node.op_type != "Constant")


def optimized(model: onnx.ModelProto, path: Path) -> Counter[str]:
    """Operators that ONNX Runtime ends up with, its own optimizations done."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(path)
    ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return operators(onnx.load(path))


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_light_round_trip(path: Path, tmp_path: Path) -> None:
    """Their weights are constants made at run time; the inputs are onnx's own dummy data.

    What is written must suit ONNX Runtime's optimizations as well as the original did: they match on attributes.
    """
    model = onnx.load(path)
    written = write_model(read_model(path))
    assert_same_interface(written, model)
    assert not operators(written) - operators(model)
    assert optimized(written, tmp_path / "written.onnx") == optimized(model, tmp_path / "model.onnx")
    original, runner = session(model), session(written)
    feeds = {
        value.name: (np.arange(np.prod(value.shape)).reshape(value.shape) / np.prod(value.shape)).astype(np.float32)
        for value in original.get_inputs()
    }
    got = runner.run(None, feeds)
    assert_same(got, original.run(None, feeds), rtol=0, atol=0)
    declared = [load_value(file) for file in sorted(path.parent.glob(f"{path.stem}_output_*.pb"))]
    assert_same(got, declared, rtol=1e-3, atol=1e-7)
