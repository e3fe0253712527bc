"""Where images leave the runtime's own layout, and what that moves.

ONNX Runtime's CPU provider keeps what Convs make in blocks of channels (NCHW16c). Operators that do not know the layout
get the image reordered, and what follows them reorders it again. So parallel Convs are not worth merging where
the result has to be split by channels afterwards.
"""

from __future__ import annotations

from superopt.ir.term import Term
from superopt.search.cost.work import bytes_of

__all__ = ["reordered"]

# Operators whose result has the blocked layout if an input has: the runtime runs them in it.
_KEEP_BLOCKS = frozenset(
    {"Add", "AveragePool", "BatchNormalization", "Clip", "HardSigmoid", "LeakyRelu", "MaxPool", "Mul", "Relu"}
    | {"Sigmoid", "Sum", "Tanh"}
)
_FAR = 4  # operators to look back for the Conv that a value comes from
_CHANNEL_COPIES = frozenset({"Gather", "Slice", "Split"})


def reordered(term: Term, block: int) -> int:
    """Bytes that are read and written to bring images out of blocks of `block` channels for the copy `term`, and its
    results into them again. A Concat of whole blocks knows the layout; `block` 1 is no layout of its own."""
    if block == 1 or not (term.op in _CHANNEL_COPIES or term.op == "Concat"):
        return 0
    images = [i for i in term.inputs if i is not None and _across_channels(term, i) and _blocked(i)]
    copied = term.op in _CHANNEL_COPIES or (term.op == "Concat" and any(_partial(i, block) for i in images))
    return 4 * sum(bytes_of(image.type) for image in images) if copied else 0


def _partial(image: Term, block: int) -> bool:
    channels = None if image.type is None or image.type.shape is None else image.type.shape[1]
    return isinstance(channels, int) and channels % block != 0


def _across_channels(term: Term, image: Term) -> bool:
    rank = None if image.type is None or image.type.shape is None else len(image.type.shape)
    attrs = dict(term.attrs)
    axes = attrs.get("axes", attrs.get("axis"))
    return rank is not None and any(a in (1, 1 - rank) for a in (axes if isinstance(axes, tuple) else (axes,)))


def _blocked(value: Term) -> bool:
    """Whether `value` comes from a Conv, by way of operators that keep the layout."""
    for _ in range(_FAR):
        if value.op in ("Conv", "FusedConv"):
            return True
        if value.op not in _KEEP_BLOCKS or value.inputs[0] is None:
            return False
        value = value.inputs[0]
    return False
