"""Tensors without elements, which ONNX Runtime refuses in some operators.

A tensor may be empty where its sizes are computed: no detections, or a slice after the last row. Most operators compute
nothing of nothing. But Conv and the pools fail, unless only the batch is empty, and so does a Reshape that is to work
out a size, which could be any number beside a size of 0. ONNX Runtime's own RotaryEmbedding, which models of opsets
before 23 get, fails for an empty batch: its tables have fewer rows then than a sequence has tokens.
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
    """Return True if an operator in `after` may be refused, for a tensor that is empty, where none in `before` is."""
    known = {size for sizes in _needed(before) for size in sizes if isinstance(size, Dim)}
    positive = {name for size in known if len(size.terms) == 1 for name in symbols_of(size)}  # n, where 2 n is positive
    return any(size not in known and not _is_positive(size, positive) for sizes in _needed(after) for size in sizes)


def _needed(terms: Iterable[Term]) -> Iterator[Sizes]:
    """Yield the sizes that operators in `terms` need above 0, but for images that such an operator makes."""
    for term in terms:
        if term.op == "Reshape":
            yield _beside_unstated(term)
        elif term.op == "RotaryEmbedding":
            yield _sizes(term)[:1]
        elif _slides(term):
            image = term.inputs[0]
            sizes = _sizes(image)[2:]
            while image is not None and not _slides(image):
                image = image.inputs[0] if image.inputs and _sizes(image.inputs[0])[2:] == sizes else None
            if image is None:
                yield sizes


def _beside_unstated(reshape: Term) -> Sizes:
    """Return the other sizes of a result of which one is stated as -1."""
    target = reshape.attr("shape")
    if not isinstance(target, tuple) or -1 not in target:
        return ()
    sizes, place = _sizes(reshape), target.index(-1)
    return (*sizes[:place], *sizes[place + 1 :])


def _sizes(term: Term | None) -> Sizes:
    return () if term is None or term.type is None else term.type.shape or ()


def _slides(term: Term) -> bool:
    operator = OPERATORS.get(term.op)
    return operator is not None and ("strides" in operator.attrs or term.op.startswith("Global"))


def _is_positive(size: Size, positive: set[str]) -> bool:
    """Return True if a size is at least 1 where those that the file names and `positive` are, and others at least 0."""
    if not isinstance(size, Dim):
        return size > 0
    at_least_1 = [name for name in symbols_of(size) if name in positive or is_named(symbol(name))]
    return is_never_negative(evaluate(size - 1, {name: symbol(name) + 1 for name in at_least_1}))
