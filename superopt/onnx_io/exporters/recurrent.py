"""Recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.onnx_io.exporters.emission import Emission, Emitter
from superopt.ops.recurrent import RECURRENT

__all__ = ["EMITTERS"]


def _recurrent(e: Emission) -> list[onnx.NodeProto]:
    """The lengths of sequences, which ONNX has before the states, are absent: all are as long as X."""
    e.inputs.insert(4, "")
    shape = e.term.types[1].shape if e.term.types[1] is not None else None
    if shape is None or not isinstance(shape[2], int):
        return e.node(**e.attrs)
    return e.node(hidden_size=shape[2], **e.attrs)


EMITTERS: Mapping[str, Emitter] = dict.fromkeys(RECURRENT, _recurrent)
