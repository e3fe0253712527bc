"""Nodes of the second model that are no part of its terms: ONNX Runtime runs them, and they may fail."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from superopt.check import DIFFERENT, EQUIVALENT, UNKNOWN, CheckOptions, check, replay
from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import read_simplified
from tests.support.checked import checked
from tests.support.simplified import parsed

RELU = "g (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"


def _pair(first: str, second: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    return parsed(first), parsed(second)


def _with(nodes: str, inputs: str = "float[n, 4] x", weights: str = "") -> str:
    return f"g ({inputs}) => (float[n, 4] y) {weights} {{ {nodes} y = Relu(x) }}"


def test_an_unread_node_may_not_fail() -> None:
    unread = _with("t = Gather<axis = 0>(x, i)", weights="<int64[1] i = {2}>")
    assert checked(*_pair(RELU, unread), 1).verdict == DIFFERENT  # for two rows
    rows = _with("t = Gather<axis = 0>(x, i)", "float[n, 4] x, int64[1] i")
    assert checked(*_pair(_with("", "float[n, 4] x, int64[1] i"), rows), 1).verdict != EQUIVALENT
    assert checked(*_pair(unread, unread), 1).verdict == EQUIVALENT
    assert checked(*_pair(RELU, _with("s = Shape(x) t = Transpose<perm = [1, 0]>(x)")), 1).verdict == EQUIVALENT


def test_text_that_is_no_unicode() -> None:
    model = parsed('g (string[2] s) => (bool[2] y) <string[1] k = {"a"}> { y = Equal(s, k) }', 19)
    model.graph.initializer[0].string_data[:] = [b"\xff"]
    assert checked(model, model, 5).verdict == EQUIVALENT


def test_an_unread_node_that_always_fails_is_a_difference() -> None:
    failing = _with("t = Gather<axis = 1>(x, i)", weights="<int64[1] i = {7}>")
    assert checked(*_pair(RELU, failing), 1).verdict == DIFFERENT
    hidden = "t = Gather<axis = 1>(x, i) w = Where(yes, x, t) y = Relu(w)"
    chosen = f"g (float[n, 4] x) => (float[n, 4] y) <int64[1] i = {{7}}, bool yes = {{1}}> {{ {hidden} }}"
    assert checked(*_pair(RELU, chosen), 1).verdict == DIFFERENT


def test_a_node_of_which_the_shape_is_read_may_not_fail() -> None:
    body = "t = Gather<axis = 0>(x, i) s = Shape(t) c = Slice(s, one, two) d = Concat<axis = 0>(n, c) z = Reshape(x, d)"
    weights = "<int64[1] i = {2}, int64[1] one = {1}, int64[1] two = {2}, int64[1] n = {-1}>"
    other = f"g (float[n, 4] x) => (float[n, 4] y) {weights} {{ {body} y = Relu(z) }}"
    assert checked(*_pair(RELU, other), 1).verdict != EQUIVALENT  # it fails for two rows
    assert not all(prove_equal(*joined(*map(read_simplified, _pair(RELU, other))), seconds=1).outputs)


def test_a_reshape_needs_sizes_to_be_equal() -> None:
    inputs, weights = "float[n, 4] x, float[m] z", "<int64[1] c = {4}>"
    shape = "s = Shape(z) t = Concat<axis = 0>(s, c) r = Reshape(x, t)"
    reshaped = f"g ({inputs}) => (float[n, 4] y) {weights} {{ {shape} y = Relu(r) }}"
    plain = _with("", inputs)
    assert checked(*_pair(plain, reshaped), 1).verdict == DIFFERENT
    assert checked(*_pair(reshaped, plain), 1).verdict == EQUIVALENT
    assert checked(*_pair(reshaped, reshaped), 1).verdict == EQUIVALENT


def test_a_certificate_does_not_replay_for_unread_nodes(tmp_path: Path) -> None:
    left, right = _pair(RELU, _with("s = Shape(x)"))
    options = CheckOptions(seconds=1, certificate=tmp_path / "proof.json")
    assert check(left, right, options).verdict == EQUIVALENT
    assert replay(tmp_path / "proof.json", left, right).verdict == EQUIVALENT
    unread = parsed(_with("t = Gather<axis = 0>(x, i)", weights="<int64[1] i = {2}>"))
    assert replay(tmp_path / "proof.json", left, unread).verdict == UNKNOWN


def test_an_unknown_operator_of_onnx_is_no_model() -> None:
    assert checked(*_pair(RELU, _with("t = Foo(x)")), 1).verdict == DIFFERENT


@pytest.mark.parametrize("name", ["least_0", "n"])
def test_a_size_may_have_any_name(name: str) -> None:
    """A slice up to 5 has min(5, k) rows, which is no size of an input, whatever that is called."""
    weights = "<int64[1] a = {0}, int64[1] b = {5}>"
    plain = f"g (float[{name}] x, float[k] z) => (float[r] y) {weights} {{ s = Slice(z, a, b) y = Relu(s) }}"
    body = "s = Slice(z, a, b) h = Shape(x) t = Reshape(s, h) y = Relu(t)"
    other = f"g (float[{name}] x, float[k] z) => (float[r] y) {weights} {{ {body} }}"
    assert checked(*_pair(plain, other), 1).verdict == DIFFERENT


def test_the_first_reading_is_kept() -> None:
    model = read_simplified(parsed(_with("a = Identity(x) b = Identity(a)")))
    assert model.first is None or len((model.first.light or onnx.ModelProto()).graph.node) == 3


def test_nodes_of_one_name_may_read_other_tensors() -> None:
    """Both read a third row of `u`: of a weight with six rows, and of a Relu of the input."""
    head, weights = "g (float[n, 4] x) => (float[n, 4] y)", "<int64[1] i = {2}, float[6] w = {1, 2, 3, 4, 5, 6}>"
    rest = "t = Gather<axis = 0>(u, i) y = Relu(x) }"
    left = f"{head} {weights} {{ u = Neg(w) {rest}"
    right = f"{head} {weights} {{ u = Neg(x) {rest}"
    assert not all(prove_equal(*joined(*map(read_simplified, _pair(left, right))), seconds=1).outputs)
    assert all(prove_equal(*joined(*map(read_simplified, _pair(left, left))), seconds=1).outputs)
    renamed = left.replace("u =", "v =").replace("(u", "(v")
    assert all(prove_equal(*joined(*map(read_simplified, _pair(left, renamed))), seconds=1).outputs)


@pytest.mark.parametrize("other", ["{7}", "{-9}"])
def test_nodes_that_read_other_constants_are_others(other: str) -> None:
    body = "t = Gather<axis = 0>(x, i)"
    left, right = _with(body, weights="<int64[1] i = {2}>"), _with(body, weights=f"<int64[1] i = {other}>")
    assert not all(prove_equal(*joined(*map(read_simplified, _pair(left, right))), seconds=1).outputs)


def _if(then: str) -> onnx.ModelProto:
    branches = f"then_branch = a () => (float[n, 4] o) {{ {then} o = Relu(x) }}, "
    branches += "else_branch = b () => (float[n, 4] e) { e = Neg(x) }"
    return parsed(f"g (float[n, 4] x, bool c) => (float[n, 4] y) {{ y = If(c) <{branches}> }}")


def test_constants_of_bodies_may_fail_when_it_is_their_turn() -> None:
    failing = "t = Constant<value_ints = [1, 2]>() i = Constant<value_int = 7>() d = Gather(t, i)"
    renamed = "m = Abs(x) "
    left, right = (_if(renamed), _if(failing))
    assert not all(prove_equal(*joined(read_simplified(left), read_simplified(right)), seconds=2).outputs)
    assert all(prove_equal(*joined(read_simplified(right), read_simplified(right)), seconds=2).outputs)


def test_a_cast_of_text_may_fail() -> None:
    head = "g (string[n] s) => (double[n] y) {"
    left, right = (
        parsed(f"{head} y = Cast<to = 11>(s) }}"),
        parsed(f"{head} d = Cast<to = 7>(s) y = Cast<to = 11>(s) }}"),
    )
    assert not all(prove_equal(*joined(read_simplified(left), read_simplified(right)), seconds=2).outputs)


def _is_proven(first: str, second: str) -> bool:
    return all(prove_equal(*joined(*map(read_simplified, _pair(first, second))), seconds=3).outputs)


def test_a_tensor_of_which_the_shape_alone_is_read_must_be_computed_as_often() -> None:
    """CumSum has no result for another axis than 0 and 1, and its shape is known."""
    inputs = "float[n, 4] x, int64 axis, float[k] z"
    plain = f"g ({inputs}) => (int64[2] s) {{ s = Shape(x) }}"
    summed = f"g ({inputs}) => (int64[2] s) {{ c = CumSum(x, axis) s = Shape(c) }}"
    assert not _is_proven(plain, summed)
    assert _is_proven(summed, plain) and _is_proven(summed, summed)


def test_a_sum_does_not_need_the_sizes_that_a_concat_needs() -> None:
    """x + z is computed for one row of z as well."""
    text = "g (float[n, 4] x, float[m, 4] z) => (float[k, 4] y) {{ y = Add(x, z) {} }}"
    summed, joined_too = text.format(""), text.format("d = Concat<axis = 1>(x, z)")
    assert not _is_proven(summed, joined_too)
    assert _is_proven(joined_too, summed) and _is_proven(joined_too, joined_too)


@pytest.mark.parametrize(
    ("inputs", "node"),
    [
        ("int8[2, k] a, int8[k, 3] b, int8[m] z", "d = MatMulInteger(a, b, , z)"),
        ("float[2, 3] a, float r, int64 k", "d = Dropout(a, r)"),
    ],
)
def test_nodes_that_no_output_needs_may_need_more_than_sizes(inputs: str, node: str) -> None:
    text = f"g ({inputs}, float[n] x) => (float[n] y) {{{{ y = Relu(x) {{}} }}}}"
    assert not _is_proven(text.format(""), text.format(node))
    assert _is_proven(text.format(node), text.format(""))


def test_a_share_that_is_no_share_is_no_dropout() -> None:
    dropped = "g (float[n] x, float r) => (float[n] y) { d = Dropout(x, r) y = Relu(d) }"
    plain = "g (float[n] x, float r) => (float[n] y) { y = Relu(x) }"
    assert not _is_proven(plain, dropped)
    known = dropped.replace("(float[n] y)", "(float[n] y) <float s = {0.3}>").replace("(x, r)", "(x, s)")
    assert _is_proven(plain, known)
    masked = plain.replace("{ y", "{ d, m = Dropout(x) y")
    assert _is_proven(plain, masked) and not _is_proven(plain, masked.replace("Dropout(x)", "Dropout(x, r)"))


def test_sizes_that_wrap_around_are_not_known() -> None:
    """2^28 n is negative in 32 bits for n = 8."""
    text = """g (float[n] x) => (int64[1] y) <int32[1] f = {{268435456}}, int64[1] g = {{268435456}}>
        {{ s = Shape(x) {} }}"""
    short, long = "c = Cast<to = 6>(s) m = Mul(c, f) y = Cast<to = 7>(m)", "y = Mul(s, g)"
    assert not _is_proven(text.format(short), text.format(long))
    assert _is_proven(text.format(short), text.format(short))


@pytest.mark.parametrize(
    "node",
    [
        "t = Split<axis = 0>(x, two)",  # for two rows
        "t = Pad(x, zeros, , axes)",  # for axes that there are
        "t = Pad(x, zero, values)",  # for one value
        't = Resize<mode = "cubic">(x, , ones)',  # for four axes, or two
    ],
)
def test_what_fails_somewhere_is_no_no_op(node: str) -> None:
    ends = "(float[n, 4, 3] x, int64[2] axes, float[k] values) => (float[n, 4, 3] y)"
    weights = "<int64[1] two = {2}, int64[2] zeros = {0, 0}, int64[6] zero = {0, 0, 0, 0, 0, 0}, "
    weights += "float[3] ones = {1, 1, 1}>"
    plain, other = f"g {ends} {{ y = Relu(x) }}", f"g {ends} {weights} {{ {node} y = Relu(t) }}"
    pair = [read_simplified(parsed(text, 18)) for text in (plain, other)]
    assert not all(prove_equal(*joined(*pair), seconds=3).outputs)


def test_what_a_chosen_branch_does_not_need_is_run_too() -> None:
    text = """g (float[n, 4] x, int64 k) => (float[n, 4] y) <bool yes = {1}> {
        y = If(yes) <then_branch = a () => (float[n, 4] p) { BODY p = Relu(x) },
                     else_branch = b () => (float[n, 4] q) { q = Neg(x) }> }"""
    plain, same = "g (float[n, 4] x, int64 k) => (float[n, 4] y) { y = Relu(x) }", text.replace("BODY", "d = Relu(x)")
    summed = text.replace("BODY", "d = CumSum(x, k)")
    assert not _is_proven(plain, summed)
    assert _is_proven(summed, summed) and _is_proven(summed, plain) and _is_proven(plain, same)


def test_branches_may_share_names() -> None:
    """Both have a tensor d: the Concat of one needs n = m, the other needs nothing."""
    branch = """y{k} = If(yes) <then_branch = a{k} () => (float[k] p{k}) {{ {body} }},
        else_branch = b{k} () => (float[k] q{k}) {{ q{k} = Neg(x) }}>"""
    text = "g (float[n, 4] x, float[m, 4] z) => (float[n, 4] y) <bool yes = {{1}}> {{ {} {} y = Add(y1, y2) }}"
    bodies = "d = Concat<axis = 1>(x, z) p1 = Relu(x)", "d = Relu(x) p1 = Relu(x)", "d = Relu(x) p2 = Identity(d)"
    needs, plain, other = (branch.format(k=k, body=body) for k, body in zip((1, 1, 2), bodies, strict=True))
    assert not _is_proven(text.format(plain, other), text.format(needs, other))
    assert _is_proven(text.format(needs, other), text.format(needs, other))


def test_sizes_that_no_input_tells_are_those_of_one_tensor() -> None:
    """As many rows as w has elements other than 0, or as z has."""
    text = """g (float[k] w, float[m] z, float[n] x) => (float[a, b] y) <int64[1] two = {2}> {
        i = NonZero(w) j = NonZero(z) c = Shape<start = 1>(i) d = Shape<start = 1>(j)
        t = Concat<axis = 0>(ROWS, two) y = Reshape(x, t) }"""
    assert not _is_proven(text.replace("ROWS", "c"), text.replace("ROWS", "d"))
    assert _is_proven(text.replace("ROWS", "c"), text.replace("ROWS", "c"))


@pytest.mark.parametrize(
    ("parts", "bias", "may_fail"),
    [("{3, 5}", "8", False), ("{3, 4}", "8", True), ("{3, 5}", "7", True), ("{3, 5}", "m", True)],
)
def test_a_layer_that_is_unread_fails_for_its_sizes_only(parts: str, bias: str, may_fail: bool) -> None:
    head = f"g (float[n, 4] x, float[4, 8] w, float[{bias}] b, float[n, k] z) => (float[n, k] y)"
    layer = "m = Gemm(x, w, b) s, t = Split<axis = 1>(m, p) u = Sigmoid(s) v = Tanh(t)"
    plain, unread = (f"{head} <int64[2] p = {parts}> {{ {nodes} y = Relu(z) }}" for nodes in ("", layer))
    assert _is_proven(plain, unread) is not may_fail
