"""Pooling."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.dim import Sizes
from superopt.ir.term import Attr
from superopt.onnx_io.importers.view import NodeView, Row, Unreadable, plain
from superopt.onnx_io.importers.windows import windows

__all__ = ["READERS"]


def _max_pool(view: NodeView) -> dict[str, Attr] | None:
    found = _pool(view)
    return None if found is None else dict(found)


def _average_pool(view: NodeView) -> dict[str, Attr] | None:
    found = _pool(view)
    if found is None:
        return None
    counted = view.integer("count_include_pad", 0) != 0
    if counted and view.integer("ceil_mode", 0):
        return None  # where a window reaches beyond the padding, what lies beyond is not counted
    return {**found, "count_include_pad": int(counted and any(found["pads"]))}


def _pool(view: NodeView) -> dict[str, tuple[int, ...]] | None:
    shape, kernel = view.shape(0), view.integers("kernel_shape")
    if shape is None or kernel is None or len(shape) < 3 or len(kernel) != len(shape) - 2:
        return None
    found = windows(view, shape[2:], kernel)
    if found is None:
        return None
    found["kernel_shape"] = kernel
    if view.integer("ceil_mode", 0):
        found["pads"] = _rounded_up(view, shape[2:], **found)
    return found


def _rounded_up(
    view: NodeView,
    sizes: Sizes,
    dilations: tuple[int, ...],
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> tuple[int, ...]:
    """Pads that make room for as many windows as `ceil_mode` asks for: the last one may reach beyond the padding."""
    if view.text("auto_pad", "NOTSET") not in ("NOTSET", ""):
        raise Unreadable("ceil_mode")  # the specification and runtimes differ in whether VALID is rounded up
    begins, ends = pads[: len(sizes)], list(pads[len(sizes) :])
    for d, (size, begin, stride) in enumerate(zip(sizes, begins, strides, strict=True)):
        if not isinstance(size, int):
            raise Unreadable("ceil_mode")
        room = size + begin + ends[d] - ((kernel_shape[d] - 1) * dilations[d] + 1)
        last = -(-room // stride) * stride  # where the last window starts
        if last < size + begin:
            ends[d] += last - room
        elif view.opset < 22:
            # It would start in the padding at the end. Opset 22 says that there is no such window; runtimes leave it
            # out in older opsets as well, although the formula there (and ONNX's shape inference) counts it.
            raise Unreadable("ceil_mode")
    return (*begins, *ends)


READERS: Mapping[str, Row] = {
    "MaxPool": Row(1, 1, _max_pool),
    "AveragePool": Row(1, 1, _average_pool),
    **dict.fromkeys(("GlobalMaxPool", "GlobalAveragePool"), Row(1, 1, plain)),
}
