"""Images without elements, which ONNX Runtime refuses in operators that slide a window over them.

A tensor may be empty where its sizes are computed: no detections, or a slice after the last row. Most operators compute
nothing of nothing, but Conv and the pools fail, unless only the batch is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from superopt.ir.dim import Dim, Size, evaluate, symbol, symbols_of
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term
from superopt.onnx_io.static_values import is_never_negative
from superopt.onnx_io.tensor_types import is_named

__all__ = ["may_be_refused"]


def may_be_refused(before: Iterable[Term], after: Iterable[Term]) -> bool:
    """Return True if an operator in `after` slides over an image that may be empty, and none in `before` does."""
    return not set(_sizes_that_may_be_0(after)) <= set(_sizes_that_may_be_0(before))


def _sizes_that_may_be_0(terms: Iterable[Term]) -> Iterator[Size]:
    for term in terms:
        image = term.inputs[0] if term.inputs and _slides(term.op) else None
        if image is not None and image.type is not None:
            yield from (size for size in (image.type.shape or ())[2:] if not _is_positive(size))


def _slides(op: str) -> bool:
    return op in OPERATORS and ("strides" in OPERATORS[op].attrs or op.startswith("Global"))


def _is_positive(size: Size) -> bool:
    """Return True if a size is at least 1 where those that the file names are, and others at least 0."""
    if not isinstance(size, Dim):
        return size > 0
    named = [name for name in symbols_of(size) if is_named(symbol(name))]
    return is_never_negative(evaluate(size - 1, {name: symbol(name) + 1 for name in named}))
