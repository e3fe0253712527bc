"""superopt makes ONNX models faster with rules that are proven for every tensor size.

    import superopt
    result = superopt.optimize("model.onnx", "fast.onnx")
    result = superopt.optimize("model.onnx", "fast.onnx", superopt.Options(ep="cpu", budget=300.0))
    print(result)

    model, ok = superopt.simplify(onnx.load("model.onnx"))
    answer = superopt.check.check("model.onnx", "fast.onnx")
    graph = superopt.graph.to_networkx("model.onnx")

The names below, `superopt.check`, `superopt.graph` and `superopt.report` are imported on first use, so that
`superopt.ir` can be imported with only the standard library installed, and the kernel with Z3.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as in `typing`, which takes a while to import
if TYPE_CHECKING:
    from superopt import check, graph, report
    from superopt.files import OutputError
    from superopt.onnx_io.model import ModelError
    from superopt.optimizer import Options, Result, optimize, simplify
    from superopt.rulebook.loading import RulesError
    from superopt.runtime.shapes import InputError
    from superopt.runtime.target import RuntimeUnavailable
    from superopt.search.cost.device import DeviceError

    __version__: str
else:

    def __getattr__(name):
        if name in ("check", "graph", "report"):
            return importlib.import_module(f"superopt.{name}")
        if name in _MODULES:
            return getattr(importlib.import_module(f"superopt.{_MODULES[name]}"), name)
        if name == "__version__":
            return _version()
        raise AttributeError(f"module 'superopt' has no attribute {name!r}")


_MODULES = {
    **dict.fromkeys(("Options", "Result", "optimize", "simplify"), "optimizer"),
    "DeviceError": "search.cost.device",
    "InputError": "runtime.shapes",
    "ModelError": "onnx_io.model",
    "OutputError": "files",
    "RulesError": "rulebook.loading",
    "RuntimeUnavailable": "runtime.target",
}

__all__ = ["Options", "Result", "optimize", "simplify", "check", "graph", "report"]
__all__ += ["DeviceError", "InputError", "ModelError", "OutputError", "RulesError", "RuntimeUnavailable"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("superopt")
    except PackageNotFoundError as error:
        raise AttributeError("superopt has no version: it runs from a checkout that is not installed") from error
