"""Constants in closed form."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from superopt.evaluate.standard import Compute

__all__ = ["COMPUTE"]

COMPUTE: Mapping[str, Compute] = {
    "Constant": lambda inputs, attrs: [np.array(attrs["value_floats"], np.float64).reshape(attrs["shape"])],
    "ConstantOfShape": lambda inputs, attrs: [np.full(attrs["shape"], attrs["value"], np.float64)],
    "Range": lambda inputs, attrs: [attrs["start"] + attrs["delta"] * np.arange(attrs["n"], dtype=np.float64)],
}
