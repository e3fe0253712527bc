"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from superopt.evaluate.standard import Compute

__all__ = ["COMPUTE"]

COMPUTE: Mapping[str, Compute] = {
    "Einsum": lambda inputs, attrs: [np.asarray(np.einsum(attrs["equation"], *inputs, optimize=True))],
}
