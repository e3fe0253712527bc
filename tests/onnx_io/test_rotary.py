"""Rotary embeddings in files: ONNX's operator, and ONNX Runtime's own with positions, which older opsets have."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest

from superopt.ir.dim import Size, symbol
from superopt.ir.infer import make
from superopt.ir.term import Term, var
from superopt.ir.types import tensor
from superopt.onnx_io import ModelError, read_model, write_model
from superopt.onnx_io.build import new_model
from tests.support.canonical_nodes import read
from tests.support.runtime_oracle import session
from tests.support.simplified import parsed


@pytest.mark.parametrize(
    ("node", "op"),
    [
        ("RotaryEmbedding(x, c, c)", "RotaryEmbedding"),
        ("RotaryEmbedding<interleaved = 1>(x, c, c)", "RotaryEmbedding"),
        ("RotaryEmbedding<num_heads = 2>(flat, c, c)", "RotaryEmbedding"),
        ("RotaryEmbedding(x, table, table, at)", "ai.onnx::RotaryEmbedding"),
        ("RotaryEmbedding<rotary_embedding_dim = 2>(x, part, part)", "ai.onnx::RotaryEmbedding"),
    ],
)
def test_rotations(node: str, op: str) -> None:
    body = (
        "g (float[1, 2, 3, 4] x, float[1, 3, 8] flat, float[1, 3, 2] c, float[1, 3, 1] part, float[9, 2] table,"
        f" int64[1, 3] at) => (float[] y) {{ y = {node} }}"
    )
    assert read(parsed(body, 23)).op == op


_OTHER = "com.microsoft::RotaryEmbedding"


@pytest.mark.parametrize(
    ("node", "op"),
    [
        ("RotaryEmbedding(x, zero, three, three)", "RotaryEmbedding"),
        ("RotaryEmbedding<interleaved = 1>(x, every, three, three)", "RotaryEmbedding"),
        ("RotaryEmbedding(pair, both, six, six)", "RotaryEmbedding"),
        ("RotaryEmbedding(x, one, six, six)", _OTHER),  # begins with the second row
        ("RotaryEmbedding(x, reversed, three, three)", _OTHER),
        ("RotaryEmbedding(x, zero, six, six)", _OTHER),
        ("RotaryEmbedding(pair, zero, three, three)", _OTHER),  # two sequences with the same positions
        ("RotaryEmbedding(x, free, six, six)", _OTHER),
        ("RotaryEmbedding<scale = 2.0>(x, zero, three, three)", _OTHER),
        ("RotaryEmbedding<rotary_embedding_dim = 2, num_heads = 2>(x, zero, three, three)", _OTHER),
    ],
)
def test_rotations_at_positions(node: str, op: str) -> None:
    body = (
        "g (float[1, 2, 3, 4] x, float[2, 2, 3, 4] pair, float[3, 2] three, float[6, 2] six, int64[1] free)"
        " => (float[] y) <int64[1] zero = {0}, int64[1] one = {1}, int64[1, 3] every = {0, 1, 2},"
        " int64[1, 3] reversed = {2, 1, 0}, int64[2, 3] both = {0, 1, 2, 3, 4, 5}>"
        f" {{ y = com.microsoft.{node} }}"
    )
    model = parsed(body, 17)
    model.opset_import.add(domain="com.microsoft", version=1)
    assert read(model).op == op


def _rotation(batch: Size, sequence: Size, interleaved: int, heads: int) -> Term:
    x = var("x", tensor(batch, sequence, 24) if heads else tensor(batch, 3, sequence, 8))
    tables = (var(name, tensor(batch, sequence, 4)) for name in "cs")
    return make("RotaryEmbedding", (x, *tables), {"interleaved": interleaved, "num_heads": heads})


@pytest.mark.parametrize("heads", [0, 3])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("batch", "sequence"), [(1, symbol("n")), (1, 5), (2, 5)])
def test_older_opsets_have_positions(batch: int, sequence: Size, interleaved: int, heads: int) -> None:
    term = _rotation(batch, sequence, interleaved, heads)
    old, new = (write_model(new_model((term,), {}, opset=opset)) for opset in (17, 23))
    assert [node.op_type for node in old.graph.node] == ["Reshape", "Reshape", "RotaryEmbedding"]
    rng = np.random.default_rng(0)
    length = sequence if isinstance(sequence, int) else 7
    shape = (batch, length, 24) if heads else (batch, 3, length, 8)
    feeds = {"x": rng.standard_normal(shape, np.float32)}
    feeds |= {name: rng.standard_normal((batch, length, 4), np.float32) for name in "cs"}
    (got,), (expected,) = (session(model).run(None, feeds) for model in (old, new))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)
    assert heads or _ops(old) == ["Reshape", "Reshape", "Reshape", "Reshape", "RotaryEmbedding"]


def _ops(model: onnx.ModelProto) -> list[str]:
    """Return the operators that a file is read as."""
    found: list[str] = []
    stack = list(read_model(model).outputs)
    while stack:
        term = stack.pop()
        found += [term.op] if term.inputs else []
        stack += [i for i in term.inputs if i is not None]
    return sorted(found)


def test_all_sequences_of_a_free_batch_may_have_the_same_positions() -> None:
    batch = symbol("b")
    x, *tables = var("x", tensor(batch, 3, 5, 8)), var("c", tensor(1, 5, 4)), var("s", tensor(1, 5, 4))
    repeated = (make("Expand", (table,), {"shape": (batch, 5, 4)}) for table in tables)
    term = make("RotaryEmbedding", (x, *repeated), {"interleaved": 0, "num_heads": 0})
    old, new = (write_model(new_model((term,), {}, opset=opset)) for opset in (17, 23))
    rng = np.random.default_rng(0)
    feeds = {"x": rng.standard_normal((2, 3, 5, 8), np.float32)}
    feeds |= {name: rng.standard_normal((1, 5, 4), np.float32) for name in "cs"}
    (got,), (expected,) = (session(model).run(None, feeds) for model in (old, new))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sizes", [(2, 5), (1, 1), (3, 1)])
def test_positions_of_a_free_batch_are_computed(sizes: tuple[int, int]) -> None:
    terms = [_rotation(symbol("b"), symbol("n"), interleaved, 0) for interleaved in (0, 1)]
    old, new = (write_model(new_model(tuple(terms), {}, opset=opset)) for opset in (17, 23))
    assert Counter(node.op_type for node in old.graph.node)["Range"] == 1
    rng = np.random.default_rng(0)
    batch, length = sizes
    feeds = {"x": rng.standard_normal((batch, 3, length, 8), np.float32)}
    feeds |= {name: rng.standard_normal((batch, length, 4), np.float32) for name in "cs"}
    for got, expected in zip(*(session(model).run(None, feeds) for model in (old, new)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_older_opsets_have_no_heads_of_a_free_size() -> None:
    half = symbol("h")
    tables = (var(name, tensor(1, 5, half)) for name in "cs")
    term = make("RotaryEmbedding", (var("x", tensor(1, 3, 5, half * 2)), *tables), {"interleaved": 0, "num_heads": 0})
    with pytest.raises(ModelError, match="new in 23"):
        write_model(new_model((term,), {}, opset=17))
