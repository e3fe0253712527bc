"""Memory traffic where images leave and enter the runtime's blocked layout.

ONNX Runtime's CPU provider keeps the results of Convs in blocks of channels (NCHW16c). The image is reordered before
and after each operator that does not support the layout. So parallel Convs are not worth merging if the result has to
be split by channels afterwards.
"""

from __future__ import annotations

from superopt.ir.term import Term
from superopt.properties import changes_shape_only, contracts, joins, rearranges, reduces
from superopt.search.cost.runtime_fusion import CONVOLUTIONS, KEEP_LAYOUT
from superopt.search.cost.work import bytes_of

__all__ = ["reordered_bytes"]

_MAX_STEPS_TO_CONV = 4  # operators to follow back to the Conv that a value comes from


def reordered_bytes(term: Term, block: int) -> int:
    """Return the bytes moved to bring images out of blocks of `block` channels for `term`, and back.

    Images are only reordered for operators that copy across channels, and for those that add up an image and do not
    know the layout: ReduceMean, where GlobalAveragePool does. A Concat of whole blocks works in the layout. A `block`
    of 1 means that the runtime has no layout of its own.
    """
    if block == 1 or changes_shape_only(term.op):
        return 0
    if not rearranges(term.op):
        image = term.inputs[0] if _leaves_layout(term.op) else None
        return 2 * bytes_of(image.type) if image is not None and _is_blocked(image) else 0
    images = [i for i in term.inputs if i is not None and _is_across_channels(term, i) and _is_blocked(i)]
    copied = not joins(term.op) or any(_is_partial(i, block) for i in images)
    return 4 * sum(bytes_of(image.type) for image in images) if copied else 0


def _leaves_layout(op: str) -> bool:
    """Return True for an operator that adds up its operand, and not products, and has no kernel for the layout."""
    return reduces(op) and not contracts(op) and op not in KEEP_LAYOUT


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


def _is_blocked(value: Term) -> bool:
    """Return True if `value` comes from a Conv, through operators that keep the layout."""
    for _ in range(_MAX_STEPS_TO_CONV):
        if value.op in CONVOLUTIONS:
            return True
        if value.op not in KEEP_LAYOUT or value.inputs[0] is None:
            return False
        value = value.inputs[0]
    return False
