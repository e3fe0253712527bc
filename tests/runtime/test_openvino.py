"""OpenVINO as the second runtime: the same values as ONNX Runtime, one-line failures, whole runs, and its absence."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest

import superopt
from superopt.optimizer import Options
from superopt.runtime import (
    CannotRun,
    RuntimeUnavailable,
    Target,
    TimedModel,
    compare,
    installed,
    open_session,
    resolve_target,
    time_pair,
    versions,
)
from superopt.runtime.compare import Tolerance
from tests.support.models import floats, lora, model

openvino = pytest.importorskip("openvino")

OPENVINO = Target("openvino", 1)


def inputs(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    shapes = {value.name: [d.dim_value or 3 for d in value.type.tensor_type.shape.dim] for value in proto.graph.input}
    return {name: np.random.default_rng(0).normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def foreign() -> onnx.ModelProto:
    """A model with an operator that nobody has."""
    node = onnx.helper.make_node("Foreign", ["x"], ["y"], domain="nobody")
    return model([node], [floats("x", 2)], [floats("y", 2)])


@pytest.mark.parametrize("as_file", [False, True])
def test_same_values_as_onnx_runtime(as_file: bool, tmp_path: Path) -> None:
    proto = lora()
    given: onnx.ModelProto | Path = proto
    if as_file:
        onnx.save(proto, tmp_path / "m.onnx")
        given = tmp_path / "m.onnx"
    session = open_session(given, OPENVINO)
    assert session.input_names == [value.name for value in proto.graph.input]
    assert session.output_names == [value.name for value in proto.graph.output]
    theirs, ours = (open_session(proto, target).run(inputs(proto)) for target in (Target(), OPENVINO))
    assert compare(theirs, ours, Tolerance(depth=10, length=1000)).ok


def test_outputs_in_bfloat16_are_read_as_such() -> None:
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BFLOAT16, [3]) for name in "xy")
    proto = model([onnx.helper.make_node("Abs", ["x"], ["y"])], [x], [y])
    values = np.array([-1.5, 2.0, 3e30], ml_dtypes.bfloat16)
    (found,) = open_session(proto, OPENVINO).run({"x": values})
    assert found.dtype == values.dtype and (found == np.abs(values)).all()


def test_failures_are_one_line() -> None:
    with pytest.raises(CannotRun) as caught:
        open_session(b"no model", OPENVINO)
    assert "\n" not in str(caught.value)
    with pytest.raises(CannotRun) as caught:
        open_session(foreign(), OPENVINO)
    assert "\n" not in str(caught.value) and "src/" not in str(caught.value) and "nobody.Foreign" in str(caught.value)
    session = open_session(lora(), OPENVINO)
    with pytest.raises(CannotRun):
        session.run({session.input_names[0]: np.zeros((1, 2, 3, 4, 5), np.float32)})


def test_timing_and_clock() -> None:
    assert OPENVINO.clock == "cpu" and Target("openvino", 2).clock == "wall"
    timed = TimedModel(lora(), inputs(lora()))
    timing = time_pair(timed, timed, OPENVINO, budget_s=0.05, sample_s=1e-4)
    assert timing.before > 0 and timing.after > 0 and timing.clock == "cpu"


def test_target() -> None:
    assert resolve_target("auto", 2, "openvino") == Target("openvino", 2)
    assert versions("openvino")["openvino"] and "onnxruntime" not in versions("openvino")
    with pytest.raises(ValueError, match="OpenVINO runs on the CPU"):
        Options(target="openvino", ep="cuda")
    options = Options(target="openvino", timeout=10.0)
    assert (options.as_run().cost, options.as_run().domains) == ("analytic", "onnx") and options.budget_s < 10


def test_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "find_spec", lambda _: None)
    with pytest.raises(RuntimeUnavailable, match=r"pip install 'superopt\[openvino\]'"):
        resolve_target("auto", 1, "openvino")


def test_a_whole_run() -> None:
    """The result is compared and timed in OpenVINO, and has operators of ONNX only."""
    result = superopt.optimize(lora(), target="openvino", budget=2.0, remeasure=True)
    assert result.provider == "openvino" and "openvino" in result.versions
    assert result.difference is not None and result.latency is not None
    assert result.proto is not None and {node.domain for node in result.proto.graph.node} <= {"", "ai.onnx"}


def test_a_model_that_it_cannot_run_is_kept() -> None:
    result = superopt.optimize(foreign(), target="openvino", budget=1.0)
    assert not result.changed and result.reason.startswith("the original cannot be run here")
    assert result.reason.endswith("; another --ep or --target may have its operators")  # --cost does not help
