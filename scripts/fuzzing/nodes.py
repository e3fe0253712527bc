"""One random node of each operator: operands and attributes that usually fit. What does not fit is drawn again.

The operators are those that `superopt` defines (a test compares the lists) and others, which are opaque to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np

from .graphs import Graph, Tensor, elem_type
from .values import FLOATS, INTEGERS

__all__ = ["NODES", "OPAQUE", "node", "some", "some_axes"]

Maker = Callable[[Graph], object]
NODES: dict[str, Maker] = {}
OPAQUE: dict[str, Maker] = {}


class NamedMaker(Protocol):
    """Adds a node of operator `op` to a graph."""

    def __call__(self, g: Graph, op: str) -> object: ...


_Maker = TypeVar("_Maker", bound=NamedMaker)


def node(*names: str, opaque: bool = False) -> Callable[[_Maker], _Maker]:
    """Register a maker for these operators."""

    def register(maker: _Maker) -> _Maker:
        (OPAQUE if opaque else NODES).update((name, partial(maker, op=name)) for name in names)
        return maker

    return register


def some(rng: random.Random, **attrs: Any) -> dict[str, Any]:
    """Each attribute with one of its values, or left out."""
    return {name: rng.choice(values) for name, values in attrs.items() if rng.random() < 0.7}


# ---- elementwise


@node("Ceil", "Floor", "Round", "Exp", "Log", "Sqrt", "Reciprocal", "Erf", "Sin", "Cos", "Sigmoid", "Tanh",
      "Softplus", "Softsign", "Mish", "HardSwish")  # fmt: skip
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
    g.add(op, [g.pick("f")], some(g.rng, **known.get(op, {"alpha": [1.0, 0.5, 0.01, -0.5, 2.0]})))


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
        g.add(op, [x], some(g.rng, min=[float(low)], max=[float(high)]))
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
    attrs = some(g.rng, alpha=[1.702, 1.0]) if op == "QuickGelu" else {}
    g.add(op, [x, *bias], attrs, domain="com.microsoft")


# ---- sums and products


@node("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
      "ReduceLogSumExp", "ReduceSumSquare")  # fmt: skip
def _reduce(g: Graph, op: str) -> None:
    x = g.pick("f" if op in ("ReduceL2", "ReduceLogSum", "ReduceLogSumExp") else "fiu")
    attrs: dict[str, Any] = some(g.rng, keepdims=[0, 1])
    axes = some_axes(g, x.rank) if g.rng.random() < 0.9 else []
    inputs = [x]
    if axes and g.opset >= (13 if op == "ReduceSum" else 18):
        inputs.append(g.numbers64(*axes))
    elif axes:
        attrs["axes"] = axes
    g.add(op, inputs, attrs)


def some_axes(g: Graph, rank: int, most: int = 3) -> list[int]:
    """Return some axes of a tensor of this rank, a few of them counted from the end."""
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
        attrs = some(g.rng, alpha=[1.0, 0.5], transB=[0, 1])
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
    attrs: dict[str, Any] = some(g.rng, alpha=[1.0, 0.5, -2.0, 0.0], beta=[1.0, 2.0, 0.0], transA=[0, 1], transB=[0, 1])
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
    g.add(op, [x, axis], some(g.rng, exclusive=[0, 1], reverse=[0, 1]))


# ---- normalization


@node("BatchNormalization")
def _batch_norm(g: Graph, op: str) -> None:
    x = g.pick("f", least=2, most=4)
    channel = (x.shape[1],)
    variance = np.abs(g.numbers.standard_normal(channel)).astype(x.dtype)
    scale, bias, mean = (g.fitting(x.dtype, channel, constant=g.rng.random() < 0.8) for _ in range(3))
    g.add(op, [x, scale, bias, mean, g.weight(variance)], some(g.rng, epsilon=[1e-5, 1e-3, 0.5]))


@node("InstanceNormalization")
def _instance(g: Graph, op: str) -> None:
    x = g.pick("f", least=3, most=4)
    pair = [g.fitting(x.dtype, x.shape[1:2]) for _ in range(2)]
    g.add(op, [x, *pair], some(g.rng, epsilon=[1e-5, 0.5]))


@node("GroupNormalization")
def _group(g: Graph, op: str) -> None:
    x = g.pick("f", least=3, most=4)
    groups = g.rng.choice([n for n in range(1, x.shape[1] + 1) if x.shape[1] % n == 0] or [1])
    size = (x.shape[1] if g.opset >= 21 else groups,)
    g.add(op, [x, *(g.fitting(x.dtype, size) for _ in range(2))], {"num_groups": groups, **some(g.rng, epsilon=[0.5])})


@node("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization")
def _layer(g: Graph, op: str) -> None:
    x = g.pick("f", least=1, most=4)
    axis = g.rng.choice([-1, -1, g.rng.randrange(-x.rank, x.rank)])
    shape = x.shape[axis % x.rank :]
    parameters = [g.fitting(x.dtype, shape) for _ in range(1 if op != "LayerNormalization" else g.rng.choice([1, 2]))]
    attrs = some(g.rng, epsilon=[1e-5, 0.5]) | ({} if axis == -1 and g.rng.random() < 0.5 else {"axis": axis})
    g.add(op, [x, *parameters], attrs)


@node("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def _skip(g: Graph, op: str) -> None:
    x = g.pick("f", least=3, most=3)
    row, simple = x.shape[-1:], op.startswith("SkipSimplified")
    inputs: list[Tensor | None] = [x, g.fitting(x.dtype, x.shape), g.fitting(x.dtype, row)]
    inputs += [g.fitting(x.dtype, row) if g.rng.random() < 0.5 else None for _ in range(1 if simple else 2)]
    g.add(op, inputs, some(g.rng, epsilon=[1e-5, 0.5]), domain="com.microsoft")


@node("MeanVarianceNormalization")
def _mean_variance(g: Graph, op: str) -> None:
    x = g.pick("f", least=1, most=4)
    g.add(op, [x], {"axes": some_axes(g, x.rank)})


@node("LpNormalization", "Softmax", "LogSoftmax")
def _along(g: Graph, op: str) -> None:
    x = g.pick("f", least=1)
    attrs = some(g.rng, axis=[-1, g.rng.randrange(-x.rank, x.rank)])
    g.add(op, [x], attrs | (some(g.rng, p=[1, 2]) if op == "LpNormalization" else {}))


# ---- attention and recurrent layers


@node("MultiHeadAttention")
def _heads(g: Graph, op: str) -> None:
    heads, size, own, rows = (g.rng.choice([1, 2, 3]) for _ in range(4))
    batch, sequence = g.size(), g.size()
    shapes = [(batch, sequence, heads * size), (batch, rows, heads * size), (batch, rows, heads * own)]
    attrs = {"num_heads": heads, **some(g.rng, scale=[0.5])}
    inputs: list[Tensor | None] = [g.fitting("float32", shape) for shape in shapes]
    if g.rng.random() < 0.4:
        inputs.append(g.fitting("float32", (heads * (2 * size + own),)))
    if g.rng.random() < 0.3:
        added = (g.rng.choice([1, batch]), g.rng.choice([1, heads]), sequence, rows)
        inputs += [*[None] * (5 - len(inputs)), g.fitting("float32", added)]
    g.add(op, inputs, attrs, domain="com.microsoft")


@node("RotaryEmbedding")
def _rotary(g: Graph, op: str) -> None:
    heads, half = g.rng.choice([1, 2, 3]), g.rng.choice([1, 2])
    batch, sequence, flat = g.size(), g.size(), g.rng.random() < 0.5
    shape = (batch, sequence, heads * half * 2) if flat else (batch, heads, sequence, half * 2)
    angles = [g.fitting(g.real, (batch, sequence, half)) for _ in range(2)]
    attrs = some(g.rng, interleaved=[0, 1]) | ({"num_heads": heads} if flat else {})
    g.add(op, [g.fitting(g.real, shape), *angles], attrs)


@node("LRN")
def _lrn(g: Graph, op: str) -> None:
    x = g.pick("f", least=4, most=4)
    g.add(op, [x], {"size": g.rng.choice([1, 3, 5]), **some(g.rng, alpha=[0.5], beta=[0.5, 1.0], bias=[2.0])})


@node("Attention")
def _attention(g: Graph, op: str) -> None:
    heads, size, hidden = (g.rng.choice([1, 2, 3]) for _ in range(3))
    width = 3 * heads * size
    shapes = [(g.size(), g.size(), hidden), (hidden, width), (width,)]
    attrs = {"num_heads": heads, **some(g.rng, scale=[0.5])}
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
        attrs |= some(g.rng, linear_before_reset=[0, 1])
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
