"""Sizes that are equal wherever a model can be run, and the canonical shape of Expand."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from superopt.check import check
from superopt.check.answer import EQUIVALENT
from superopt.ir.term import Term, topological
from superopt.onnx_io import read_model
from superopt.onnx_io.simplify import read_simplified
from tests.support.runtime_oracle import session
from tests.support.simplified import parsed

_DECODER = (
    "g (float[b, 2, s, 8] q, float[b, 2, p, 8] past, float[b, 2, s, 8] k, float[b, 1, s, t] mask)"
    " => (float[] y) { keys = Concat<axis = 2>(past, k) turned = Transpose<perm = [0, 1, 3, 2]>(keys)"
    " scores = MatMul(q, turned) masked = Add(scores, mask) shares = Softmax<axis = -1>(masked) y = %s }"
)


def _operators(model: onnx.ModelProto) -> dict[str, Term]:
    return {term.op: term for term in topological(read_simplified(model).outputs)}


def test_a_masked_decoder_has_as_many_columns_as_keys() -> None:
    terms = _operators(parsed(_DECODER % "MatMul(shares, keys)"))
    assert [str(size) for size in terms["Softmax"].type.shape] == ["b", "2", "s", "p + s"]


def test_without_a_product_the_columns_may_be_those_of_the_mask() -> None:
    terms = _operators(parsed(_DECODER % "Relu(shares)"))
    assert str(terms["Softmax"].type.shape[-1]) != "p + s"


def test_a_product_that_needs_equal_sizes_is_not_left_out_silently() -> None:
    """With one key and a mask of several columns, only the model without the product has a result."""
    head = _DECODER.replace("(float[] y)", "(int64[] n)").replace("y = %s", "%s")
    product, other = parsed(head % "y = MatMul(shares, keys) n = Shape(y)"), parsed(head % "n = Shape(q)")
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((1, 2, 1, 8), np.float32) for name in "qk"}
    feeds |= {"past": np.zeros((1, 2, 0, 8), np.float32), "mask": np.zeros((1, 1, 1, 3), np.float32)}
    assert session(other).run(None, feeds)[0].tolist() == [1, 2, 1, 8]
    with pytest.raises((Fail, InvalidArgument, RuntimeException)):
        session(product).run(None, feeds)
    assert check(other, product).verdict != EQUIVALENT


@pytest.mark.parametrize(
    ("operand", "target", "expected"),
    [
        ("b, 1, 3", "{1, 4, 1}", ["b", "4", "3"]),
        ("b, 1, 3", "{4, 3}", ["b", "4", "3"]),
        ("3", "{2, 1}", ["2", "3"]),
        ("b", "{5}", ["5"]),  # b is 1 or 5
    ],
)
def test_an_expand_is_read_with_the_shape_of_its_result(operand: str, target: str, expected: list[str]) -> None:
    text = f"g (float[{operand}] x) => (float[] y) <int64[{target.count(',') + 1}] z = {target}> {{ y = Expand(x, z) }}"
    (term,) = read_model(parsed(text)).outputs
    assert [str(size) for size in np.atleast_1d(np.array(term.attr("shape"), object))] == expected
