"""Forms that normalisations take in the opsets, and the one form that terms have."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.ir.infer import IllTyped, make
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, write_model
from tests.support.canonical_nodes import read, shown
from tests.support.runtime_oracle import session
from tests.support.simplified import parsed

EPSILON = float(np.float32(1e-5))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(
    ("opset", "shape", "attributes", "expected"),
    [
        (13, "2, 3, 4", "", "axis=-1"),
        (13, "2, 3, 4", "<axis = 1>", "axis=-2"),
        (13, "2, 3, 4", "<axis = -3>", "axis=-3"),
        # Before opset 13 the axes from `axis` on are one.
        (7, "2, 3", "", "axis=-1"),
        (7, "2, 3, 4", "", None),
        (7, "2, 3, 4", "<axis = 2>", "axis=-1"),
        (7, "2, 3, 1, 1", "", "axis=-3"),
        (11, "2, 1, 3", "<axis = -2>", "axis=-1"),
        (11, "2, 3, 1, 4", "<axis = 1>", None),
        (11, "1, 1, 1", "<axis = 0>", "axis=-1"),
    ],
)
def test_softmax(op: str, opset: int, shape: str, attributes: str, expected: str | None) -> None:
    text = shown(read(parsed(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = {op}{attributes}(x) }}", opset)))
    assert text.startswith(f"ai.onnx::{op} ") if expected is None else text == f"{op} {expected}"


def test_softmax_over_an_axis_in_the_middle_cannot_be_said_before_opset_13() -> None:
    term = make("Softmax", [var("x", tensor(2, 3, 4))], {"axis": -2})
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    (y,) = session(write_model(new_model([term], opset=13))).run(None, {"x": x})
    np.testing.assert_allclose(np.sum(y, axis=1), 1, rtol=1e-6)
    with pytest.raises(ModelError):
        write_model(new_model([term], opset=12))


@pytest.mark.parametrize(
    ("opset", "node", "expected"),
    [
        (7, "InstanceNormalization(x, c, c)", f"InstanceNormalization epsilon={EPSILON}"),
        (22, "InstanceNormalization<epsilon = 0.5>(x, c, c)", "InstanceNormalization epsilon=0.5"),
        (21, "GroupNormalization<num_groups = 2>(x, c, c)", f"GroupNormalization epsilon={EPSILON} num_groups=2"),
        (17, "LayerNormalization(x, w)", f"LayerNormalization axis=-1 epsilon={EPSILON}"),
        (17, "LayerNormalization(x, w, )", f"LayerNormalization axis=-1 epsilon={EPSILON}"),
        (17, "LayerNormalization<axis = 1>(x, cw, cw)", f"LayerNormalization axis=-2 epsilon={EPSILON}"),
        (17, "LayerNormalization<axis = -1, epsilon = 0.5>(x, w, w)", "LayerNormalization axis=-1 epsilon=0.5"),
        (23, "RMSNormalization(x, w)", f"RMSNormalization axis=-1 epsilon={EPSILON}"),
        (23, "RMSNormalization<axis = 1, epsilon = 0.5>(x, cw)", "RMSNormalization axis=-2 epsilon=0.5"),
        (7, "LpNormalization(x)", "LpNormalization axis=-1 p=2"),
        (13, "MeanVarianceNormalization<axes = [0, 2]>(x)", "MeanVarianceNormalization axes=(-3, -1)"),
        (22, "LpNormalization<axis = 1, p = 1>(x)", "LpNormalization axis=-2 p=1"),
    ],
)
def test_forms(opset: int, node: str, expected: str) -> None:
    inputs = "float[2, 4, 3] x, float[4] c, float[3] w, float[4, 3] cw"
    assert shown(read(parsed(f"g ({inputs}) => (float[2, 4, 3] y) {{ y = {node} }}", opset))) == expected


def test_group_normalization_by_group_stays_as_it_is() -> None:
    """Opset 18 has a scale for each group, opset 21 for each channel."""
    body = "g (float[2, 4, 3] x, float[2] s) => (float[2, 4, 3] y) { y = GroupNormalization<num_groups = 2>(x, s, s) }"
    assert read(parsed(body, 18)).op == "ai.onnx::GroupNormalization"


def test_layer_normalization_with_its_mean() -> None:
    body = "g (float[2, 3] x, float[3] w) => (float[2, 3] y, float[2, 1] m) { y, m = LayerNormalization(x, w) }"
    assert read(parsed(body, 17)).op == "ai.onnx::LayerNormalization"


def test_opsets_that_lack_the_operator() -> None:
    """ONNX Runtime has one of its own for normalizations along the last axis alone."""
    operands = [var("x", tensor(2, 3)), var("w", tensor(2, 3))]
    term = make("RMSNormalization", operands, {"axis": -2, "epsilon": 1e-5})
    write_model(new_model([term], opset=23))
    with pytest.raises(ModelError, match="RMSNormalization"):
        write_model(new_model([term], opset=22))


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("InstanceNormalization", [(2, 4), (4,), (4,)], {"epsilon": 0.5}),
        ("GroupNormalization", [(2, 4, 3), (4,), (4,)], {"epsilon": 0.5, "num_groups": 3}),
        ("LayerNormalization", [(2, 3), (2, 2, 3)], {"epsilon": 0.5, "axis": -1}),
        ("LayerNormalization", [(2, 1), (3,)], {"epsilon": 0.5, "axis": -1}),
        ("LpNormalization", [(2, 3)], {"axis": -1, "p": 3}),
        ("Softmax", [()], {"axis": -1}),
    ],
)
def test_shapes_that_do_not_fit(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, float]) -> None:
    with pytest.raises(IllTyped):
        make(op, [var(f"x{k}", tensor(*shape)) for k, shape in enumerate(shapes)], attrs)
