"""Memory traffic where images leave and enter the runtime's blocked layout, and where they are unfolded.

ONNX Runtime's CPU provider keeps the results of Convs in blocks of channels (NCHW16c). The image is reordered before
and after each operator that does not support the layout. So parallel Convs are not worth merging if the result has to
be split by channels afterwards. A Conv without a kernel for blocks also unfolds its image: it copies the elements under
each position of its kernel, and multiplies them as a matrix. The conditions are those of
onnxruntime/core/optimizer/nchwc_transformer.cc.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from superopt.ir.term import Term
from superopt.ir.types import TensorType
from superopt.ops.resize import REPEATING
from superopt.properties import changes_shape_only, contracts, joins, rearranges, reduces
from superopt.search.cost.runtime_fusion import CONVOLUTIONS, KEEP_LAYOUT
from superopt.search.cost.work import bytes_of

__all__ = ["has_blocked_kernel", "is_blocked", "reordered_bytes", "share_in_blocks", "unfolded_bytes"]

_MAX_STEPS_TO_CONV = 4  # operators to follow back to the Conv that a value comes from
_CHANNELS_AT_ONCE = 4  # images enter the layout only if their channels are a multiple of this
_IMAGE_RANK = 4
_RESIZES = frozenset({"Resize", "ResizeLinear"})


def reordered_bytes(term: Term, block: int) -> int:
    """Return the bytes moved to bring images out of blocks of `block` channels for `term`, and back.

    Images are only reordered for operators that copy across channels, for those that add up an image and do not know
    the layout (ReduceMean, where GlobalAveragePool does), and for Convs without a kernel for it, whose results go back.
    A Concat of whole blocks works in the layout. A `block` of 1 means that the runtime has no layout of its own.
    """
    if block == 1 or changes_shape_only(term.op) or _keeps_layout(term):
        return 0
    if not rearranges(term.op):
        image = term.inputs[0] if term.inputs and _leaves_layout(term, block) else None
        if image is None or not is_blocked(image, block):
            return 0
        return 2 * (bytes_of(image.type) + (bytes_of(term.type) if term.op in CONVOLUTIONS else 0))
    images = [i for i in term.inputs if i is not None and _is_across_channels(term, i) and is_blocked(i, block)]
    copied = not joins(term.op) or any(_is_partial(i, block) for i in images)
    return 4 * sum(bytes_of(image.type) for image in images) if copied else 0


def unfolded_bytes(term: Term, block: int) -> int:
    """Return the bytes that a Conv without a kernel for blocks writes and reads to unfold its image; 0 for others."""
    if block == 1 or term.op not in CONVOLUTIONS or term.type is None or has_blocked_kernel(term, block):
        return 0
    shapes = _concrete_shapes(term)
    if shapes is None or math.prod(shapes.kernel[2:]) == 1:
        return 0
    unfolded = (*shapes.image[:2], *shapes.kernel[2:], *shapes.result[2:])
    return 2 * bytes_of(TensorType(term.type.dtype, unfolded))


def share_in_blocks(term: Term, block: int) -> float:
    """Return the arithmetic of a Conv's kernel for blocks as a share of the Conv's own; 1 for other operators.

    Without groups, the kernel computes whole blocks of result channels. It skips rows of zeros around an image, and not
    columns: of a 3x3 kernel with dilations of 24 on an image of 32 rows half of the rows are left, and it takes 0.42
    times as long as one without dilations; with dilations of 12, 0.85 times.
    """
    if term.op not in CONVOLUTIONS or not has_blocked_kernel(term, block):
        return 1.0
    shapes = _concrete_shapes(term)
    step, spread, above = (_first_of(term, name) for name in ("strides", "dilations", "pads"))
    if shapes is None or step is None or spread is None or above is None:
        return 1.0
    rows = [step * row + spread * k - above for row in range(shapes.result[2]) for k in range(shapes.kernel[2])]
    share_of_rows = sum(0 <= row < shapes.image[2] for row in rows) / max(1, len(rows))
    channels = shapes.result[1]
    return share_of_rows * (-(-channels // block) * block / max(1, channels) if term.attr("group") == 1 else 1)


class _ConvShapes(NamedTuple):
    image: tuple[int, ...]
    kernel: tuple[int, ...]
    result: tuple[int, ...]


def _concrete_shapes(conv: Term) -> _ConvShapes | None:
    """Return the shapes of a Conv's operands and result, or None if a size is not known."""
    types = (*(None if i is None else i.type for i in conv.inputs[:2]), conv.type)
    known = [shape for type in types if type is not None and (shape := type.concrete()) is not None]
    return _ConvShapes(*known) if len(known) == len(types) else None


def _first_of(term: Term, name: str) -> int | None:
    values = dict(term.attrs).get(name)
    first = values[0] if isinstance(values, tuple) and values else None
    return first if isinstance(first, int) else None


def has_blocked_kernel(conv: Term, block: int) -> bool:
    """Return True if the runtime computes a Conv in blocks of `block` channels.

    Its kernel has to be constant, with two dimensions, and its channels a multiple of 4, unless they are fewer than a
    block and not in groups. Each group has one channel, or whole blocks of channels, and so has the result.
    """
    image, kernel = conv.inputs[:2]
    if block == 1 or image is None or image.type is None or kernel is None or kernel.type is None:
        return False
    shape, group = kernel.type.shape, conv.attr("group")
    if not kernel.is_constant or shape is None or len(shape) != _IMAGE_RANK:
        return False
    results, of_group = shape[:2]
    if not isinstance(results, int) or not isinstance(of_group, int) or not isinstance(group, int):
        return True
    channels = of_group * group
    if group == 1:
        return channels < block or channels % _CHANNELS_AT_ONCE == 0
    if of_group == 1 and results == group:
        return channels % _CHANNELS_AT_ONCE == 0
    return of_group % block == 0 and results // group % block == 0


def _leaves_layout(term: Term, block: int) -> bool:
    """Return True for an operator that sums over an image and has no kernel for the layout."""
    if term.op in CONVOLUTIONS:
        return not has_blocked_kernel(term, block)
    return reduces(term.op) and not contracts(term.op)


def _keeps_layout(term: Term) -> bool:
    """Return True for an operator that runs in the layout if its first input has it.

    Of Resize, the runtime has kernels for linear interpolation and for repeated elements, at whole scales.
    """
    if term.op not in _RESIZES:
        return term.op in KEEP_LAYOUT
    scales = term.attr("scales")
    is_whole = isinstance(scales, tuple) and len(scales) <= 2 and all(isinstance(scale, int) for scale in scales)
    return is_whole and (term.op == "ResizeLinear" or REPEATING.items() <= dict(term.attrs).items())


def _is_partial(image: Term, block: int) -> bool:
    """Return True if the channels are not a whole number of blocks."""
    channels = None if image.type is None or image.type.shape is None else image.type.shape[1]
    return isinstance(channels, int) and channels % block != 0


def _is_across_channels(term: Term, image: Term) -> bool:
    """Return True if `term` copies along the channel axis."""
    rank = None if image.type is None or image.type.shape is None else len(image.type.shape)
    attrs = dict(term.attrs)
    axes = attrs.get("axes", attrs.get("axis"))
    return rank is not None and any(a in (1, 1 - rank) for a in (axes if isinstance(axes, tuple) else (axes,)))


def is_blocked(value: Term, block: int) -> bool:
    """Return True if `value` comes from a Conv in blocks, through operators that keep the layout."""
    for _ in range(_MAX_STEPS_TO_CONV):
        if value.op in CONVOLUTIONS:
            return has_blocked_kernel(value, block)
        if not _keeps_layout(value) or value.inputs[0] is None:
            return False
        value = value.inputs[0]
    return False
