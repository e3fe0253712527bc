"""QuantizeLinear and DequantizeLinear in ONNX Runtime: each element is one function of its number, wherever it is.

Both count as operators of one result (`Operator.ieee`), so proofs of bit-for-bit equality may contain them.
"""

from __future__ import annotations

import numpy as np
import pytest

from superopt.ir.infer import make
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.onnx_io import new_model, write_model
from tests.support.runtime_oracle import session

_SIZES = (1, 7, 16, 33, 1031)  # of one vector, of several, and of a rest


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_each_element_is_rounded_by_itself(dtype: str) -> None:
    ends, rng = np.iinfo(dtype), np.random.default_rng(0)
    for size in _SIZES:
        x = (rng.uniform(-2, 2, size) * (ends.max - ends.min)).astype(np.float32)
        x[::3] = np.rint(x[::3]) + np.float32(0.5)
        x[::5] = rng.choice(np.float32([np.nan, np.inf, -np.inf, 3e38, -0.0]), len(x[::5]))
        scale, zero = np.float32(0.75), np.array(rng.integers(ends.min, ends.max), dtype)
        term = make(
            "QuantizeLinear",
            (var("x", tensor(size)), var("s", tensor()), var("z", tensor(dtype=dtype))),
            {"axis": -1},
        )
        (found,) = session(write_model(new_model([term], opset=21))).run(
            None, {"x": x, "s": np.array(scale), "z": zero}
        )
        with np.errstate(all="ignore"):
            rounded = np.rint(x / scale) + np.float64(zero)
        expected = np.where(np.isnan(rounded), ends.min, np.clip(rounded, ends.min, ends.max))
        np.testing.assert_array_equal(found, expected.astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32"])
def test_each_element_is_scaled_by_one_product(dtype: str) -> None:
    ends, rng = np.iinfo(dtype), np.random.default_rng(0)
    for size in _SIZES:
        x = rng.integers(ends.min, ends.max, size, endpoint=True).astype(dtype)
        scale = np.float32(rng.uniform(0.001, 3))
        zero = np.array(0 if dtype == "int32" else rng.integers(ends.min, ends.max), dtype)
        term = make(
            "DequantizeLinear",
            (var("x", tensor(size, dtype=dtype)), var("s", tensor()), var("z", tensor(dtype=dtype))),
            {"axis": -1},
        )
        (found,) = session(write_model(new_model([term], opset=21))).run(
            None, {"x": x, "s": np.array(scale), "z": zero}
        )
        np.testing.assert_array_equal(found, (x.astype(np.int64) - int(zero)).astype(np.float32) * scale)
