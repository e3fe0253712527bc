"""One random node of each operator on indices and on quantized numbers."""

from __future__ import annotations

import numpy as np

from .graphs import Graph
from .nodes import node, some

__all__: list[str] = []


@node("Mod")
def _mod(g: Graph, op: str) -> None:
    x = g.pick("fiu")
    fmod = x.value.dtype.kind == "f" or g.rng.random() < 0.3
    low = 1 if x.value.dtype.kind == "u" else -4
    y = g.numbers.choice(np.array([n for n in range(low, 8) if n], x.dtype), x.shape[-1:])
    g.add(op, [x, g.weight(y)], {"fmod": 1} if fmod else {})


@node("ArgMax", "ArgMin")
def _place(g: Graph, op: str) -> None:
    x = g.pick("fiu", least=1)
    attrs = {"axis": g.rng.randrange(x.rank), **some(g.rng, keepdims=[0, 1])}
    g.add(op, [x], attrs | (some(g.rng, select_last_index=[0, 1]) if g.opset >= 12 else {}))


@node("OneHot")
def _one_hot(g: Graph, op: str) -> None:
    x = g.pick("iu", least=1, most=3)
    values = g.weight(np.array(g.rng.choice([[0, 1], [2, -3]]), g.rng.choice(["float32", "int64"])))
    g.add(op, [x, g.numbers64(g.rng.choice([1, 3, 5])), values], some(g.rng, axis=[-1, 0, g.rng.randint(0, x.rank)]))


@node("QuantizeLinear", "DequantizeLinear")
def _quantize(g: Graph, op: str) -> None:
    kind = g.rng.choice(["uint8", "int8", "uint8", "int16"])
    back = op == "DequantizeLinear"
    x = g.pick("iu" if back and g.rng.random() < 0.5 else "f", most=4)
    kind = x.dtype if x.value.dtype.kind != "f" else kind
    axis = g.rng.randrange(x.rank) if x.rank and g.opset >= 13 and g.rng.random() < 0.4 else None
    own = () if axis is None else (x.shape[axis],)
    scale = g.weight(np.asarray(g.numbers.choice([0.25, 0.5, 0.3, 2.0], own), np.float32))
    zeros = [0] if kind == "int32" else [0, 3, 100]
    zero = [g.weight(np.asarray(g.numbers.choice(zeros, own), kind))] if kind != "uint8" or g.rng.random() < 0.7 else []
    attrs = {} if axis is None else {"axis": axis}
    if x.value.dtype.kind == "f":
        (x,) = g.add("QuantizeLinear", [x, scale, *zero], attrs)
    if back:
        g.add(op, [x, scale, *zero], attrs)


@node("MatMulInteger")
def _matmul_integer(g: Graph, op: str) -> None:
    a = g.fitting(g.rng.choice(["int8", "uint8"]), (g.size(), g.size()))
    b = g.fitting(g.rng.choice(["int8", "uint8"]), (a.shape[-1], g.size()))
    zeros = [g.weight(np.array(g.rng.choice([0, 3, 100]), x.dtype)) for x in (a, b)]
    g.add(op, [a, b, *zeros[: g.rng.randint(0, 2)]])


@node("ConvInteger")
def _conv_integer(g: Graph, op: str) -> None:
    spatial, groups = g.rng.choice([1, 2]), g.rng.choice([1, 1, 2])
    kernel = tuple(g.rng.choice([1, 2, 3]) for _ in range(spatial))
    x = g.fitting("uint8", (g.size(), groups * g.rng.choice([1, 2]), *(n + g.rng.choice([0, 2]) for n in kernel)))
    w = g.fitting(g.rng.choice(["int8", "uint8"]), (groups * g.rng.choice([1, 2]), x.shape[1] // groups, *kernel))
    zeros = [g.weight(np.array(g.rng.choice([0, 3, 100]), each.dtype)) for each in (x, w)]
    attrs = some(g.rng, pads=[[1] * 2 * spatial], strides=[[2] * spatial])
    g.add(op, [x, w, *zeros[: g.rng.randint(0, 2)]], attrs | ({"group": groups} if groups > 1 else {}))
