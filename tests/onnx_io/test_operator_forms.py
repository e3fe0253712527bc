"""Canonical forms of quantization, places of extrema, padding that copies, and attention with biases."""

from __future__ import annotations

import numpy as np
import pytest

from superopt.ir.infer import make
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, read_model, write_model
from superopt.onnx_io.build import new_model
from tests.support.canonical_nodes import read, shown
from tests.support.runtime_oracle import round_trip, session
from tests.support.simplified import parsed

_HEAD = (
    "g (float[2, 3, 4] x, float[2, 3, 4, 5] image, int64[3] i) => ({} y) <float s = {{0.5}}, float[1] s1 = {{0.5}},"
    " float[3] s3 = {{0.5, 0.25, 2.0}}, int8 z = {{3}}, int8[3] z3 = {{1, 2, 3}}, int64 depth = {{5}},"
    " int64[1] none = {{0}}, float[2] pair = {{0.0, 1.0}}, int64[6] p = {{0, 1, 0, 0, 2, 0}},"
    " int64[6] crop = {{0, -1, 0, 0, 2, 0}}, int64[6] long = {{0, 4, 0, 0, 0, 0}}> {{ y = {} }}"
)


@pytest.mark.parametrize(
    ("opset", "result", "node", "expected"),
    [
        (10, "uint8[]", "QuantizeLinear(x, s)", "QuantizeLinear axis=-1"),
        (13, "int8[]", "QuantizeLinear<axis = 0>(x, s1, z)", "QuantizeLinear axis=-1"),  # the axis has no effect
        (13, "int8[]", "QuantizeLinear(x, s3, z3)", "QuantizeLinear axis=-2"),
        (13, "int8[]", "QuantizeLinear<axis = -2>(x, s3, z3)", "QuantizeLinear axis=-2"),
        (21, "int8[]", "QuantizeLinear<output_dtype = 3>(x, s)", "ai.onnx::QuantizeLinear output_dtype=3"),
        (13, "int64[]", "ArgMax(x)", "ArgMax axis=-3 keepdims=1 select_last_index=0"),
        (7, "int64[]", "ArgMin<axis = 1, keepdims = 0>(x)", "ArgMin axis=-2 keepdims=0 select_last_index=0"),
        # Truth values are 0 or 1: ONNX Runtime takes 2 for one or the other.
        (13, "int64[]", "ArgMax<select_last_index = 4>(x)", "ai.onnx::ArgMax select_last_index=4"),
        (13, "int64[]", "ArgMax<keepdims = 2>(x)", "ai.onnx::ArgMax keepdims=2"),
        (13, "float[]", "ReduceMax<axes = [1], keepdims = 2>(x)", "ai.onnx::ReduceMax axes=(1,) keepdims=2"),
        (13, "float[]", 'Pad<mode = "edge">(x, p, s)', "PadCopy mode=edge pads=(0, 1, 0, 0, 2, 0)"),
        (19, "float[]", 'Pad<mode = "wrap">(x, p)', "PadCopy mode=wrap pads=(0, 1, 0, 0, 2, 0)"),
        (19, "float[]", 'Pad<mode = "wrap">(x, long)', "ai.onnx::Pad mode=wrap"),  # repeats the tensor
        (13, "float[]", 'Pad<mode = "edge">(x, crop)', "ai.onnx::Pad mode=edge"),
        (11, "float[]", "OneHot<axis = 0>(i, depth, pair)", "OneHot axis=-2 depth=5"),
        (13, "float[]", "LRN<size = 3>(image)", f"LRN alpha={float(np.float32(1e-4))} beta=0.75 bias=1.0 size=3"),
    ],
)
def test_forms(opset: int, result: str, node: str, expected: str) -> None:
    assert shown(read(parsed(_HEAD.format(result, node), opset))) == expected


@pytest.mark.parametrize(
    "inputs", ["q, q, q, b", "q, q, q, , , added", "q, q, q, b, , added", "q, q, q, , mask", "q, q, q, b, mask, added"]
)
def test_attention_reads_biases_and_no_mask(inputs: str) -> None:
    body = (
        "g (float[2, 3, 4] q, float[12] b, float[1, 2, 3, 3] added, int32[2, 3] mask) => (float[] y)"
        f" {{ y = com.microsoft.MultiHeadAttention<num_heads = 2>({inputs}) }}"
    )
    model = parsed(body, 17)
    model.opset_import.add(domain="com.microsoft", version=1)
    round_trip(model)
    (term,) = read_model(model).outputs
    assert term.op == ("com.microsoft::MultiHeadAttention" if "mask" in inputs else "MultiHeadAttention")


def test_packed_attention_reads_what_is_added_to_scores() -> None:
    body = (
        "g (float[2, 3, 4] x, float[4, 12] w, float[12] b, float[1, 2, 3, 3] added) => (float[] y)"
        " { y = com.microsoft.Attention<num_heads = 2>(x, w, b, , , added) }"
    )
    model = parsed(body, 17)
    model.opset_import.add(domain="com.microsoft", version=1)
    written = round_trip(model)
    assert list(written.graph.node[0].input) == ["x", "w", "b", "", "", "added"]
    (term,) = read_model(model).outputs
    assert term.op == "Attention" and term.attr("scale") == float(np.float32(2**-0.5))


def test_an_attention_with_a_scale_of_zero_cannot_be_written() -> None:
    """A file's 0 stands for the default."""
    q = var("q", tensor(1, 2, 4))
    term = make("MultiHeadAttention", (q, q, q), {"num_heads": 2, "scale": 0.0})
    with pytest.raises(ModelError, match="scale"):
        write_model(new_model((term,), {}, opset=17))


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize(
    ("op", "dtype", "value"),
    [
        ("ReduceSum", "int64", np.array(-(2**60) - 1)),  # summed in double
        ("ReduceProd", "int64", np.array(-(2**60) - 1)),
        ("ReduceSum", "float", np.array(-0.0, np.float32)),  # -0.0 + 0.0
        ("ReduceMean", "float", np.array(-0.0, np.float32)),
        ("ReduceMax", "float", np.array(-0.0, np.float32)),
    ],
)
def test_the_sum_of_one_number_is_no_identity(op: str, dtype: str, value: np.ndarray, opset: int) -> None:
    """No Identity may stand for a reduction of a scalar, which has no axes."""
    model = parsed(f"g ({dtype} x) => ({dtype} y) {{ y = {op}(x) }}", opset)
    written = round_trip(model, {"x": value})
    assert [node.op_type for node in written.graph.node] == [op]
    results = [session(one).run(None, {"x": value})[0] for one in (model, written)]
    assert results[0].tobytes() == results[1].tobytes()
