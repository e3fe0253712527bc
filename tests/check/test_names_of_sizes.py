"""Names of sizes that look like sizes that are computed: a dimension called `2*n` is no twice that called `n`."""

from __future__ import annotations

import pytest

from superopt.check.equality import joined, prove_equal
from superopt.ir.dim import symbol
from superopt.onnx_io import read_simplified
from superopt.onnx_io.tensor_types import size_symbol
from tests.support.simplified import parsed

IF = """g (float[n,k] x, float["{size}",k] y, bool c) => (float[k] o) <int64[1] axis = {{0}}> {{
    u = Concat<axis = 0>(x, x)
    o = If(c) <then_branch = a () => (float[kk] s) {{ {body} }},
               else_branch = b () => (float[kk] t) {{ t = ReduceSum<keepdims = 0>(x, axis) }}> }}"""
SUM = "w = Add(u, y) s = ReduceSum<keepdims = 0>(w, axis)"
SUMS = "w = ReduceSum<keepdims = 0>(u, axis) v = ReduceSum<keepdims = 0>(y, axis) s = Add(v, w)"

LOOP = """g (float[n] x, float["{size}"] y, int64 trip, bool yes, float zero) => (float o) <int64[1] axis = {{0}}> {{
    h, o = Loop(trip, yes, x, zero) <body = l (int64 i, bool ci, float[hh] state, float total)
        => (bool co, float[hz] longer, float more) {{
            co = Identity(ci) longer = Concat<axis = 0>(state, x) {body} more = Add(total, s) }}> }}"""

CASES = {
    "in a branch": (IF, "2*n", SUM, SUMS),
    "in an iteration": (LOOP, "[0]'state'", SUM.replace("u,", "state,"), SUMS.replace("u,", "state,")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sum_of_broadcast_rows_is_no_sum_of_sums(name: str) -> None:
    """The row y is added to each other one if the size is 1."""
    text, size, one, other = CASES[name]
    pair = (read_simplified(parsed(text.format(size=size, body=body))) for body in (one, other))
    assert not all(prove_equal(*joined(*pair), seconds=3).outputs)


def test_shapes_of_rows_that_may_be_broadcast_differ() -> None:
    text = 'g (int64[n] x, int64["2*n"] y) => (int64[1] s) {{ {body} s = Shape({of}) }}'
    body = "u = Concat<axis = 0>(x, x) w = BitwiseAnd(u, y)"
    pair = (
        read_simplified(parsed(text.format(body=part, of=of), 18)) for part, of in ((body, "w"), ("", "y"))
    )  # fmt: skip
    assert not all(prove_equal(*joined(*pair), seconds=3).outputs)


def test_no_two_sizes_have_one_text() -> None:
    n = symbol("n")
    names = ["n", "2*n", "'2*n'", "n + 1", "(n) // (2)", "[0]'n'", "-n"]
    sizes = [2 * n, n + 1, -n, 2 * size_symbol("'2*n'"), *map(size_symbol, names), size_symbol("n", 0)]
    sizes += [size_symbol("m", 0) * n, size_symbol("m'*n", 0)]
    assert len({str(size) for size in sizes}) == len(set(sizes)) == len(sizes)


def test_such_names_stay_in_the_file() -> None:
    model = parsed('g (float["past + new", 2] x) => (float["past + new", 2] y) { y = Relu(x) }')
    found = read_simplified(model)
    assert str(found.inputs[0].types[0]) == "float['past + new', 2]"
    at = read_simplified(model, {"x": (3, 2)})
    assert at.sizes == {"'past + new'": 3}
    assert found.skeleton.graph.input == model.graph.input
