"""The arithmetic and the memory traffic of operators."""

from __future__ import annotations

import random

import pytest

from superopt.ir.dim import symbol
from superopt.ir.infer import OPERATORS, make
from superopt.ir.term import CLOSED_FORM, Attr, Term, var
from superopt.ir.types import TensorType, tensor
from superopt.ops.movement import only_moves
from superopt.properties import moves
from superopt.search.cost.work import Traffic, bytes_of, traffic, work
from tests.support.search_graphs import Graphs, image
from tests.support.semantic_cases.terms import example, outputs_of

PRODUCTS = {
    "Attention", "Conv", "ConvInteger", "ConvTranspose", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul", "GRU",
    "Gemm", "LSTM", "MatMul", "MatMulInteger", "MultiHeadAttention",
}  # fmt: skip


def flops(term: Term) -> int:
    """Return the number of all operations of one operator."""
    return sum(work(term))


def node(op: str, seed: int) -> Term:
    (first, *_) = outputs_of(op, example(op, random.Random(seed)))
    source = first.inputs[0] if first.op == "Out" else first
    assert source is not None
    return source


@pytest.mark.parametrize("op", sorted(op for op in OPERATORS if not moves(op) and op not in CLOSED_FORM))
def test_every_operator_that_computes_counts(op: str) -> None:
    terms = [node(op, seed) for seed in range(8)]
    counts = [work(term) for term in terms]
    assert max(map(sum, counts)) > 0
    assert (max(count.dense for count in counts) > 0) == (op in PRODUCTS)
    for term, count in zip(terms, counts, strict=True):  # an Einsum may be a transposition
        assert (sum(count) > 0) != only_moves(term)


@pytest.mark.parametrize("op", sorted(op for op in OPERATORS if moves(op)))
def test_data_movement_computes_nothing(op: str) -> None:
    assert flops(node(op, 0)) == 0


def test_products() -> None:
    graphs = Graphs()
    assert flops(make("MatMul", (var("x", tensor(5, 2, 3)), graphs.const(3, 4)))) == 2 * 5 * 2 * 4 * 3
    assert flops(graphs.conv(image(8, 14), 3, 16)) == 2 * 16 * 14 * 14 * 8 * 9
    assert flops(graphs.conv(image(8, 14), 3, 8, group=8)) == 2 * 8 * 14 * 14 * 9
    attrs: dict[str, Attr] = {"alpha": 1.0, "beta": 1.0, "transA": 1, "transB": 0}
    assert flops(make("Gemm", (var("y", tensor(3, 2)), graphs.const(3, 4)), attrs)) == 2 * 2 * 4 * 3
    fused = make(
        "FusedMatMul", (var("x", tensor(5, 3, 2)), graphs.const(5, 4, 3)), {"alpha": 2.0, "transA": 1, "transB": 1}
    )
    assert flops(fused) == 2 * 5 * 2 * 4 * 3 + 5 * 2 * 4  # alpha
    einsum = make("Einsum", (var("x", tensor(2, 3, 4)), var("y", tensor(4, 3, 5))), {"equation": "abc,cbd->ad"})
    assert flops(einsum) == 2 * (2 * 3 * 4 * 5)
    assert flops(make("Einsum", (var("x", tensor(2, 3)),), {"equation": "ab->ba"})) == 0
    assert flops(make("Einsum", (var("x", tensor(2, 3)),), {"equation": "ab->a"})) == 6
    turned: dict[str, Attr] = {
        "dilations": (1, 1), "group": 1, "output_padding": (0, 0), "pads": (0, 0, 0, 0), "strides": (2, 2),
    }  # fmt: skip
    assert flops(make("ConvTranspose", (image(8, 14), graphs.const(8, 4, 2, 2)), turned)) == 2 * (8 * 14 * 14) * (4 * 4)


def test_a_fused_operator_computes_what_its_parts_do() -> None:
    graphs = Graphs()
    conv = graphs.conv(image(8, 14), 3, 16)
    weight, attrs = conv.inputs[1], {**dict(conv.attrs), "activation_alpha": 0.0, "activation_beta": 0.0}
    fused = make("FusedConv", (image(8, 14), weight, graphs.const(16)), {**attrs, "activation": "Tanh"})
    parts = flops(conv) + 16 * 14 * 14 + flops(make("Tanh", (conv,)))
    assert flops(fused) == parts
    q, k, v = var("q", tensor(2, 5, 8)), var("k", tensor(2, 7, 8)), var("v", tensor(2, 7, 12))
    heads = work(make("MultiHeadAttention", (q, k, v), {"num_heads": 4, "scale": 0.5}))
    scores = var("s", tensor(2, 4, 5, 7))
    assert heads.dense == 2 * 2 * 5 * 7 * (8 + 12)
    assert heads.scalar == flops(make("Softmax", (scores,), {"axis": -1})) + 2 * 4 * 5 * 7
    x, w, b = var("x", tensor(2, 5, 6)), graphs.const(6, 24), graphs.const(24)
    whole = work(make("Attention", (x, w, b), {"num_heads": 4, "scale": 0.5}))
    assert whole.dense == 2 * 2 * 5 * 5 * 16 + 2 * 2 * 5 * 24 * 6


def test_sums_and_functions_of_their_input() -> None:
    x = image(8, 14)
    count = 8 * 14 * 14
    assert flops(make("GlobalAveragePool", (x,))) == count + 8  # the quotients
    assert flops(make("ReduceSum", (x,), {"axes": (-1,), "keepdims": 1})) == count
    window: dict[str, Attr] = {
        "dilations": (1, 1), "kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "strides": (2, 2),
    }  # fmt: skip
    assert flops(make("MaxPool", (x,), window)) == 8 * 7 * 7 * 9
    assert flops(make("Sum", (x, x, x))) == 2 * count == 2 * flops(make("Add", (x, x)))
    assert flops(make("Softmax", (x,), {"axis": -1})) > flops(make("Exp", (x,))) > flops(make("Relu", (x,)))


def test_recurrent_operators_multiply_their_weights_in_every_step() -> None:
    graphs = Graphs()
    hidden = tensor(7, 1, 2, 16)
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        inputs = (var("x", tensor(7, 2, 12)), graphs.const(1, gates * 16, 12), graphs.const(1, gates * 16, 16))
        count = work(Term.of(op, inputs, {"hidden_size": 16}, (hidden,)))
        assert count.dense == 2 * 7 * 2 * gates * 16 * (12 + 16) and count.scalar > 0


def test_what_is_not_known_counts_as_something() -> None:
    rows, nothing = var("x", TensorType("float", (symbol("n"), 4))), var("y", TensorType("float", None))
    square = Graphs().const(4, 4)
    assert flops(make("MatMul", (rows, square))) > 0
    assert flops(make("MatMul", (nothing, square))) > 0
    assert flops(make("Relu", (nothing,))) > 0
    hidden = [var(name, TensorType("float", (2, 5, symbol("h")))) for name in "qkv"]  # 12 heads do not divide 32
    assert flops(make("MultiHeadAttention", hidden, {"num_heads": 12, "scale": 0.5})) > 0
    assert flops(Term.of("Unheard", (rows,), {}, rows.types)) == 0


def test_bytes() -> None:
    assert bytes_of(tensor(2, 3)) == 24
    assert bytes_of(tensor(2, 3, dtype="float16")) == 12
    assert bytes_of(tensor(2, 3, dtype="int64")) == 48
    assert bytes_of(TensorType("float", (symbol("n"), 2))) > 8
    assert bytes_of(None) > 0


def test_traffic() -> None:
    x = var("x", tensor(64, 8))
    size = 4 * 64 * 8
    assert traffic(make("Relu", (x,))) == Traffic(2 * size)
    assert traffic(make("Mul", (x, x))) == Traffic(2 * size)  # one input, though used twice
    assert traffic(make("Reshape", (x,), {"allowzero": 0, "shape": (8, 64)})) == Traffic()
    row: dict[str, Attr] = {"axes": (-2,), "starts": (3,), "ends": (4,), "steps": (1,)}
    assert traffic(make("Slice", (x,), row)) == Traffic(2 * size // 64)
    assert traffic(make("Split", (x,), {"axis": -2, "split": (32, 32)})) == Traffic(2 * size)
    table = Term.of("Const", (), {"hash": "t"}, (tensor(64, 8),))
    assert traffic(make("Add", (x, table))) == Traffic(2 * size, size)
    assert traffic(make("Slice", (table,), row)) == Traffic(size // 64, size // 64)
