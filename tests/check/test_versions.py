"""Operators of one name that two files define differently: by their operator sets, or by their functions."""

from __future__ import annotations

import onnx
import pytest
from onnx import parser

from superopt.check import DIFFERENT, EQUIVALENT, UNKNOWN
from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import read_simplified
from superopt.onnx_io.schemas import specification
from tests.support.checked import checked
from tests.support.simplified import parsed

# No short search for a difference comes upon the first branch.
RARE = "m = ReduceSum<keepdims = 0>(x) k = Constant<value_float: float = 123.25>() c = Equal(m, k)"


def _rarely(body: str) -> str:
    chosen = f"y = If(c) <then_branch = a () => (float[2, 3, 4] t) {{ {body} }}, "
    return f"g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ {RARE} {chosen}" + (
        "else_branch = b () => (float[2, 3, 4] e) { e = Neg(x) }> }"
    )


def _calling(graph: str, function: str) -> onnx.ModelProto:
    head = '<ir_version: 8, opset_import: ["": 17, "l": 1]>'
    return parser.parse_model(f'{head} {graph} <domain: "l", opset_import: ["": 17]> H (a) => (o) {{ {function} }}')


def _is_proven(left: onnx.ModelProto, right: onnx.ModelProto) -> bool:
    return all(prove_equal(*joined(read_simplified(left), read_simplified(right)), seconds=2).outputs)


def test_versions_of_one_operator_are_different_operators() -> None:
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Hardmax<axis = 1>(x) }"
    old, new = parsed(text, 11), parsed(text, 13)  # over the last two axes; over one
    assert not _is_proven(old, new)
    assert checked(old, new, 3).verdict == DIFFERENT
    assert _is_proven(old, old)


@pytest.mark.parametrize("op", ["Hardmax<axis = 1>(x)", "Softmax<axis = 1>(x)"])
def test_versions_in_bodies_are_different_operators(op: str) -> None:
    body = _rarely(f"t = {op}")
    assert not _is_proven(parsed(body, 11), parsed(body, 13))
    assert _is_proven(parsed(body, 13), parsed(body, 13))


def test_versions_that_differ_in_types_alone_are_one_operator() -> None:
    assert specification("Det", 11) == specification("Det", 22)
    assert specification("Hardmax", 11) != specification("Hardmax", 13)
    assert specification("ScatterND", 13) == specification("ScatterND", 18) != specification("TopK", 18)
    assert specification("TopK", 9) != specification("TopK", 10) == specification("TopK", 24)
    text = "g (float[n, 4, 4] x) => (float[n] y) { y = Det(x) }"
    assert checked(parsed(text, 17), parsed(text, 22), 3).verdict == EQUIVALENT


@pytest.mark.parametrize("where", ["t = l.H(x)", "g (float[2, 3, 4] x) => (float[2, 3, 4] y) { y = l.H(x) }"])
def test_functions_of_one_name_are_compared(where: str) -> None:
    graph = where if where.startswith("g") else _rarely(where)
    sine, cosine = _calling(graph, "o = Sin(a)"), _calling(graph, "o = Cos(a)")
    assert not _is_proven(sine, cosine)
    assert _is_proven(sine, sine)


def test_the_number_of_outputs_may_be_a_mode() -> None:
    """Before opset 14, a BatchNormalization of five outputs computes the statistics of the batch."""
    weights = "<float[1] s = {2}, float[1] b = {0.5}, float[1] m = {0.1}, float[1] v = {1}>"
    text = f"g (float[4] x) => (float[4] y) {weights} {{ y, a, c, d, e = BatchNormalization(x, s, b, m, v) }}"
    batch, test = parsed(text, 9), parsed(text.replace("y, a, c, d, e =", "y ="), 9)
    assert not _is_proven(batch, test) and not _is_proven(test, batch)
    assert _is_proven(test, test)


def test_a_function_in_place_of_a_fused_operator_is_compared() -> None:
    """ONNX Runtime takes no notice of such a function, but the specification does."""
    call = "g (uint8[4] x, float s, uint8 z) => (uint8[4] y) { y = com.microsoft.QLinearAdd(x, s, z, x, s, z, s, z) }"

    def defined(body: str) -> onnx.ModelProto:
        return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]> {call}
            <domain: "com.microsoft", opset_import: ["": 17]> QLinearAdd (a,b,c,d,e,f,g,h) => (o) {{ o = {body} }}""")

    assert checked(defined("Identity(a)"), defined("BitwiseNot(a)"), 3).verdict == UNKNOWN
    assert checked(defined("Identity(a)"), defined("Identity(a)"), 3).verdict == EQUIVALENT


def test_draws_of_functions_that_bodies_call_are_not_merged() -> None:
    draw = "If(c) <then_branch = a () => (float[2, 3, 4] t) { t = l.H(x) }, else_branch = b () => (float[2, 3, 4] e) "
    draw += "{ e = l.H(x) }>"
    head = f"g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ {RARE}"
    twice, once = (f"{head} p = {draw} {second} y = Sub(p, q) }}" for second in (f"q = {draw}", "q = Identity(p)"))
    function = "o = RandomNormalLike(a)"
    assert not _is_proven(_calling(twice, function), _calling(once, function))
    assert _is_proven(_calling(twice, "o = Sin(a)"), _calling(once, "o = Sin(a)"))


def test_a_model_without_a_required_input_is_none() -> None:
    text = "g (float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = Add(x, {}) }}"
    right = parsed(text.format("x"))
    right.graph.node[0].input[1] = ""
    assert checked(parsed(text.format("x")), right, 3).verdict == DIFFERENT


def test_no_input_is_tried_at_which_a_tensor_is_empty() -> None:
    head, scales = "g (float[n, 3, h, w] x) => (float[n, 3, p, q] y)", "<float[4] s = {1, 1, 0.5, 0.5}>"
    resize = 'y = Resize<mode = "linear", coordinate_transformation_mode = "half_pixel">(x, , s)'
    pool = "y = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(x)"
    left, right = parsed(f"{head} {scales} {{ {resize} }}"), parsed(f"{head} {{ {pool} }}")
    assert checked(left, right, 3).verdict != DIFFERENT  # of 1 x 1, the one gives 0 x 0, the other 1 x 1 or fails
