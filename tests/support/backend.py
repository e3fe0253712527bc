"""The 149 models that ship inside the onnx package, with inputs and expected outputs where there are any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
from onnx import numpy_helper

DATA = Path(onnx.backend.test.__file__).parent / "data"
CASES = sorted(
    path.parent
    for kind in ("simple", "pytorch-converted", "pytorch-operator")
    for path in (DATA / kind).glob("*/model.onnx")
)
LIGHT = sorted((DATA / "light").glob("*.onnx"))


def load_value(path: Path) -> Any:
    """A tensor, or a sequence of tensors, from one of the data sets' files."""
    data = path.read_bytes()
    tensor = onnx.TensorProto.FromString(data)
    if tensor.data_type:
        return numpy_helper.to_array(tensor)
    return numpy_helper.to_list(onnx.SequenceProto.FromString(data))


def assert_same(got: list[Any], expected: list[Any], rtol: float, atol: float) -> None:
    """Equality of outputs: within tolerance, sequences item by item, strings exactly."""
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        if isinstance(other, list):
            assert_same(one, other, rtol, atol)
        elif np.asarray(other).dtype.kind in "OSU":
            assert np.asarray(one).tolist() == np.asarray(other).tolist()
        else:
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
