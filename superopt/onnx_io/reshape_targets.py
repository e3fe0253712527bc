"""Target shapes that a model computes, as numbers or as polynomials of the sizes of its inputs.

For a target size of 0 Reshape copies the input's size, and for -1 it infers the size; for a target size of 1 Expand
keeps the input's size. So a shape that a model computes by Shape is often the same list of numbers for all sizes. What
is no such list are polynomials: (12 n, m, 32) of (n, 12, m, 32).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx

from superopt.ir.dim import Dim, Size, Sizes, floor_div
from superopt.ir.infer import make
from superopt.ir.term import Term
from superopt.onnx_io.certain_sizes import CertainSizes
from superopt.onnx_io.model import EqualSizes
from superopt.onnx_io.nodes import NodeView
from superopt.onnx_io.static_values import StaticValues

__all__ = ["FIRST_COMPUTED_RESHAPE", "allows_zero", "computed_target", "equal_sizes", "numeric_target", "reshaped"]


# The opset before which no Reshape to several computed sizes can be written: one of them may be 0, which copies.
FIRST_COMPUTED_RESHAPE = 14


def numeric_target(view: NodeView, known: StaticValues) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Return the target shape of a Reshape or Expand as numbers, or None.

    Without `allowzero`: a 0 in it stands for the operand's size. None if it is constant already, or if no list of
    numbers is equivalent for all sizes.
    """
    shape, wanted = known.shape(view.inputs[0]), _sizes(view, known)
    if shape is None or wanted is None:
        return None
    target = _expand(shape, wanted) if view.node.op_type == "Expand" else _reshape(shape, wanted)
    return None if target is None else np.array(target, np.int64)


def computed_target(view: NodeView, known: StaticValues, certain: CertainSizes) -> Sizes | None:
    """Return the target shape of a Reshape or Expand as numbers and polynomials of the inputs' sizes, or None."""
    wanted = _sizes(view, known)
    if (
        wanted is None
        or not all(map(certain.has, wanted))
        or (view.node.op_type == "Reshape" and view.opset < FIRST_COMPUTED_RESHAPE)
    ):
        return None
    return tuple(wanted)


def _sizes(view: NodeView, known: StaticValues) -> list[Size] | None:
    """Return the target of a Reshape or Expand if it is computed, and known; a size 0 in it copies the operand's."""
    if view.node.op_type not in ("Reshape", "Expand") or len(view.inputs) != 2:
        return None
    term = view.inputs[1]
    found = known.sizes(term) if isinstance(term, Term) and view.value(term) is None else None
    if found is None or found.ndim != 1:
        return None
    zero = view.opset >= 14 and allows_zero(view.node)
    return _without_inferred(known.shape(view.inputs[0]), list(found)) if zero else list(found)


def _without_inferred(shape: Sizes | None, wanted: list[Size]) -> list[Size] | None:
    """Return a target of a Reshape with `allowzero` without a -1, or None if it has a 0, which is a size there.

    Beside a size of 0, ONNX Runtime infers that size all the same, as the one that fits for other sizes.
    """
    if 0 in wanted or shape is None:
        return None
    if -1 in wanted:
        total, others = math.prod(shape), math.prod(size for size in wanted if size != -1)
        inferred = floor_div(total, others)
        if inferred * others != total:
            return None
        wanted[wanted.index(-1)] = inferred
    return wanted


def allows_zero(node: onnx.NodeProto) -> bool:
    """Return True if a 0 in the target of a Reshape is a size, and does not stand for the operand's own."""
    return any(a.name == "allowzero" and a.i == 1 for a in node.attribute)


def equal_sizes(view: NodeView, known: StaticValues) -> EqualSizes:
    """Return the numbers of elements before and after a Reshape to a computed target: a run needs them to be equal.

    The set has one size if they are always equal, and none if the target is not known.
    """
    shape = known.shape(view.inputs[0])
    found = known.sizes(view.inputs[1]) if len(view.inputs) > 1 and view.inputs[1] is not None else None
    if view.node.op_type != "Reshape" or shape is None or found is None or found.ndim != 1 or -1 in found:
        return frozenset()
    zero = view.opset >= 14 and allows_zero(view.node)
    sizes = [shape[k] if s == 0 and not zero and k < len(shape) else s for k, s in enumerate(found)]
    return frozenset({math.prod(shape), math.prod(sizes)})


def _reshape(shape: Sizes, wanted: Sequence[Size]) -> list[int] | None:
    """Write 0 for sizes that keep their place, and -1 for one other size unless a size is 0 (ONNX forbids both)."""
    copied = [0 if isinstance(s, Dim) and k < len(shape) and shape[k] == s else s for k, s in enumerate(wanted)]
    numbers = [size for size in copied if isinstance(size, int)]
    if len(numbers) == len(copied):
        return numbers
    if len(numbers) == len(copied) - 1 and all(size > 0 for size in numbers):
        return [size if isinstance(size, int) else -1 for size in copied]
    return None


def _expand(shape: Sizes, wanted: Sequence[Size]) -> list[int] | None:
    """Return the target with 1 for each size that is the input's own."""
    own = (None,) * (len(wanted) - len(shape)) + shape[max(len(shape) - len(wanted), 0) :]
    kept = [1 if isinstance(size, Dim) and size == have else size for size, have in zip(wanted, own, strict=True)]
    numbers = [size for size in kept if isinstance(size, int)]
    return numbers if len(numbers) == len(kept) else None


def reshaped(data: Term, shape: Sizes, known: StaticValues) -> Term | None:
    """Return `data` in another shape: as one Reshape, or as an Unsqueeze or Squeeze if only sizes of 1 come or go.

    None if the shape of `data` is not known, or has as many elements for some sizes only: then a Reshape may fail. Also
    None for a size of 0, which a target cannot state.
    """
    own = known.shape(data)
    if own is None or 0 in shape or math.prod(own) != math.prod(shape):
        return None
    while data.op in _RESHAPING and data.inputs[0] is not None:
        below = known.shape(data.inputs[0])
        if below is None or math.prod(below) != math.prod(own):
            break
        data, own = data.inputs[0], below
    if own == shape:
        return data
    for op, short, long in (("Unsqueeze", own, shape), ("Squeeze", shape, own)):
        ones = _inserted_ones(short, long)
        if ones is not None:
            return make(op, (data,), {"axes": tuple(axis - len(long) for axis in ones)})
    return make("Reshape", (data,), {"allowzero": 0, "shape": shape})


_RESHAPING = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})


def _inserted_ones(short: Sizes, long: Sizes) -> list[int] | None:
    """Return the axes of `long` whose sizes of 1 make it of `short`, or None."""
    at, ones = 0, []
    for axis, size in enumerate(long):
        if at < len(short) and short[at] == size:
            at += 1
        elif size == 1:
            ones.append(axis)
        else:
            return None
    return ones if at == len(short) else None
