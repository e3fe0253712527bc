"""How a kernel slides over its operand: the attributes that convolutions and poolings share."""

from __future__ import annotations

from superopt.ir.dim import Sizes
from superopt.onnx_io.importers.view import NodeView

__all__ = ["windows"]


def windows(view: NodeView, sizes: Sizes, kernel: Sizes) -> dict[str, tuple[int, ...]] | None:
    """`dilations`, `pads` and `strides` of a kernel over axes of these sizes, `auto_pad` resolved."""
    spatial = len(sizes)
    dilations = view.integers("dilations") or (1,) * spatial
    strides = view.integers("strides") or (1,) * spatial
    pads = view.integers("pads") or (0,) * (2 * spatial)
    if len(dilations) != spatial or len(strides) != spatial or min(*dilations, *strides) < 1:
        return None
    auto_pad = view.text("auto_pad", "NOTSET")
    if auto_pad == "VALID":
        pads = (0,) * (2 * spatial)
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        # With dilations runtimes differ in what SAME means; such nodes are left as they are.
        if any(d != 1 for d in dilations) or not all(isinstance(size, int) for size in (*sizes, *kernel)):
            return None
        total = [
            (-(-n // s) - 1) * s + k - n
            for n, s, k in zip(sizes, strides, kernel, strict=True)
            if isinstance(n, int) and isinstance(k, int)
        ]
        if min(total) < -1:
            return None  # between windows far apart: ONNX Runtime may start behind the first element, ONNX does not
        total = [max(p, 0) for p in total]
        less, more = tuple(p // 2 for p in total), tuple(p - p // 2 for p in total)
        pads = less + more if auto_pad == "SAME_UPPER" else more + less
    elif auto_pad not in ("NOTSET", ""):
        return None
    if len(pads) != 2 * spatial or min(pads) < 0:
        return None
    return {"dilations": dilations, "pads": pads, "strides": strides}
