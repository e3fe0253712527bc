"""Look-ups in tables: what may be computed in the table, and which indices stop a run."""

from __future__ import annotations

from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import read_simplified
from tests.support.simplified import parsed

_TABLES = "float[5, 2] t = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, float[2, 2] w = {1, 2, 3, 5}"


def _is_proven(first: str, second: str, seconds: float = 10) -> bool:
    inputs = "int64[n, 3] i, int64[n, 3] j"
    models = (
        read_simplified(parsed(f"g ({inputs}) => (float[n, 3, 2] y) <{_TABLES}> {{ {nodes} }}", 17))
        for nodes in (first, second)
    )
    return prove_equal(*joined(*models), seconds=seconds).outputs == (True,)


def test_a_product_may_be_computed_in_the_table() -> None:
    product = "r = Gather(t, i) y = MatMul(r, w)"
    table = "p = MatMul(t, w) y = Gather(p, i)"
    assert _is_proven(product, table) and _is_proven(table, product)


def test_other_indices_are_others() -> None:
    assert not _is_proven("y = Gather(t, i)", "y = Gather(t, j)", 1)
    assert not _is_proven("y = Gather(t, i)", "s = Abs(i) y = Gather(t, s)", 1)


def test_a_look_up_that_may_fail_is_not_added() -> None:
    """x - x is 0 wherever x is known, and a run stops at an index out of range."""
    one, both = "y = Gather(t, i)", "r = Gather(t, i) s = Gather(t, j) z = Sub(s, s) y = Add(r, z)"
    assert not _is_proven(one, both, 1)
