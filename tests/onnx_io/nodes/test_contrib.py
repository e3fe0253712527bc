"""Nodes of ONNX Runtime's own domain, and the one form that terms have; ONNX Runtime judges both sides."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from superopt.ir.infer import make
from superopt.ir.term import Term, node_of, var
from superopt.ir.types import tensor
from superopt.onnx_io import new_model, read_model, write_model
from superopt.onnx_io.nodes.exporting import is_writable
from tests.support.runtime_oracle import random_feeds, round_trip, session

INPUTS = (
    "float[2, 3, 4] x, float[2, 3, 4] skip, float[4] v, float[3, 4] m, float[4, 3] w, float[3] c, "
    "float[1, 2, 5, 5] image, float[4, 2, 3, 3] kernel, float[4] bias, float[1, 4, 3, 3] z, float[4, 12] qkv, "
    "float[12] offset"
)
CONV = "dilations=(1, 1) group=1 pads=(0, 0, 0, 0) strides=(1, 1)"


def parsed(node: str, opset: int = 17) -> onnx.ModelProto:
    imports = f'"": {opset}, "com.microsoft": 1'
    return parser.parse_model(
        f"<ir_version: 8, opset_import: [{imports}]> g ({INPUTS}) => (float[] y) {{ y = com.microsoft.{node} }}"
    )


def shown(term: Term) -> str:
    return f"{term.op} " + " ".join(f"{name}={value}" for name, value in term.attrs)


def real(value: float) -> float:
    return float(np.float32(value))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ("FusedMatMul(x, w)", "FusedMatMul alpha=1.0 transA=0 transB=0"),
        ("FusedMatMul<alpha = 0.5, transB = 1>(x, m)", "FusedMatMul alpha=0.5 transA=0 transB=1"),
        (
            'FusedConv<activation = "Relu">(image, kernel)',
            f"FusedConv activation=Relu activation_alpha=0.0 activation_beta=0.0 {CONV}",
        ),
        (
            'FusedConv<activation = "Clip", activation_params = [-1.0, 6.0]>(image, kernel, , z)',
            f"FusedConv activation=Clip activation_alpha=-1.0 activation_beta=6.0 {CONV}",
        ),
        (
            'FusedConv<activation = "LeakyRelu", activation_params = [0.5]>(image, kernel, bias)',
            f"FusedConv activation=LeakyRelu activation_alpha=0.5 activation_beta=0.0 {CONV}",
        ),
        (
            'FusedGemm<activation = "Tanh", alpha = 0.5>(m, w)',
            "FusedGemm activation=Tanh activation_alpha=0.0 activation_beta=0.0 alpha=0.5 beta=1.0 transA=0 transB=0",
        ),
        (
            'FusedGemm<activation = "LeakyRelu", activation_alpha = 0.25>(m, w, c)',
            "FusedGemm activation=LeakyRelu activation_alpha=0.25 activation_beta=0.0 "
            "alpha=1.0 beta=1.0 transA=0 transB=0",
        ),
        ("Gelu(x)", "Gelu approximate=none"),
        ("BiasGelu(x, v)", "BiasGelu "),
        ("FastGelu(x)", "FastGelu "),
        ("FastGelu(x, v)", "FastGelu "),
        ("QuickGelu(x)", f"QuickGelu alpha={real(1.702)}"),
        ("SkipLayerNormalization(x, skip, v)", f"SkipLayerNormalization epsilon={real(1e-12)}"),
        ("SkipLayerNormalization<epsilon = 0.5>(x, m, v, , v)", "SkipLayerNormalization epsilon=0.5"),
        ("SkipSimplifiedLayerNormalization(x, skip, v)", f"SkipSimplifiedLayerNormalization epsilon={real(1e-12)}"),
        ("MultiHeadAttention<num_heads = 2>(x, skip, skip)", f"MultiHeadAttention num_heads=2 scale={real(2**-0.5)}"),
        (
            "MultiHeadAttention<num_heads = 2>(x, skip, skip, offset)",
            f"MultiHeadAttention num_heads=2 scale={real(2**-0.5)}",
        ),
        ("Attention<num_heads = 2, scale = 0.5>(x, qkv, offset)", "Attention num_heads=2 scale=0.5"),
    ],
)
def test_forms(node: str, expected: str) -> None:
    model = parsed(node)
    written = round_trip(model)
    assert [n.op_type for n in written.graph.node] == [n.op_type for n in model.graph.node]
    assert shown(node_of(read_model(model).outputs[0])) == expected


@pytest.mark.parametrize(
    "node",
    [
        "FusedMatMul<transBatchA = 1>(x, x)",
        "FusedMatMul<transB = 1>(x, v)",
        "FusedConv(image, kernel)",
        'FusedGemm<activation = "LeakyRelu">(m, w)',
        'FusedGemm<activation = "Elu", activation_alpha = 1.0>(m, w)',
        "MultiHeadAttention<num_heads = 2, unidirectional = 1>(x, skip, skip)",
        "MultiHeadAttention<num_heads = 2>(x, skip, skip, v)",
        "Attention<num_heads = 2, unidirectional = 1>(x, qkv, offset)",
        "Attention<num_heads = 2, qkv_hidden_sizes = [4, 4, 4]>(x, qkv, offset)",
        "Attention<num_heads = 2>(x, qkv)",
    ],
)
def test_what_has_no_canonical_form_stays(node: str) -> None:
    assert read_model(parsed(node)).outputs[0].op.startswith("com.microsoft::")


@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
def test_the_sum_that_is_normalised_is_the_fourth_output(op: str) -> None:
    model = parsed(f"{op}(x, skip, v)")
    assert list(round_trip(model).graph.node[0].output) == ["y"]
    model.graph.node[0].output.extend(["", "", "sum"])
    model.graph.output.add().name = "sum"
    y, total = read_model(model).outputs
    assert (y, total) == (node_of(y).out(0), node_of(y).out(1))
    assert node_of(y).op == op
    assert list(round_trip(model).graph.node[0].output) == ["y", "", "", "sum"]


def test_outputs_without_a_definition_stay() -> None:
    model = parsed("SkipLayerNormalization(x, skip, v)")
    model.graph.node[0].output.extend(["mean", "", "sum"])
    assert node_of(read_model(model).outputs[0]).op == "com.microsoft::SkipLayerNormalization"
    assert list(round_trip(model).graph.node[0].output) == ["y", "mean", "", "sum"]


def test_attention_of_the_standard_domain_is_another_operator() -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 23]> g (float[1, 2, 3, 4] x) => (float[] y) { y = Attention(x, x, x) }'
    )
    assert read_model(model).outputs[0].op == "ai.onnx::Attention"


@pytest.mark.parametrize(("opset", "domain"), [(13, "com.microsoft"), (17, "com.microsoft"), (20, "")])
def test_gelu_is_written_where_it_is_known(opset: int, domain: str) -> None:
    model = parsed("Gelu(x)", opset)
    written = write_model(read_model(model))
    assert [node.domain for node in written.graph.node] == [domain]
    feeds = random_feeds(model)
    np.testing.assert_allclose(session(written).run(None, feeds)[0], session(model).run(None, feeds)[0], atol=1e-6)


def test_the_domain_is_imported_where_a_node_needs_it() -> None:
    x = var("x", tensor(2, 3))
    fused = write_model(new_model([make("QuickGelu", (x,), {"alpha": 2.0})]))
    assert {o.domain: o.version for o in fused.opset_import} == {"": 17, "com.microsoft": 1}
    plain = write_model(new_model([make("Relu", (x,))]))
    assert {o.domain: o.version for o in plain.opset_import} == {"": 17}
    feeds = {"x": np.ones((2, 3), np.float32)}
    np.testing.assert_allclose(session(fused).run(None, feeds)[0], 1 / (1 + np.exp(-2.0)), rtol=1e-5)


def test_an_operator_that_the_runtime_adds_to_the_standard_domain() -> None:
    """onnx.checker knows no SimplifiedLayerNormalization; a model that gains one is written all the same."""
    term = make(
        "SimplifiedLayerNormalization", (var("x", tensor(2, 3)), var("s", tensor(3))), {"axis": -1, "epsilon": 0.5}
    )
    model = new_model([term])
    written = write_model(model)
    assert [(node.op_type, node.domain) for node in written.graph.node] == [("SimplifiedLayerNormalization", "")]
    assert [opset.domain for opset in written.opset_import] == [""]
    again = read_model(written)
    assert again.outputs == (term,)
    assert again.checker_error is not None
    session(write_model(again))


@pytest.mark.parametrize("opset", [7, 13, 16])
def test_a_layer_normalization_of_the_runtime_in_older_opsets(opset: int) -> None:
    """ONNX has one since opset 17, and ONNX Runtime in all."""
    x, scale, bias = var("x", tensor(2, 3, 4)), var("g", tensor(4)), var("h", tensor(4))
    terms = tuple(
        make("LayerNormalization", operands, {"axis": -1, "epsilon": 0.5})
        for operands in ((x, scale, bias), (x, scale))
    )
    written, newer = (write_model(new_model(terms, opset=version)) for version in (opset, 17))
    assert read_model(written).outputs == terms
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(shape, np.float32) for name, shape in (("x", (2, 3, 4)), ("g", 4), ("h", 4))}
    for got, expected in zip(*(session(model).run(None, feeds) for model in (written, newer)), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert not is_writable(terms[0], opset, standard=True)
