"""One random node of each operator that moves data, and of convolutions and pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from .graphs import Graph, Tensor, Unfit, elem_type
from .nodes import node, some, some_axes

__all__ = ["axes_node", "slice_node"]


# ---- convolution and pooling


def _image(g: Graph, kinds: str = "f") -> Tensor:
    """A tensor with batch and channels: one there is, or a new one of a useful size."""
    if g.rng.random() < 0.6:
        found = [t for t in g.available() if 3 <= t.rank <= 4 and t.value.dtype.kind in kinds and min(t.shape) > 0]
        if found:
            return g.rng.choice(found)
    spatial = [g.rng.choice([1, 3, 4, 5, 6]) for _ in range(g.rng.choice([1, 2, 2]))]
    return g.leaf(g.real if kinds == "f" or g.rng.random() < 0.7 else g.whole, (g.size(), g.size(), *spatial))


def _windows(g: Graph, x: Tensor, op: str) -> dict[str, Any]:
    spatial = x.rank - 2
    kernel = [g.rng.choice([1, 1, 2, 3]) for _ in range(spatial)]
    attrs: dict[str, Any] = {"kernel_shape": kernel}
    if g.rng.random() < 0.5:
        attrs["strides"] = [g.rng.choice([1, 2, 3]) for _ in range(spatial)]
    if g.rng.random() < 0.3 and (op != "AveragePool" or g.opset >= 19):
        attrs["dilations"] = [g.rng.choice([1, 2]) for _ in range(spatial)]
    kind = g.rng.random()
    if kind < 0.5:
        attrs["pads"] = [g.rng.randint(0, k - 1) for k in kernel * 2]
    elif kind < 0.6:
        attrs["auto_pad"] = g.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    return attrs


@node("Conv", "FusedConv", "ConvTranspose")
def _conv(g: Graph, op: str) -> None:
    x = _image(g)
    attrs = _windows(g, x, op)
    kernel = attrs["kernel_shape"] if g.rng.random() < 0.5 else attrs.pop("kernel_shape")
    channels = x.shape[1]
    group = g.rng.choice([n for n in range(1, channels + 1) if channels % n == 0] or [1])
    if group > 1 or g.rng.random() < 0.2:
        attrs["group"] = group
    out = group * g.rng.choice([1, 1, 2, 3])
    if op == "ConvTranspose":
        weight = g.fitting(x.dtype, (channels, out // group, *kernel))
        if g.rng.random() < 0.3:
            attrs["output_padding"] = [g.rng.randint(0, s - 1) for s in attrs.get("strides", [1] * (x.rank - 2))]
    else:
        weight = g.fitting(x.dtype, (out, channels // group, *kernel))
    inputs = [x, weight, *([g.fitting(x.dtype, (out,))] if g.rng.random() < 0.5 else [])]
    if op == "FusedConv":
        attrs["activation"] = g.rng.choice(["Relu", "Sigmoid", "Tanh"])
    g.add(op, inputs, attrs, domain="com.microsoft" if op == "FusedConv" else "")


@node("MaxPool", "AveragePool")
def _pool(g: Graph, op: str) -> None:
    x = _image(g, "f" if op == "AveragePool" else "fiu")
    attrs = _windows(g, x, op) | some(g.rng, ceil_mode=[0, 0, 1] if g.opset >= 10 else [0])
    if op == "AveragePool":
        attrs |= some(g.rng, count_include_pad=[0, 1])
    g.add(op, [x], attrs)


@node("GlobalAveragePool", "GlobalMaxPool")
def _global(g: Graph, op: str) -> None:
    g.add(op, [_image(g)])


# ---- movement of data


def axes_node(g: Graph, op: str, x: Tensor, axes: list[int]) -> Tensor:
    """Squeeze or Unsqueeze, with its axes where this opset has them."""
    if g.opset >= 13:
        return g.add(op, [x, g.numbers64(*axes)])[0]
    return g.add(op, [x], {"axes": axes})[0]


@node("Squeeze", "Unsqueeze")
def _axes_of_one(g: Graph, op: str) -> None:
    x = g.pick(most=4)
    if op == "Unsqueeze":
        rank = x.rank + g.rng.choice([1, 1, 2])
        axes = sorted(g.rng.sample(range(rank), rank - x.rank))
        axes_node(g, op, x, [a - rank if g.rng.random() < 0.3 and g.opset >= 11 else a for a in axes])
        return
    ones = [a for a, n in enumerate(x.shape) if n == 1]
    if not ones:
        raise Unfit("no axis of size 1")
    axes_node(g, op, x, sorted(g.rng.sample(ones, g.rng.randint(1, len(ones)))))


@node("Transpose")
def _transpose(g: Graph, op: str) -> None:
    x = g.pick()
    g.add(op, [x], {"perm": g.rng.sample(range(x.rank), x.rank)} if g.rng.random() < 0.85 else {})


@node("Reshape")
def _reshape(g: Graph, op: str) -> None:
    x = g.pick()
    total, shape = x.value.size, list[int]()
    while total > 1 and len(shape) < 4:
        shape.append(g.rng.choice([n for n in range(1, total + 1) if total % n == 0]))
        total //= shape[-1]
    shape = [*shape, *([total] if total != 1 or not shape else [])]
    for d, size in enumerate(shape):
        if d < x.rank and size == x.shape[d] and g.rng.random() < 0.4:
            shape[d] = 0
    if g.rng.random() < 0.5:
        shape[g.rng.randrange(len(shape))] = -1
    if g.rng.random() < 0.25 and x.rank:  # a target that is computed from a shape, as exporters write it
        (known,) = g.add("Shape", [x])
        (first,) = g.add("Gather", [known, g.numbers64(0)], {"axis": 0})
        (target,) = g.add("Concat", [first, g.numbers64(-1)], {"axis": 0})
        g.add(op, [x, target])
        return
    g.add(op, [x, g.numbers64(*shape)], {"allowzero": 1} if g.opset >= 14 and g.rng.random() < 0.05 else {})


@node("Flatten")
def _flatten(g: Graph, op: str) -> None:
    x = g.pick()
    g.add(op, [x], some(g.rng, axis=list(range(x.rank + 1))))


@node("Expand")
def _expand(g: Graph, op: str) -> None:
    x = g.pick(most=3)
    full = [g.size() if n == 1 else g.rng.choice([n, 1]) for n in x.shape]
    g.add(op, [x, g.numbers64(*([g.size()] if g.rng.random() < 0.3 else []), *full)])


@node("Tile")
def _tile(g: Graph, op: str) -> None:
    x = g.pick(least=1, most=3)
    g.add(op, [x, g.numbers64(*(g.rng.choice([1, 1, 2, 3]) for _ in x.shape))])


@node("Concat")
def _concat(g: Graph, op: str) -> None:
    x = g.pick(least=1)
    axis = g.rng.randrange(x.rank)
    others = []
    for _ in range(g.rng.choice([0, 1, 1, 2])):
        shape = [*x.shape]
        shape[axis] = g.rng.choice([x.shape[axis], g.size()])
        others.append(g.fitting(x.dtype, shape))
    parts = [x, *others]
    g.rng.shuffle(parts)
    g.add(op, parts, {"axis": axis - x.rank if g.rng.random() < 0.5 and g.opset >= 11 else axis})


@node("Split")
def _split(g: Graph, op: str) -> None:
    x = g.pick(least=1)
    axis = g.rng.randrange(x.rank)
    size = x.shape[axis]
    parts = g.rng.randint(1, max(1, min(3, size)))
    cuts = sorted(g.rng.randint(0, size) for _ in range(parts - 1))
    sizes = [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]
    attrs: dict[str, Any] = {"axis": axis}
    even = size % parts == 0 and g.rng.random() < 0.5
    if even and g.opset >= 18:
        attrs["num_outputs"] = parts
    if even:
        sizes = []
    if sizes and g.opset < 13:
        attrs["split"] = sizes
    g.add(op, [x, *([g.numbers64(*sizes)] if sizes and g.opset >= 13 else [])], attrs, outputs=parts)


def slice_node(g: Graph, x: Tensor, starts: list[int], ends: list[int], axes: list[int], steps: list[int]) -> Tensor:
    """Slice, with its numbers where this opset has them."""
    if g.opset < 10:
        return g.add("Slice", [x], {"starts": starts, "ends": ends, "axes": axes})[0]
    return g.add("Slice", [x, *(g.numbers64(*part) for part in (starts, ends, axes, steps))])[0]


@node("Slice")
def _slice(g: Graph, op: str) -> None:
    x = g.pick(least=1)
    axes = some_axes(g, x.rank, 2)
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis]
        step = g.rng.choice([1, 1, 1, 2, 3, -1, -2])
        low, high = sorted(g.rng.choice([0, 1, size // 2, size, size + 2, -1, -size - 1]) for _ in range(2))
        starts.append(high if step < 0 else low)
        ends.append(low if step < 0 else high)
        steps.append(step)
    slice_node(g, x, starts, [g.rng.choice([e, e, e, 2**63 - 1, 2**31 - 1]) for e in ends], axes, steps)


@node("Pad", "PadCopy")
def _pad(g: Graph, op: str) -> None:
    x = g.pick("fiu", least=1, most=4)
    pads = [g.rng.choice([0, 0, 1, 2, -1] if g.rng.random() < 0.3 else [0, 0, 1]) for _ in range(2 * x.rank)]
    copied = ["reflect", "edge", *(["wrap"] if g.opset >= 19 else [])]
    mode = g.rng.choice(copied if op == "PadCopy" else ["constant"] * 5 + copied)
    attrs: dict[str, Any] = {} if mode == "constant" and g.rng.random() < 0.5 else {"mode": mode}
    if g.opset < 11:
        g.add("Pad", [x], attrs | {"pads": pads, **some(g.rng, value=[0.0, 1.5])})
        return
    value = [g.weight(np.array(g.rng.choice([0, 1, 3]), x.dtype))] if g.rng.random() < 0.5 else []
    g.add("Pad", [x, g.numbers64(*pads), *value], attrs)


@node("Gather")
def _gather(g: Graph, op: str) -> None:
    x = g.pick(least=1)
    axis = g.rng.randrange(x.rank)
    size = x.shape[axis]
    indices = g.numbers.integers(-size, max(size, 1), g.shape(0, 2)) if size else np.zeros(0)
    kind = g.rng.choice(["int64", "int64", "int32"])
    index = g.weight(np.asarray(indices).astype(kind), reusable=False)
    g.add(op, [x, index], {"axis": axis} if axis or g.rng.random() < 0.5 else {})


@node("Lookup")
def _lookup(g: Graph, op: str) -> None:
    """A Gather by data: whole numbers modulo the size of the axis, or less that size."""
    x = g.pick(least=1, most=3)
    axis = g.rng.randrange(x.rank)
    if not x.shape[axis] or g.opset < 10:
        raise Unfit("nothing to look up, or no Mod")
    kind = g.rng.choice(["int64", "int64", "int32"])
    numbers = g.leaf(kind, g.shape(0, 2), constant=False)
    (known,) = g.add("Shape", [x])
    (size,) = g.add("Gather", [known, g.numbers64(axis)], {"axis": 0})
    if kind == "int32":
        (size,) = g.add("Cast", [size], {"to": elem_type(kind)})
    (index,) = g.add("Mod", [numbers, size])
    if g.rng.random() < 0.3:
        (index,) = g.add("Sub", [index, size])
    g.add("Gather", [x, index], {"axis": axis})


@node("DepthToSpace", "SpaceToDepth")
def _blocks(g: Graph, op: str) -> None:
    block = g.rng.choice([1, 2, 3])
    n, c, h, w = (g.rng.choice([1, 2]) for _ in range(4))
    shape = (n, c * block * block, h, w) if op == "DepthToSpace" else (n, c, h * block, w * block)
    mode = some(g.rng, mode=["DCR", "CRD"]) if op == "DepthToSpace" and g.opset >= 11 else {}
    g.add(op, [g.fitting(g.real, shape)], {"blocksize": block, **mode})


@node("Trilu")
def _trilu(g: Graph, op: str) -> None:
    x = g.pick(least=2)
    k = [g.weight(np.array(g.rng.choice([0, 1, -1, 2, -9]), np.int64), reusable=False)] if g.rng.random() < 0.6 else []
    g.add(op, [x, *k], some(g.rng, upper=[0, 1]))


@node("Resize", "ResizeLinear")
def _resize(g: Graph, op: str) -> None:
    x = _image(g)
    scales = g.weight(np.array([1, 1, *(g.rng.choice([1, 2, 3, 0.5]) for _ in range(x.rank - 2))], np.float32), False)
    attrs: dict[str, Any] = {"mode": "nearest" if op == "Resize" else "linear"}
    if g.opset >= 11:
        attrs |= some(
            g.rng, coordinate_transformation_mode=["asymmetric", "half_pixel", "align_corners"],
            nearest_mode=["floor", "round_prefer_floor", "ceil"],
        )  # fmt: skip
    g.add("Resize", [x, None, scales] if g.opset >= 11 else [x, scales], attrs)
