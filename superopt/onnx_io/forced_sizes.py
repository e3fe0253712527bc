"""Sizes that a model computes from others, and that are equal wherever it can be run.

The scores of a decoder have as many columns as there are keys, p + s, and a mask of n columns is added to them. The sum
has max(p + s, n) columns, which has no name in the notation of sizes. But it is multiplied by p + s rows of values, and
a runtime refuses a product of other matrices. So it has p + s columns wherever there is a result.
"""

from __future__ import annotations

from superopt.ir.dim import Dim, Size, evaluate, symbol
from superopt.ir.term import Term, topological
from superopt.onnx_io.certain_sizes import CertainSizes
from superopt.onnx_io.model import Model

__all__ = ["forced_sizes"]

_MATRIX = 2  # axes


def forced_sizes(model: Model) -> dict[str, Size]:
    """Return sizes that follow from the inputs' shapes, by the names of equal sizes that do not."""
    certain = CertainSizes(leaf.type.shape or () for leaf in model.inputs if leaf.type is not None)
    found: dict[str, Size] = {}
    for term in topological(model.outputs):
        columns, rows = (evaluate(size, found) for size in _contracted(term))
        for one, other in ((columns, rows), (rows, columns)):
            if isinstance(one, Dim) and one == symbol(str(one)) and not certain.has(one) and certain.has(other):
                found[str(one)] = other
    return found


def _contracted(term: Term) -> tuple[Size, Size]:
    """Return the sizes of the axes that a product of matrices sums over: the left one's columns, the right one's rows.

    They are 0 and 0 for any other operator.
    """
    shapes = [None if i is None or i.type is None else i.type.shape for i in term.inputs]
    if term.op != "MatMul" or None in shapes or any(len(shape or ()) < _MATRIX for shape in shapes):
        return 0, 0
    left, right = (shape or () for shape in shapes)
    return left[-1], right[-2]
