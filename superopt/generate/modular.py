"""The operators on stacks of tensors over the integers modulo P: one call computes thousands of graphs.

A value is a `uint64` array whose last axes are the tensor's; all axes before are stacked graphs and samples, and
broadcast against each other. Linear and bilinear operators are exact, so two polynomials that differ agree on a
random sample with probability at most degree / P (Schwartz-Zippel). Sigmoid, Tanh and BatchNormalization's
1/sqrt(variance + epsilon) are fixed pseudo-random functions: equal only where their arguments are (uninterpreted).
Relu keeps the lower half of the residues, so Relu of Relu is Relu.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["KERNELS", "P", "Array", "Shape", "closed_form", "random_residues", "residue"]

P = 2**31 - 1
Array: TypeAlias = npt.NDArray[np.uint64]
Shape: TypeAlias = tuple[int, ...]
Kernel: TypeAlias = Callable[[Sequence[Array], Sequence[Shape], Mapping[str, Any], Shape], Array]

_P = np.uint64(P)


def residue(number: float) -> int:
    """A real attribute as a residue: integers exactly, any other value as a fixed pseudo-random residue."""
    if float(number).is_integer():
        return int(number) % P
    return int(_mix(np.array([np.float64(number).view(np.uint64)], dtype=np.uint64))[0])


def random_residues(rng: np.random.Generator, shape: Shape) -> Array:
    """Uniform residues."""
    return rng.integers(0, P, size=shape, dtype=np.uint64)


def _mix(x: Array, salt: int = 0) -> Array:
    """A fixed pseudo-random function on residues (the finaliser of splitmix64)."""
    x = x + np.uint64(0x9E3779B97F4A7C15 * (salt + 1) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: Array = (x ^ (x >> np.uint64(31))) % _P
    return result


def _lift(x: Array, shape: Shape, rank: int) -> Array:
    """`x` with its tensor axes padded on the left by axes of size 1, to `rank` of them."""
    lead = x.shape[: x.ndim - len(shape)]
    return x.reshape(lead + (1,) * (rank - len(shape)) + shape)


def _lead(xs: Sequence[Array], shapes: Sequence[Shape]) -> Shape:
    return np.broadcast_shapes(*(x.shape[: x.ndim - len(s)] for x, s in zip(xs, shapes, strict=True)))


def _negative(x: Array) -> Array:
    result: Array = (_P - x) % _P
    return result


def _add(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    total = _lift(xs[0], shapes[0], len(out))
    for x, shape in zip(xs[1:], shapes[1:], strict=True):
        total = (total + _lift(x, shape, len(out))) % _P
    return total


def _sub(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    result: Array = (_lift(xs[0], shapes[0], len(out)) + (_P - _lift(xs[1], shapes[1], len(out)))) % _P
    return result


def _mul(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    result: Array = _lift(xs[0], shapes[0], len(out)) * _lift(xs[1], shapes[1], len(out)) % _P
    return result


def _neg(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    return _negative(xs[0])


def _identity(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    return xs[0]


def _relu(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    result: Array = np.where(xs[0] <= _P // np.uint64(2), xs[0], np.uint64(0))
    return result


def _scalar_function(salt: int) -> Kernel:
    return lambda xs, shapes, attrs, out: _mix(xs[0], salt)


def _product(a: Array, b: Array) -> Array:
    """Matrix product of the last two axes, the axes before broadcast."""
    total = a[..., :, :1] * b[..., :1, :] % _P
    for k in range(1, a.shape[-1]):
        total += a[..., :, k : k + 1] * b[..., k : k + 1, :] % _P
    total %= _P
    return total


def _matmul(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    (a, b), (left, right) = xs, shapes
    if len(left) == 1:
        a, left = a[..., None, :], (1, *left)
    if len(right) == 1:
        b, right = b[..., :, None], (*right, 1)
    rank = max(len(left), len(right))
    product = _product(_lift(a, left, rank), _lift(b, right, rank))
    return product.reshape(product.shape[: product.ndim - rank] + out)


def _gemm(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    a = xs[0].swapaxes(-1, -2) if attrs["transA"] else xs[0]
    b = xs[1].swapaxes(-1, -2) if attrs["transB"] else xs[1]
    total = _product(a, b) * np.uint64(residue(attrs["alpha"])) % _P
    if len(xs) > 2:
        total = (total + _lift(xs[2], shapes[2], 2) * np.uint64(residue(attrs["beta"]))) % _P
    return total


def _concat(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    lead = _lead(xs, shapes)
    return np.concatenate([np.broadcast_to(x, lead + s) for x, s in zip(xs, shapes, strict=True)], axis=attrs["axis"])


def _split(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    start = sum(attrs["split"][: attrs["index"]])
    return _cut(xs[0], attrs["axis"], start, start + attrs["split"][attrs["index"]], 1)


def _cut(x: Array, axis: int, start: int, end: int, step: int) -> Array:
    place: list[Any] = [slice(None)] * x.ndim
    place[axis] = slice(start, None if end < 0 else end, step)  # -1 is before the first element, not the last one
    result: Array = x[tuple(place)]
    return result


def _slice(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    x = xs[0]
    for part in zip(attrs["axes"], attrs["starts"], attrs["ends"], attrs["steps"], strict=True):
        x = _cut(x, *part)
    return x


def _transpose(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    lead = xs[0].ndim - len(out)
    return xs[0].transpose(*range(lead), *(lead + p for p in attrs["perm"]))


def _pad(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    lead, rank, pads = xs[0].shape[: xs[0].ndim - len(out)], len(out), attrs["pads"]
    result = np.full(lead + out, residue(attrs["value"]), dtype=np.uint64)
    to: list[Any] = [slice(None)] * len(lead)
    of: list[Any] = [slice(None)] * len(lead)
    for begin, end, size in zip(pads[:rank], pads[rank:], shapes[0], strict=True):
        first, last = max(0, -begin), size - max(0, -end)
        if first >= last:
            return result
        of.append(slice(first, last))
        to.append(slice(first + begin, last + begin))
    result[tuple(to)] = xs[0][tuple(of)]
    return result


def _reshaped(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    """Unsqueeze and Squeeze."""
    return xs[0].reshape(xs[0].shape[: xs[0].ndim - len(shapes[0])] + out)


def _reduce_sum(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    result: Array = xs[0].sum(axis=tuple(attrs["axes"]), keepdims=bool(attrs["keepdims"]), dtype=np.uint64) % _P
    return result


def _conv(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    (batch, channels, *size), (features, width, *window) = shapes[0], shapes[1]
    groups, spatial, pads = attrs["group"], len(shapes[0]) - 2, attrs["pads"]
    amounts = (0, 0, *pads[:spatial], 0, 0, *pads[spatial:])
    room = (batch, channels, *(p + n + q for p, n, q in zip(pads, size, pads[spatial:], strict=False)))
    padded = _pad(xs[:1], shapes[:1], {"pads": amounts, "value": 0.0}, room)
    lead_x = padded.shape[: padded.ndim - len(room)]
    x = padded.reshape((*lead_x, batch, groups, 1, width, *room[2:]))
    lead_w = xs[1].shape[: xs[1].ndim - len(shapes[1])]
    w = xs[1].reshape((*lead_w, 1, groups, features // groups, width, *window))
    lead = _lead(xs[:2], shapes[:2])
    total = np.zeros((*lead, batch, groups, features // groups, *out[2:]), dtype=np.uint64)
    for c in range(width):
        for place in np.ndindex(*window):
            part: Array = np.take(x, c, axis=-1 - spatial)
            for d, k in enumerate(place):
                step = attrs["strides"][d]
                start = k * attrs["dilations"][d]
                part = _cut(part, d - spatial, start, start + (out[2 + d] - 1) * step + 1, step)
            weight: Array = w[(..., c, *place)]
            total += part * weight.reshape(weight.shape + (1,) * spatial) % _P
    total %= _P
    result = total.reshape(lead + out)
    if len(xs) > 2:
        bias = xs[2].reshape(xs[2].shape[:-1] + (features,) + (1,) * spatial)
        result = (result + np.expand_dims(bias, -2 - spatial)) % _P
    return result


def _batch_normalization(xs: Sequence[Array], shapes: Sequence[Shape], attrs: Mapping[str, Any], out: Shape) -> Array:
    x, scale, offset, mean, variance = (
        xs[0],
        *(p.reshape(p.shape[:-1] + (1, p.shape[-1]) + (1,) * (len(out) - 2)) for p in xs[1:]),
    )
    spread = _mix((variance + np.uint64(residue(attrs["epsilon"]))) % _P, 3)
    factor = scale * spread % _P
    result: Array = ((x + (_P - mean)) % _P * factor + offset) % _P
    return result


KERNELS: Mapping[str, Kernel] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Add": _add,
    "Sum": _add,
    "Sub": _sub,
    "Mul": _mul,
    "Neg": _neg,
    "Identity": _identity,
    "Relu": _relu,
    "Sigmoid": _scalar_function(1),
    "Tanh": _scalar_function(2),
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Transpose": _transpose,
    "Pad": _pad,
    "Unsqueeze": _reshaped,
    "Squeeze": _reshaped,
    "ReduceSum": _reduce_sum,
    "Conv": _conv,
    "BatchNormalization": _batch_normalization,
}


def closed_form(op: str, attrs: Mapping[str, Any], out: Shape) -> Array:
    """The value of a closed-form constant."""
    if op in ("Zeros", "Ones"):
        return np.full(out, int(op == "Ones"), dtype=np.uint64)
    if op == "Eye":
        return np.eye(out[0], dtype=np.uint64)
    if op == "ConstantOfShape":
        return np.full(out, residue(attrs["value"]), dtype=np.uint64)
    if op == "Range":
        steps = np.arange(out[0], dtype=np.uint64) * np.uint64(residue(attrs["delta"]))
        return (steps + np.uint64(residue(attrs["start"]))) % _P
    value = np.zeros(out, dtype=np.uint64)
    for o in range(out[0]):
        value[(o, o % out[1], *((k - 1) // 2 for k in out[2:]))] = 1
    assert math.prod(out) > 0
    return value
