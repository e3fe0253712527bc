"""Values that options may have, which modules that import much and the command line's help both state.

Nothing is imported here but the standard library.
"""

from __future__ import annotations

import os

__all__ = ["EXECUTION_PROVIDERS", "FIRST_OPSET", "MOST_THREADS", "RUNTIMES"]

EXECUTION_PROVIDERS = ("auto", "cpu", "cuda")  # of ONNX Runtime, the values of `ep`
RUNTIMES = ("onnxruntime", "openvino")  # values of `target`, the names of their modules

MOST_THREADS = 8 * (os.cpu_count() or 1)  # with thousands, a run of a small model has no end

FIRST_OPSET = 7  # older operators broadcast by attributes; models with older, or unknown newer, opsets stay opaque
