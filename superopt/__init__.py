"""superopt makes ONNX models faster with rules that are proven for every tensor size.

    import superopt
    result = superopt.optimize("model.onnx", "fast.onnx")
    result = superopt.optimize("model.onnx", "fast.onnx", superopt.Options(ep="cpu", budget=300.0))
    print(result)

    model, ok = superopt.simplify(onnx.load("model.onnx"))

    graph = superopt.graph.to_networkx("model.onnx")

The names below, and `superopt.graph`, are imported on first use, so that `superopt.ir` can be imported with only
the standard library installed, and the kernel with Z3.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in `typing`, which takes a while to import
if TYPE_CHECKING:
    from superopt.optimizer import Options, Result, optimize, simplify

__all__ = ["Options", "Result", "optimize", "simplify"]


def __getattr__(name: str) -> object:
    if name == "graph":
        return importlib.import_module("superopt.graph")
    if name in __all__:
        from superopt import optimizer

        return getattr(optimizer, name)
    raise AttributeError(f"module 'superopt' has no attribute {name!r}")
