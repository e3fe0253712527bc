"""Shape rules: the output shapes of each operator from its input shapes, for known and symbolic sizes alike.

Sources are the operators' pages of the ONNX specification and, for the `broadcast` function, its page
"Broadcasting in ONNX" (multidirectional). What a rule needs of symbolic sizes it reports to `need`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from superopt.ir.dim import Size, Sizes, ceil_div, floor_div

__all__ = ["RULES", "IllTyped", "Need", "ShapeRule", "broadcast", "ignore"]


class IllTyped(ValueError):
    """The sizes contradict what the operator needs."""


Need: TypeAlias = Callable[[str, Size, Size], None]  # relation ("==" or "<="), left, right
ShapeRule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any], Need], tuple[Sizes, ...]]


def ignore(relation: str, left: Size, right: Size) -> None:
    """A `Need` for graphs that are known to be well-typed."""


def _need_equal(need: Need, left: Size, right: Size) -> None:
    if left == right:
        return
    if isinstance(left, int) and isinstance(right, int):
        raise IllTyped(f"size {left} is not {right}")
    need("==", left, right)


def _need_at_most(need: Need, left: Size, right: Size) -> None:
    if isinstance(left, int) and isinstance(right, int):
        if left > right:
            raise IllTyped(f"size {left} is over {right}")
    elif left != right:
        need("<=", left, right)


def broadcast(shapes: Sequence[Sizes], need: Need = ignore) -> Sizes:
    """Multidirectional broadcasting: aligned at the last axis; sizes are equal, or one of them is 1.

    A symbolic size is taken not to be broadcast: where two differ, `need` is told that they are equal.
    """
    result: list[Size] = []
    for back in range(1, max(map(len, shapes), default=0) + 1):
        size: Size = 1
        for shape in shapes:
            if back <= len(shape) and shape[-back] != 1:
                if size == 1:
                    size = shape[-back]
                else:
                    _need_equal(need, size, shape[-back])
        result.append(size)
    return tuple(reversed(result))


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise IllTyped(f"axis {axis} outside rank {rank}")
    return axis % rank


def _elementwise(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    return (broadcast(shapes, need),)


def _matmul(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    a, b = shapes
    if not a or not b:
        raise IllTyped("MatMul of a scalar")
    left = a if len(a) > 1 else (1, *a)
    right = b if len(b) > 1 else (*b, 1)
    _need_equal(need, left[-1], right[-2])
    batch = broadcast([left[:-2], right[:-2]], need)
    return ((*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ())),)


def _gemm(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    a, b = shapes[:2]
    if len(a) != 2 or len(b) != 2:
        raise IllTyped("Gemm needs matrices")
    m, k = reversed(a) if attrs["transA"] else a
    k2, n = reversed(b) if attrs["transB"] else b
    _need_equal(need, k, k2)
    if len(shapes) > 2 and shapes[2] is not None:
        c = shapes[2]
        if len(c) > 2:
            raise IllTyped("Gemm's C has more than two dimensions")
        for size, full in zip(reversed(c), (n, m), strict=False):
            if size != 1:
                _need_equal(need, size, full)
    return ((m, n),)


def _concat(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    axis = _axis(attrs["axis"], len(shapes[0]))
    total: Size = 0
    for shape in shapes:
        if len(shape) != len(shapes[0]):
            raise IllTyped("Concat of different ranks")
        for d, (size, first) in enumerate(zip(shape, shapes[0], strict=True)):
            if d != axis:
                _need_equal(need, size, first)
        total = total + shape[axis]
    return ((*shapes[0][:axis], total, *shapes[0][axis + 1 :]),)


def _split(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    axis, total = _axis(attrs["axis"], len(x)), 0
    for size in attrs["split"]:
        _need_at_most(need, 0, size)
        total = total + size
    _need_equal(need, total, x[axis])
    return tuple((*x[:axis], size, *x[axis + 1 :]) for size in attrs["split"])


def _slice(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    shape = list(shapes[0])
    for axis, start, end, step in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True):
        d = _axis(axis, len(shape))
        # Canonical: 0 <= start <= end <= size, step > 0.
        _need_at_most(need, 0, start)
        _need_at_most(need, start, end)
        _need_at_most(need, end, shape[d])
        shape[d] = ceil_div(end - start, step)
    return (tuple(shape),)


def _transpose(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    if sorted(attrs["perm"]) != list(range(len(x))):
        raise IllTyped(f"perm {attrs['perm']} does not fit rank {len(x)}")
    return (tuple(x[p] for p in attrs["perm"]),)


def _pad(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,), pads = shapes, attrs["pads"]
    if len(pads) != 2 * len(x):
        raise IllTyped("Pad's pads do not fit its rank")
    result = tuple(begin + size + end for begin, size, end in zip(pads[: len(x)], x, pads[len(x) :], strict=True))
    for size in result:
        _need_at_most(need, 0, size)
    return (result,)


def _unsqueeze(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    rank = len(shapes[0]) + len(attrs["axes"])
    places = {_axis(axis, rank) for axis in attrs["axes"]}
    if len(places) != len(attrs["axes"]):
        raise IllTyped("Unsqueeze names an axis twice")
    rest = iter(shapes[0])
    return (tuple(1 if d in places else next(rest) for d in range(rank)),)


def _squeeze(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    places = {_axis(axis, len(x)) for axis in attrs["axes"]}
    for d in places:
        _need_equal(need, x[d], 1)
    return (tuple(size for d, size in enumerate(x) if d not in places),)


def _reduce_sum(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    (x,) = shapes
    places = {_axis(axis, len(x)) for axis in attrs["axes"]}
    if attrs["keepdims"]:
        return (tuple(1 if d in places else size for d, size in enumerate(x)),)
    return (tuple(size for d, size in enumerate(x) if d not in places),)


def _conv(shapes: Sequence[Any], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, w = shapes[:2]
    spatial, group, pads = len(x) - 2, attrs["group"], attrs["pads"]
    if len(w) != len(x) or spatial < 1 or len(pads) != 2 * spatial or len(attrs["strides"]) != spatial:
        raise IllTyped("Conv's ranks do not fit")
    _need_equal(need, x[1], w[1] * group)
    _need_equal(need, w[0], floor_div(w[0], group) * group)
    for positive in (group, *attrs["strides"], *attrs["dilations"]):
        _need_at_most(need, 1, positive)
    for pad in pads:
        _need_at_most(need, 0, pad)  # ONNX knows negative pads in Pad only
    if len(shapes) > 2 and shapes[2] is not None:
        if len(shapes[2]) != 1:
            raise IllTyped("Conv's bias is not a vector")
        _need_equal(need, shapes[2][0], w[0])
    result: list[Size] = [x[0], w[0]]
    for d in range(spatial):
        reach = (w[2 + d] - 1) * attrs["dilations"][d] + 1
        room = x[2 + d] + pads[d] + pads[spatial + d] - reach
        _need_at_most(need, 0, room)
        result.append(floor_div(room, attrs["strides"][d]) + 1)
    return (tuple(result),)


def _batch_normalization(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    x, *params = shapes
    if len(x) < 2:
        raise IllTyped("BatchNormalization needs a channel axis")
    for shape in params:
        if len(shape) != 1:
            raise IllTyped("BatchNormalization's parameters are vectors")
        _need_equal(need, shape[0], x[1])
    return (x,)


def _dirac(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    shape = tuple(attrs["shape"])
    if len(shape) < 3:
        raise IllTyped("a Dirac kernel has at least three dimensions")
    _need_equal(need, shape[0], shape[1] * attrs["group"])
    for positive in (attrs["group"], shape[1]):
        _need_at_most(need, 1, positive)
    return (shape,)


RULES: Mapping[str, ShapeRule] = {
    "Zeros": lambda shapes, attrs, need: (tuple(attrs["shape"]),),
    "Ones": lambda shapes, attrs, need: (tuple(attrs["shape"]),),
    "Eye": lambda shapes, attrs, need: ((attrs["n"], attrs["n"]),),
    "Dirac": _dirac,
    "MatMul": _matmul,
    "Gemm": _gemm,
    **dict.fromkeys(("Add", "Sub", "Mul", "Sum", "Neg", "Identity", "Relu", "Sigmoid", "Tanh"), _elementwise),
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "ReduceSum": _reduce_sum,
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
}
