"""Importers of sliding-window operators: the attributes that convolution and pooling share."""

from __future__ import annotations

from collections.abc import Sequence

from superopt.ir.dim import Size, Sizes
from superopt.ir.term import Attr
from superopt.onnx_io.nodes.view import NodeView, Unreadable

__all__ = ["read_windows"]


def read_windows(view: NodeView, attrs: Sequence[str]) -> dict[str, Attr]:
    """Read the attributes of an operator with `strides`; `attrs`, its other attributes, determine its kind."""
    if "output_padding" in attrs:
        return _transposed_convolution(view)
    return _pooling(view) if "kernel_shape" in attrs else _convolution(view)


def _convolution(view: NodeView) -> dict[str, Attr]:
    """Read `dilations`, `pads` and `strides` of a kernel that is the second operand."""
    x, w = _operands(view)
    _check_pads(view)
    stated = view.integers("kernel_shape")
    if stated is not None and stated != w[2:]:
        raise Unreadable("kernel_shape")
    return {**_windows(view, x[2:], w[2:])}


def _transposed_convolution(view: NodeView) -> dict[str, Attr]:
    """Read the attributes of a transposed convolution.

    Pads that follow from `output_shape` are not read: versions of the specification split them differently.
    """
    x, w = _operands(view)
    _check_pads(view)
    spatial, stated, auto_pad = len(x) - 2, view.integers("kernel_shape"), view.text("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "") or view.integers("output_shape"):
        raise Unreadable("pads")
    if stated is not None and stated != w[2:]:
        raise Unreadable("kernel_shape")
    zeros, ones = (0,) * spatial, (1,) * spatial
    pads = view.integers("pads")
    return {
        "dilations": view.integers("dilations") or ones,
        "output_padding": view.integers("output_padding") or zeros,
        "pads": pads or zeros + zeros,
        "strides": view.integers("strides") or ones,
    }


def _check_pads(view: NodeView) -> None:
    """Raise Unreadable for pads beside an automatic padding: ONNX forbids both, and runtimes refuse them or one."""
    if view.integers("pads") is not None and view.text("auto_pad", "NOTSET") not in ("NOTSET", ""):
        raise Unreadable("pads")


def _operands(view: NodeView) -> tuple[Sizes, Sizes]:
    x, w = view.shape(0), view.shape(1)
    if x is None or w is None or len(x) != len(w) or len(x) < 3:
        raise Unreadable("shape")
    return x, w


def _pooling(view: NodeView) -> dict[str, Attr]:
    """Read the attributes of a pooling operator. `ceil_mode` becomes padding at the end."""
    shape, kernel = view.shape(0), view.integers("kernel_shape")
    if shape is None or kernel is None or len(shape) < 3 or len(kernel) != len(shape) - 2:
        raise Unreadable("kernel_shape")
    found = {**_windows(view, shape[2:], kernel), "kernel_shape": kernel}
    rounded_up = view.integer("ceil_mode", 0)
    if rounded_up:
        found["pads"] = _rounded_up(view, shape[2:], **found)
    counted = view.integer("count_include_pad", 0)
    if counted and rounded_up:
        raise Unreadable("count_include_pad")  # elements beyond the padding are not counted
    if counted and not any(found["pads"]) and _windows_fit(shape[2:], kernel, found["dilations"]):
        counted = 0  # nothing is padded, so both ways to count agree
    return {**found, "count_include_pad": counted}


def _windows_fit(sizes: Sizes, kernel: Sequence[int], dilations: Sequence[int]) -> bool:
    """Return True if every axis is known to hold a window.

    In a smaller one ONNX has no window, since floor((1 - 2) / 3) + 1 = 0, but ONNX Runtime rounds toward zero and
    computes one that reaches out of x.
    """
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return all(isinstance(size, int) and size >= reach for size, reach in zip(sizes, reaches, strict=True))


def _rounded_up(
    view: NodeView,
    sizes: Sizes,
    dilations: tuple[int, ...],
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...],
    strides: tuple[int, ...],
) -> tuple[int, ...]:
    """Return pads for as many windows as `ceil_mode` asks for: the last one may reach beyond the padding."""
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
            # The window would start in the padding at the end. Opset 22 says that there is no such window; runtimes
            # leave it out in older opsets as well, although the formula there (and ONNX's shape inference) counts it.
            raise Unreadable("ceil_mode")
    return (*begins, *ends)


def _windows(view: NodeView, sizes: Sizes, kernel: Sizes) -> dict[str, tuple[int, ...]]:
    """Return `dilations`, `pads` and `strides` of a kernel over axes of these sizes, `auto_pad` resolved."""
    spatial = len(sizes)
    dilations = view.integers("dilations") or (1,) * spatial
    strides = view.integers("strides") or (1,) * spatial
    pads = view.integers("pads") or (0,) * (2 * spatial)
    if len(dilations) != spatial or len(strides) != spatial or min(*dilations, *strides) < 1:
        raise Unreadable("strides")
    auto_pad = view.text("auto_pad", "NOTSET")
    if auto_pad == "VALID":
        pads = (0,) * (2 * spatial)
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        # Runtimes disagree about SAME with dilations; such nodes stay opaque.
        if any(d != 1 for d in dilations):
            raise Unreadable("auto_pad")
        total = [_same_padding(n, s, k) for n, s, k in zip(sizes, strides, kernel, strict=True)]
        if min(total) < -1:  # between windows far apart, ONNX Runtime may start behind the first element, ONNX does not
            raise Unreadable("auto_pad")
        total = [max(p, 0) for p in total]
        less, more = tuple(p // 2 for p in total), tuple(p - p // 2 for p in total)
        pads = less + more if auto_pad == "SAME_UPPER" else more + less
    elif auto_pad not in ("NOTSET", ""):
        raise Unreadable("auto_pad")
    if len(pads) != 2 * spatial or min(pads) < 0:
        raise Unreadable("pads")
    return {"dilations": dilations, "pads": pads, "strides": strides}


def _same_padding(size: Size, stride: int, kernel: Size) -> int:
    """Return the padding of an axis for ceil(n / s) windows: (ceil(n / s) - 1) s + k - n, or k - 1 at stride 1."""
    if not isinstance(kernel, int) or not (stride == 1 or isinstance(size, int)):
        raise Unreadable("auto_pad")
    return (-(-size // stride) - 1) * stride + kernel - size if isinstance(size, int) else kernel - 1
