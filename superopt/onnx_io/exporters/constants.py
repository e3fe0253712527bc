"""Constants in closed form."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.onnx_io.exporters.emission import Emitter

__all__ = ["EMITTERS"]

EMITTERS: Mapping[str, Emitter] = {}
