"""superopt: ONNX models made faster by rules that are proven for every tensor size.

    import superopt
    result = superopt.optimize("model.onnx", "fast.onnx")

The names below are loaded when first used, so that `superopt.ir` and the kernel can be imported with nothing but
the standard library behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import superopt.ops as _  # noqa: F401  registers the operators

if TYPE_CHECKING:
    from superopt.optimizer import Result, optimize

__all__ = ["Result", "optimize"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from superopt import optimizer

        return getattr(optimizer, name)
    raise AttributeError(f"module 'superopt' has no attribute {name!r}")
