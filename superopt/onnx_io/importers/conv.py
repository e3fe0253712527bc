"""Convolutions."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row

__all__ = ["READERS"]


def _conv_transpose(view: NodeView) -> dict[str, Attr] | None:
    x, w = view.shape(0), view.shape(1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        return None
    spatial, stated, auto_pad = len(x) - 2, view.integers("kernel_shape"), view.text("auto_pad", "NOTSET")
    # Pads that follow from a wanted output shape were split in different ways by versions of the specification.
    if auto_pad not in ("NOTSET", "VALID", "") or view.integers("output_shape"):
        return None
    if view.integer("group", 1) < 1 or (stated is not None and stated != w[2:]):
        return None
    zeros, ones = (0,) * spatial, (1,) * spatial
    return {
        "dilations": view.integers("dilations") or ones,
        "group": view.integer("group", 1),
        "output_padding": view.integers("output_padding") or zeros,
        "pads": (view.integers("pads") if auto_pad != "VALID" else None) or zeros + zeros,
        "strides": view.integers("strides") or ones,
    }


READERS: Mapping[str, Row] = {"ConvTranspose": Row(2, 3, _conv_transpose)}
