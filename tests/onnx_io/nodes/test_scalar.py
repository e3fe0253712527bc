"""Scalar functions as files state them, and the one form that terms have; ONNX Runtime judges both sides."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from superopt.ir.dim import symbol
from superopt.ir.infer import make
from superopt.ir.operator import IllTyped
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, new_model, read_model, write_model
from tests.support.runtime_oracle import random_feeds, round_trip, session

INF = float("inf")
WEIGHTS = (
    "float low = {-0.5}, float high = {0.75}, float[1] one = {1.0}, float nil = {-0.0}, "
    "int64 ilow = {-1}, int64 itop = {9223372036854775807}, int64 big = {9007199254740993}, "
    "float[3] slope = {0.5, -1.0, 2.0}"
)


def parsed(opset: int, node: str) -> onnx.ModelProto:
    integer = "(n" in node
    body = "(float[2, 3] x, int64[2, 3] n) => (int64[2, 3] y)" if integer else "(float[2, 3] x) => (float[2, 3] y)"
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {body} <{WEIGHTS}> {{ y = {node} }}')


def read(model: onnx.ModelProto) -> Term:
    round_trip(model)
    return read_model(model).outputs[0]


def float32(value: float) -> float:
    return float(np.float32(value))


@pytest.mark.parametrize(
    ("opset", "node", "op", "attrs"),
    [
        (7, "Clip(x)", "Clip", {"bound_low": -INF, "bound_high": INF}),
        (7, "Clip<min = 0.0>(x)", "Clip", {"bound_low": 0.0, "bound_high": INF}),
        (7, "Clip<min = 0.0, max = 3.4028234663852886e38>(x)", "Clip", {"bound_low": 0.0, "bound_high": INF}),
        (7, "Clip<min = -1.0, max = 0.1>(x)", "Clip", {"bound_low": -1.0, "bound_high": float32(0.1)}),
        (11, "Clip(x)", "Clip", {"bound_low": -INF, "bound_high": INF}),
        (11, "Clip(x, low)", "Clip", {"bound_low": -0.5, "bound_high": INF}),
        (11, "Clip(x, , high)", "Clip", {"bound_low": -INF, "bound_high": 0.75}),
        (12, "Clip(x, low, high)", "Clip", {"bound_low": -0.5, "bound_high": 0.75}),
        (13, "Clip(x, high, low)", "Clip", {"bound_low": 0.75, "bound_high": -0.5}),
        (13, "Clip(x, , one)", "Clip", {"bound_low": -INF, "bound_high": 1.0}),
        (12, "Clip(n, ilow, itop)", "Clip", {"bound_low": -1.0, "bound_high": INF}),
        (12, "Clip(n, ilow, big)", "ai.onnx::Clip", {}),  # no float64 is 2^53 + 1
        (13, "Clip(x, nil)", "ai.onnx::Clip", {}),  # -0.0 would be equal to 0.0
        (7, "LeakyRelu(x)", "LeakyRelu", {"alpha": float32(0.01)}),
        (16, "LeakyRelu<alpha = 0.5>(x)", "LeakyRelu", {"alpha": 0.5}),
        (7, "HardSigmoid(x)", "HardSigmoid", {"alpha": float32(0.2), "beta": 0.5}),
        (22, "HardSigmoid<beta = 0.25>(x)", "HardSigmoid", {"alpha": float32(0.2), "beta": 0.25}),
        (7, "Elu(x)", "Elu", {"alpha": 1.0}),
        (22, "Elu<alpha = 2.0>(x)", "Elu", {"alpha": 2.0}),
        (7, "Selu(x)", "Selu", {"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}),
        (22, "Selu<gamma = 2.0>(x)", "Selu", {"alpha": 1.6732631921768188, "gamma": 2.0}),
        (12, "Celu(x)", "Celu", {"alpha": 1.0}),
        (12, "Celu<alpha = -2.0>(x)", "ai.onnx::Celu", {"alpha": -2.0}),
        (10, "ThresholdedRelu(x)", "ThresholdedRelu", {"alpha": 1.0}),
        (22, "ThresholdedRelu<alpha = 0.5>(x)", "ThresholdedRelu", {"alpha": 0.5}),
        (20, "Gelu(x)", "Gelu", {"approximate": "none"}),
        (20, 'Gelu<approximate = "tanh">(x)', "Gelu", {"approximate": "tanh"}),
        (7, "PRelu(x, slope)", "PRelu", {}),
        (16, "PRelu(x, slope)", "PRelu", {}),
        (7, "Div(x, slope)", "Div", {}),
        (7, "Div(n, ilow)", "Div", {}),
        (7, "Max(x, x)", "Max", {}),
        (8, "Max(x, slope, low)", "Max", {}),
        (13, "Min(x)", "Min", {}),
        (12, "Max(n, ilow)", "Max", {}),
        (12, "Pow(x, ilow)", "Pow", {}),
        (12, "Pow(n, ilow)", "ai.onnx::Pow", {}),  # of integers
        (7, "Abs(x)", "Abs", {}),
        (13, "Abs(n)", "Abs", {}),
        (9, "Sign(x)", "Sign", {}),
        (9, "Erf(x)", "Erf", {}),
        (11, "Round(x)", "Round", {}),
        (14, "HardSwish(x)", "HardSwish", {}),
        (18, "Mish(x)", "Mish", {}),
        *((7, f"{op}(x)", op, {}) for op in ("Sqrt", "Reciprocal", "Exp", "Log", "Softplus", "Softsign")),
        *((13, f"{op}(x)", op, {}) for op in ("Floor", "Ceil")),
    ],
)  # fmt: skip
def test_forms_in_the_opsets(opset: int, node: str, op: str, attrs: dict[str, object]) -> None:
    term = read(parsed(opset, node))
    assert term.op == op
    assert dict(term.attrs) == attrs


@pytest.mark.parametrize("bound", [INF, -INF, float("nan")])
def test_a_clip_with_an_infinite_bound_is_left_to_the_runtime(bound: float) -> None:
    """A default bound would make a finite number of an infinite element."""
    model = parsed(13, "Clip(x, low, high)")
    for tensor_ in model.graph.initializer:
        if tensor_.name in ("low", "high"):
            tensor_.CopyFrom(numpy_helper.from_array(np.array(bound, np.float32), tensor_.name))
    assert read_model(model).outputs[0].op == "ai.onnx::Clip"
    x = np.array([[-INF, INF, 0], [1, -1, 2]], np.float32)
    np.testing.assert_array_equal(session(write_model(read_model(model))).run(None, {"x": x}),
                                  session(model).run(None, {"x": x}))  # fmt: skip


def test_a_clip_between_computed_bounds_is_left_to_the_runtime() -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x, float low) => (float[2] y) { y = Clip(x, low) }'
    assert read(parser.parse_model(text)).op == "ai.onnx::Clip"


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE])
def test_bounds_at_the_ends_of_the_type_are_none(dtype: int) -> None:
    import ml_dtypes

    kind = np.dtype(helper.tensor_dtype_to_np_dtype(dtype))
    ends = [np.array(end, kind) for end in (ml_dtypes.finfo(kind).min, ml_dtypes.finfo(kind).max)]
    graph = helper.make_graph(
        [helper.make_node("Clip", ["x", "low", "high"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", dtype, [2])],
        [helper.make_tensor_value_info("y", dtype, [2])],
        [numpy_helper.from_array(end, name) for end, name in zip(ends, ("low", "high"), strict=True)],
    )
    term = read_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])).outputs[0]
    assert dict(term.attrs) == {"bound_low": -INF, "bound_high": INF}


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize(("low", "high"), [(-INF, INF), (-0.5, INF), (-INF, 0.5), (-0.5, 0.5)])
def test_clip_is_written_in_every_opset(opset: int, low: float, high: float) -> None:
    term = make("Clip", (var("x", tensor(4)),), {"bound_low": low, "bound_high": high})
    written = write_model(new_model([term], opset=opset))
    feeds = random_feeds(written)
    np.testing.assert_array_equal(session(written).run(None, feeds)[0], np.clip(feeds["x"], low, high))
    assert dict(read_model(written).outputs[0].attrs) == dict(term.attrs)


@pytest.mark.parametrize(
    ("opset", "term"),
    [
        (8, make("Erf", (var("x", tensor(2)),))),
        (13, make("HardSwish", (var("x", tensor(2)),))),
        (17, make("Mish", (var("x", tensor(2)),))),
        (7, make("Max", (var("x", tensor(2)), var("z", tensor(1))))),
        (11, make("Pow", (var("x", tensor(2)), var("z", tensor(2, dtype="int64"))))),
        (10, make("Clip", (var("x", tensor(2, dtype="double")),), {"bound_low": 0.0, "bound_high": INF})),
    ],
)
def test_what_an_opset_cannot_say_is_refused(opset: int, term: Term) -> None:
    with pytest.raises(ModelError):
        write_model(new_model([term], opset=opset))


def test_a_bound_of_integers_is_one() -> None:
    x = var("x", tensor(2, dtype="int64"))
    with pytest.raises(IllTyped):
        make("Clip", (x,), {"bound_low": 0.5, "bound_high": INF})
    assert make("Clip", (x,), {"bound_low": 1.0, "bound_high": INF}).type == x.type


def test_the_slope_of_prelu_broadcasts_and_its_input_does_not() -> None:
    n, m = symbol("n"), symbol("m")
    asked: list[tuple[object, object]] = []
    x = var("x", tensor(n, 3))

    def need(relation: str, left: object, right: object) -> None:
        asked.append((left, right))

    def prelu(*slope: object) -> Term:
        return make("PRelu", (x, var("slope", tensor(*slope))), need=need)

    assert prelu(1, 3).type == prelu(1).type == prelu().type == tensor(n, 3)
    assert not asked
    assert prelu(m, 1).type == tensor(n, 3)
    assert asked == [(m, n)]
    for slope in ((2,), (1, 1, 3)):
        with pytest.raises(IllTyped):
            prelu(*slope)
