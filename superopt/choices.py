"""Values that options may have, which modules that import much and the command line's help both state.

Nothing is imported here.
"""

from __future__ import annotations

__all__ = ["EXECUTION_PROVIDERS", "FIRST_OPSET", "RUNTIMES"]

EXECUTION_PROVIDERS = ("auto", "cpu", "cuda")  # of ONNX Runtime, the values of `ep`
RUNTIMES = ("onnxruntime", "openvino")  # values of `target`, the names of their modules

FIRST_OPSET = 7  # older operators broadcast by attributes; models with older, or unknown newer, opsets stay opaque
