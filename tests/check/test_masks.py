"""Masks of one truth value: the proof uses their value, also where constants give it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.helper import make_node as node

from superopt.check.certificate import Certificate
from superopt.check.equality import joined, prove_equal
from superopt.onnx_io import Model, read_simplified
from tests.support.models import floats, model

LOW = np.array(-1e30, np.float32)
BLOCKED = [node("Where", ["m", "zeros", "low"], ["y"])]


def _model(*nodes: onnx.NodeProto, dtype: int = TensorProto.FLOAT, **values: np.ndarray) -> Model:
    mask = helper.make_tensor_value_info("m", TensorProto.BOOL, ["n", 1, 5])
    output = helper.make_tensor_value_info("y", dtype, ["n", 4, 5])
    real = helper.tensor_dtype_to_np_dtype(dtype)
    given = {"low": LOW.clip(-6e4).astype(real) if dtype == TensorProto.FLOAT16 else LOW.astype(real), **values}
    given = {name: array.astype(real) if array.dtype == np.float32 else array for name, array in given.items()}
    return read_simplified(model(nodes, [mask], [output], list(given.items())))


def _with_mask(positions: np.ndarray, limit: int, join: str = "And", dtype: int = TensorProto.FLOAT) -> Model:
    """Return a model that blocks by `m` and by a computed mask: the positions that are at least `limit`."""
    computed = [node("GreaterOrEqual", ["p", "k"], ["g"]), node("Cast", ["g"], ["c"], to=TensorProto.BOOL)]
    both = [node(join, ["c", "m"], ["b"]), node("Where", ["b", "zero", "low"], ["y"])]
    zero = np.zeros((), np.float32)
    return _model(*computed, *both, dtype=dtype, p=positions, k=np.array(limit), zero=zero)


def _without_mask(dtype: int = TensorProto.FLOAT) -> Model:
    return _model(*BLOCKED, dtype=dtype, zeros=np.zeros((1, 4, 1), np.float32))


def _positions() -> np.ndarray:
    return np.arange(4).reshape(1, 4, 1)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_a_computed_mask_that_hides_nothing_may_be_left_out(dtype: int, tmp_path: Path) -> None:
    left, right = joined(_with_mask(_positions(), 0, dtype=dtype), _without_mask(dtype))
    found = prove_equal(left, right, seconds=10)
    assert found.outputs == (True,) and found.certificate is not None
    found.certificate.write(tmp_path / "c.json")
    assert Certificate.read(tmp_path / "c.json").replay(left, right)


def test_a_mask_that_hides_all_or_a_part_is_kept() -> None:
    plain = _without_mask()
    for limit in (1, 4):
        assert prove_equal(*joined(_with_mask(_positions(), limit), plain), seconds=1).outputs == (False,)


def test_an_or_with_what_is_false_everywhere_may_be_left_out_but_not_with_what_is_true() -> None:
    plain = _without_mask()
    assert prove_equal(*joined(_with_mask(_positions(), 4, "Or"), plain), seconds=10).outputs == (True,)
    assert prove_equal(*joined(_with_mask(_positions(), 0, "Or"), plain), seconds=1).outputs == (False,)


def test_a_claim_with_a_mask_does_not_hold_for_a_mask_that_is_an_input(tmp_path: Path) -> None:
    left, right = joined(_with_mask(_positions(), 0), _without_mask())
    found = prove_equal(left, right, seconds=10)
    assert found.certificate is not None
    found.certificate.write(tmp_path / "c.json")
    masks = [
        helper.make_tensor_value_info("m", TensorProto.BOOL, ["n", 1, 5]),
        helper.make_tensor_value_info("k", TensorProto.BOOL, ["n", 4, 1]),
    ]
    masked = [node("And", ["k", "m"], ["b"]), node("Where", ["b", "zero", "low"], ["y"])]
    values = [("low", LOW), ("zero", np.zeros((), np.float32)), ("zeros", np.zeros((1, 4, 1), np.float32))]
    models = [read_simplified(model(part, masks, [floats("y", "n", 4, 5)], values)) for part in (masked, BLOCKED)]
    assert not Certificate.read(tmp_path / "c.json").replay(*joined(*models))
    assert prove_equal(*joined(*models), seconds=1).outputs == (False,)
