"""One random node of each operator: operands and attributes that usually fit. What does not fit is drawn again.

The operators are those that `superopt` defines (a test compares the lists) and others, which are opaque to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .graphs import Graph, Tensor, Unfit, elem_type
from .values import FLOATS, INTEGERS

__all__ = ["NODES", "OPAQUE", "axes_node", "slice_node"]

Maker = Callable[[Graph], object]
NamedMaker = Callable[[Graph, str], object]
NODES: dict[str, Maker] = {}
OPAQUE: dict[str, Maker] = {}


def node(*names: str, opaque: bool = False) -> Callable[[NamedMaker], NamedMaker]:
    """Register a maker for these operators."""

    def register(maker: NamedMaker) -> NamedMaker:
        (OPAQUE if opaque else NODES).update((name, partial(maker, op=name)) for name in names)
        return maker

    return register


def _some(rng: random.Random, **attrs: Any) -> dict[str, Any]:
    """Each attribute with one of its values, or left out."""
    return {name: rng.choice(values) for name, values in attrs.items() if rng.random() < 0.7}


# ---- elementwise


@node("Ceil", "Floor", "Round", "Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Sigmoid", "Tanh", "Softplus", "Softsign",
      "Mish", "HardSwish")  # fmt: skip
def _real(g: Graph, op: str) -> None:
    x = g.pick("f")
    if op in ("Log", "Sqrt", "Reciprocal") and g.rng.random() < 0.8:  # where it is defined
        (x,) = g.add("Abs", [x])
        (x,) = g.add("Add", [x, g.weight(np.array(0.5, x.dtype))])
    g.add(op, [x])


@node("Abs", "Neg", "Sign", "Relu")
def _number(g: Graph, op: str) -> None:
    g.add(op, [g.pick("fiu")])


@node("Identity")
def _identity(g: Graph, op: str) -> None:
    g.add(op, [g.pick()])


@node("Elu", "Celu", "Selu", "LeakyRelu", "ThresholdedRelu", "HardSigmoid", "Gelu", "Shrink")
def _parametric(g: Graph, op: str) -> None:
    known: dict[str, dict[str, list[Any]]] = {
        "Selu": {"alpha": [1.0, 2.0], "gamma": [1.0, 0.5]},
        "HardSigmoid": {"alpha": [0.2, 1 / 6, -0.5], "beta": [0.5, 0.25]},
        "Gelu": {"approximate": ["none", "tanh"]},
        "Shrink": {"bias": [0.0, 0.25], "lambd": [0.5, 0.0]},
    }
    g.add(op, [g.pick("f")], _some(g.rng, **known.get(op, {"alpha": [1.0, 0.5, 0.01, -0.5, 2.0]})))


@node("Not")
def _not(g: Graph, op: str) -> None:
    g.add(op, [g.pick("b")])


@node("And", "Or", "Xor")
def _truth(g: Graph, op: str) -> None:
    x = g.pick("b")
    g.add(op, [x, g.broadcastable(x)])


@node("Add", "Sub", "Mul", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "PRelu")
def _binary(g: Graph, op: str) -> None:
    x = g.pick("fiub" if op == "Equal" else "fiu")
    if op == "Div" and x.value.dtype.kind in "iu":
        return _whole_division(g, op, x)
    pair = [x, g.broadcastable(x)]
    if op != "PRelu":
        g.rng.shuffle(pair)
    if op in ("Max", "Min") and g.rng.random() < 0.2:
        pair.append(g.broadcastable(x))
    g.add(op, pair)
    return None


def _whole_division(g: Graph, op: str, x: Tensor) -> None:
    ends = np.iinfo(x.dtype)
    by = [n for n in (1, 2, 3, 7, 10, -2, -3, 2**24, 2**31 - 1) if ends.min <= n <= ends.max]
    shape = x.shape[g.rng.randint(0, x.rank) :]
    fmod = {} if op == "Div" else {"fmod": 0}
    g.add(op, [x, g.weight(g.numbers.choice(np.array(by, x.dtype), shape))], fmod)


@node("Sum")
def _sum(g: Graph, op: str) -> None:
    x = g.pick("f")
    g.add(op, [x, *(g.broadcastable(x) for _ in range(g.rng.randint(0, 3)))])


@node("Pow")
def _pow(g: Graph, op: str) -> None:
    x = g.pick("fi")
    by = g.rng.choice([2, 3, 1, 0, 0.5, -1, 2.0]) if x.value.dtype.kind == "f" else g.rng.choice([0, 1, 2, 3])
    kind = x.dtype if g.rng.random() < 0.8 or not float(by).is_integer() else g.rng.choice(["float32", "int64"])
    g.add(op, [x, g.weight(np.array(by, kind)) if g.rng.random() < 0.8 else g.broadcastable(x)])


@node("Where")
def _where(g: Graph, op: str) -> None:
    condition, x = g.pick("b"), g.pick()
    g.add(op, [condition, x, g.broadcastable(x)])


@node("Clip")
def _clip(g: Graph, op: str) -> None:
    x = g.pick("fiu")
    low, high = sorted(g.rng.sample([0, 1, 3, 6, 100] + ([-1, -2] if x.value.dtype.kind != "u" else []), 2))
    if g.rng.random() < 0.05:
        low, high = high, low
    if g.opset < 11:
        g.add(op, [x], _some(g.rng, min=[float(low)], max=[float(high)]))
        return
    bounds = [g.weight(np.array(b, x.dtype)) if g.rng.random() < 0.8 else None for b in (low, high)]
    g.add(op, [x, *bounds])


@node("Cast")
def _cast(g: Graph, op: str) -> None:
    x = g.pick()
    g.add(op, [x], {"to": elem_type(g.rng.choice([g.real, g.whole, "bool", *FLOATS, *INTEGERS]))})


@node("BiasGelu", "FastGelu", "QuickGelu")
def _fused_gelu(g: Graph, op: str) -> None:
    x = g.pick("f", least=1)
    bias = [g.fitting(x.dtype, x.shape[-1:])] if op == "BiasGelu" or (op == "FastGelu" and g.rng.random() < 0.5) else []
    attrs = _some(g.rng, alpha=[1.702, 1.0]) if op == "QuickGelu" else {}
    g.add(op, [x, *bias], attrs, domain="com.microsoft")


# ---- sums and products


@node("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
      "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip
def _reduce(g: Graph, op: str) -> None:
    x = g.pick("f" if op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp") else "fiu")
    attrs: dict[str, Any] = _some(g.rng, keepdims=[0, 1])
    axes = _axes(g, x.rank) if g.rng.random() < 0.9 else []
    inputs = [x]
    if axes and g.opset >= (13 if op == "ReduceSum" else 18):
        inputs.append(g.numbers64(*axes))
    elif axes:
        attrs["axes"] = axes
    g.add(op, inputs, attrs)


def _axes(g: Graph, rank: int, most: int = 3) -> list[int]:
    chosen = g.rng.sample(range(rank), g.rng.randint(min(1, rank), min(rank, most)))
    chosen = sorted(chosen) if g.rng.random() < 0.9 else chosen
    return [a - rank if g.rng.random() < 0.4 and g.opset >= 11 else a for a in chosen]


@node("MatMul", "FusedMatMul")
def _matmul(g: Graph, op: str) -> None:
    a = g.pick("fiu" if op == "MatMul" else "f", least=1, most=4)
    k, columns = a.shape[-1], g.size()
    shape = [(k, columns), (k, columns), (k,), (*a.shape[:-2], k, columns), (1, k, columns)][g.rng.randrange(5)]
    attrs: dict[str, Any] = {}
    if op == "FusedMatMul":
        attrs = _some(g.rng, alpha=[1.0, 0.5], transB=[0, 1])
        if attrs.get("transB") and len(shape) > 1:
            shape = (*shape[:-2], shape[-1], shape[-2])
    b = g.fitting(a.dtype, shape)
    pair = [a, b]
    if a.rank > 1 and a.shape[-1] == a.shape[-2] and g.rng.random() < 0.3:
        pair = pair[::-1]
    g.add(op, pair, attrs, domain="" if op == "MatMul" else "com.microsoft")


@node("Gemm", "FusedGemm")
def _gemm(g: Graph, op: str) -> None:
    a = g.pick("f" if g.rng.random() < 0.95 or op == "FusedGemm" else "iu", least=2, most=2)
    attrs: dict[str, Any] = _some(
        g.rng, alpha=[1.0, 0.5, -2.0, 0.0], beta=[1.0, 2.0, 0.0], transA=[0, 1], transB=[0, 1]
    )
    if a.value.dtype.kind != "f":
        attrs = {name: value for name, value in attrs.items() if name.startswith("trans")}
    rows, k = a.shape[::-1] if attrs.get("transA") else a.shape
    columns = g.size()
    inputs = [a, g.fitting(a.dtype, (columns, k) if attrs.get("transB") else (k, columns))]
    if g.rng.random() < 0.6:
        inputs.append(g.fitting(a.dtype, g.rng.choice([(columns,), (rows, columns), (1,), (), (rows, 1)])))
    if op == "FusedGemm":
        attrs["activation"] = g.rng.choice(["Relu", "Sigmoid", "Tanh"])
    g.add(op, inputs, attrs, domain="" if op == "Gemm" else "com.microsoft")


@node("Einsum")
def _einsum(g: Graph, op: str) -> None:
    x = g.pick("f" if g.rng.random() < 0.8 else "i", least=1, most=3)
    letters = "abc"[: x.rank]
    if g.rng.random() < 0.3:
        out = g.rng.sample(letters, g.rng.randint(0, x.rank))
        g.add(op, [x], {"equation": f"{letters}->{''.join(out)}"})
        return
    other = g.rng.sample(letters, g.rng.randint(1, x.rank)) + g.rng.sample("de", g.rng.randint(0, 2))
    g.rng.shuffle(other)
    sizes = dict(zip(letters, x.shape, strict=True)) | {"d": g.size(), "e": g.size()}
    y = g.fitting(x.dtype, [sizes[c] for c in other])
    every = sorted({*letters, *other})
    out = g.rng.sample(every, g.rng.randint(0, len(every)))
    g.add(op, [x, y], {"equation": f"{letters},{''.join(other)}->{''.join(out)}"})


@node("CumSum")
def _cumsum(g: Graph, op: str) -> None:
    x = g.pick("fi", least=1)
    axis = g.weight(np.array(g.rng.randrange(-x.rank, x.rank), np.int64), reusable=False)
    g.add(op, [x, axis], _some(g.rng, exclusive=[0, 1], reverse=[0, 1]))


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
    attrs = _windows(g, x, op) | _some(g.rng, ceil_mode=[0, 0, 1] if g.opset >= 10 else [0])
    if op == "AveragePool":
        attrs |= _some(g.rng, count_include_pad=[0, 1])
    g.add(op, [x], attrs)


@node("GlobalAveragePool", "GlobalMaxPool")
def _global(g: Graph, op: str) -> None:
    g.add(op, [_image(g)])


# ---- normalization


@node("BatchNormalization")
def _batch_norm(g: Graph, op: str) -> None:
    x = g.pick("f", least=2, most=4)
    channel = (x.shape[1],)
    variance = np.abs(g.numbers.standard_normal(channel)).astype(x.dtype)
    scale, bias, mean = (g.fitting(x.dtype, channel, constant=g.rng.random() < 0.8) for _ in range(3))
    g.add(op, [x, scale, bias, mean, g.weight(variance)], _some(g.rng, epsilon=[1e-5, 1e-3, 0.5]))


@node("InstanceNormalization")
def _instance(g: Graph, op: str) -> None:
    x = g.pick("f", least=3, most=4)
    pair = [g.fitting(x.dtype, x.shape[1:2]) for _ in range(2)]
    g.add(op, [x, *pair], _some(g.rng, epsilon=[1e-5, 0.5]))


@node("GroupNormalization")
def _group(g: Graph, op: str) -> None:
    x = g.pick("f", least=3, most=4)
    groups = g.rng.choice([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0] or [1])
    size = (x.shape[1] if g.opset >= 21 else groups,)
    g.add(op, [x, *(g.fitting(x.dtype, size) for _ in range(2))], {"num_groups": groups, **_some(g.rng, epsilon=[0.5])})


@node("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def _layer(g: Graph, op: str) -> None:
    x = g.pick("f", least=1, most=4)
    axis = g.rng.choice([-1, -1, g.rng.randrange(-x.rank, x.rank)])
    shape = x.shape[axis % x.rank :]
    parameters = [g.fitting(x.dtype, shape) for _ in range(1 if op != "LayerNormalization" else g.rng.choice([1, 2]))]
    attrs = _some(g.rng, epsilon=[1e-5, 0.5]) | ({} if axis == -1 and g.rng.random() < 0.5 else {"axis": axis})
    g.add(op, [x, *parameters], attrs)


@node("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip(g: Graph, op: str) -> None:
    x = g.pick("f", least=3, most=3)
    row, simple = x.shape[-1:], op.startswith("SkipSimplified")
    inputs: list[Tensor | None] = [x, g.fitting(x.dtype, x.shape), g.fitting(x.dtype, row)]
    inputs += [g.fitting(x.dtype, row) if g.rng.random() < 0.5 else None for _ in range(1 if simple else 2)]
    g.add(op, inputs, _some(g.rng, epsilon=[1e-5, 0.5]), domain="com.microsoft")


@node("LpNormalization", "Softmax", "LogSoftmax")
def _along(g: Graph, op: str) -> None:
    x = g.pick("f", least=1)
    attrs = _some(g.rng, axis=[-1, g.rng.randrange(-x.rank, x.rank)])
    g.add(op, [x], attrs | (_some(g.rng, p=[1, 2]) if op == "LpNormalization" else {}))


# ---- attention and recurrent layers


@node("MultiHeadAttention")
def _heads(g: Graph, op: str) -> None:
    heads, size, own, rows = (g.rng.choice([1, 2, 3]) for _ in range(4))
    batch, sequence = g.size(), g.size()
    shapes = [(batch, sequence, heads * size), (batch, rows, heads * size), (batch, rows, heads * own)]
    attrs = {"num_heads": heads, **_some(g.rng, scale=[0.5])}
    g.add(op, [g.fitting("float32", shape) for shape in shapes], attrs, domain="com.microsoft")


@node("Attention")
def _attention(g: Graph, op: str) -> None:
    heads, size, hidden = (g.rng.choice([1, 2, 3]) for _ in range(3))
    width = 3 * heads * size
    shapes = [(g.size(), g.size(), hidden), (hidden, width), (width,)]
    attrs = {"num_heads": heads, **_some(g.rng, scale=[0.5])}
    g.add(op, [g.fitting("float32", shape) for shape in shapes], attrs, domain="com.microsoft")


@node("LSTM", "GRU")
@node("RNN", opaque=True)
def _recurrent(g: Graph, op: str) -> None:
    steps, batch, width, hidden = (g.rng.choice([1, 2, 3]) for _ in range(4))
    gates, both = {"LSTM": 4, "GRU": 3, "RNN": 1}[op], g.rng.random() < 0.15
    directions = 2 if both else 1
    attrs: dict[str, Any] = {"hidden_size": hidden}
    if both or g.rng.random() < 0.1:
        attrs["direction"] = "bidirectional" if both else "reverse"
    if op == "GRU":
        attrs |= _some(g.rng, linear_before_reset=[0, 1])
    inputs: list[Tensor | None] = [
        g.fitting("float32", (steps, batch, width)),
        g.fitting("float32", (directions, gates * hidden, width), constant=True),
        g.fitting("float32", (directions, gates * hidden, hidden), constant=True),
        g.fitting("float32", (directions, 2 * gates * hidden), constant=True) if g.rng.random() < 0.7 else None,
    ]
    states = [g.fitting("float32", (directions, batch, hidden)) for _ in range(2 if op == "LSTM" else 1)]
    if g.rng.random() < 0.5:
        inputs += [None, *states]
    g.add(op, inputs, attrs, outputs=g.rng.randint(1, 3 if op == "LSTM" else 2))


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
    total, shape = x.value.size, []
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
    g.add(op, [x], _some(g.rng, axis=list(range(x.rank + 1))))


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
    axes = _axes(g, x.rank, 2)
    starts, ends, steps = [], [], []
    for axis in axes:
        size = x.shape[axis]
        step = g.rng.choice([1, 1, 1, 2, 3, -1, -2])
        low, high = sorted(g.rng.choice([0, 1, size // 2, size, size + 2, -1, -size - 1]) for _ in range(2))
        starts.append(high if step < 0 else low)
        ends.append(low if step < 0 else high)
        steps.append(step)
    slice_node(g, x, starts, [g.rng.choice([e, e, e, 2**63 - 1, 2**31 - 1]) for e in ends], axes, steps)


@node("Pad")
def _pad(g: Graph, op: str) -> None:
    x = g.pick("fiu", least=1, most=4)
    pads = [g.rng.choice([0, 0, 1, 2, -1] if g.rng.random() < 0.3 else [0, 0, 1]) for _ in range(2 * x.rank)]
    mode = g.rng.choice(["constant"] * 5 + ["reflect", "edge"])
    attrs: dict[str, Any] = {} if mode == "constant" and g.rng.random() < 0.5 else {"mode": mode}
    if g.opset < 11:
        g.add(op, [x], attrs | {"pads": pads, **_some(g.rng, value=[0.0, 1.5])})
        return
    value = [g.weight(np.array(g.rng.choice([0, 1, 3]), x.dtype))] if g.rng.random() < 0.5 else []
    g.add(op, [x, g.numbers64(*pads), *value], attrs)


@node("Gather")
def _gather(g: Graph, op: str) -> None:
    x = g.pick(least=1)
    axis = g.rng.randrange(x.rank)
    size = x.shape[axis]
    indices = g.numbers.integers(-size, max(size, 1), g.shape(0, 2)) if size else np.zeros(0)
    kind = g.rng.choice(["int64", "int64", "int32"])
    index = g.weight(np.asarray(indices).astype(kind), reusable=False)
    g.add(op, [x, index], {"axis": axis} if axis or g.rng.random() < 0.5 else {})


@node("DepthToSpace", "SpaceToDepth")
def _blocks(g: Graph, op: str) -> None:
    block = g.rng.choice([1, 2, 3])
    n, c, h, w = (g.rng.choice([1, 2]) for _ in range(4))
    shape = (n, c * block * block, h, w) if op == "DepthToSpace" else (n, c, h * block, w * block)
    mode = _some(g.rng, mode=["DCR", "CRD"]) if op == "DepthToSpace" and g.opset >= 11 else {}
    g.add(op, [g.fitting(g.real, shape)], {"blocksize": block, **mode})


@node("Trilu")
def _trilu(g: Graph, op: str) -> None:
    x = g.pick(least=2)
    k = [g.weight(np.array(g.rng.choice([0, 1, -1, 2, -9]), np.int64), reusable=False)] if g.rng.random() < 0.6 else []
    g.add(op, [x, *k], _some(g.rng, upper=[0, 1]))


@node("Resize")
def _resize(g: Graph, op: str) -> None:
    x = _image(g)
    scales = g.weight(np.array([1, 1, *(g.rng.choice([1, 2, 3, 0.5]) for _ in range(x.rank - 2))], np.float32), False)
    attrs: dict[str, Any] = {"mode": g.rng.choice(["nearest", "nearest", "linear"])}
    if g.opset >= 11:
        attrs |= _some(
            g.rng, coordinate_transformation_mode=["asymmetric", "half_pixel", "align_corners"],
            nearest_mode=["floor", "round_prefer_floor", "ceil"],
        )  # fmt: skip
    g.add(op, [x, None, scales] if g.opset >= 11 else [x, scales], attrs)
