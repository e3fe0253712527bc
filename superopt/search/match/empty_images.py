"""Images without elements, which ONNX Runtime refuses in operators that slide a window over them.

A tensor may be empty where its sizes are computed: no detections, or a slice after the last row. Most operators compute
nothing of nothing, but Conv and the pools fail, unless only the batch is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from superopt.ir.dim import Dim, Size, Sizes, evaluate, symbol, symbols_of
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term
from superopt.onnx_io.static_values import is_never_negative
from superopt.onnx_io.tensor_types import is_named

__all__ = ["may_be_refused"]


def may_be_refused(before: Iterable[Term], after: Iterable[Term]) -> bool:
    """Return True if an operator in `after` may be refused, for an image that is empty, where none in `before` is."""
    known = {size for image in _images(before) for size in image if isinstance(size, Dim)}
    positive = {name for size in known if len(size.terms) == 1 for name in symbols_of(size)}  # n, where 2 n is positive
    return any(size not in known and not _is_positive(size, positive) for image in _images(after) for size in image)


def _images(terms: Iterable[Term]) -> Iterator[Sizes]:
    """Yield the sizes of the images that operators in `terms` slide over, except those that such an operator makes."""
    for term in filter(_slides, terms):
        image = term.inputs[0]
        sizes = _image_sizes(image)
        while image is not None and not _slides(image):
            image = image.inputs[0] if image.inputs and _image_sizes(image.inputs[0]) == sizes else None
        if image is None:
            yield sizes


def _image_sizes(image: Term | None) -> Sizes:
    return () if image is None or image.type is None else (image.type.shape or ())[2:]


def _slides(term: Term) -> bool:
    operator = OPERATORS.get(term.op)
    return operator is not None and ("strides" in operator.attrs or term.op.startswith("Global"))


def _is_positive(size: Size, positive: set[str]) -> bool:
    """Return True if a size is at least 1 where those that the file names and `positive` are, and others at least 0."""
    if not isinstance(size, Dim):
        return size > 0
    at_least_1 = [name for name in symbols_of(size) if name in positive or is_named(symbol(name))]
    return is_never_negative(evaluate(size - 1, {name: symbol(name) + 1 for name in at_least_1}))
