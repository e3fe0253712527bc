"""Subgraphs that models are made of: rules are about such patterns, and random nodes rarely form one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

from . import integer_nodes  # noqa: F401  (registers its makers)
from .graphs import Graph, Tensor, Unfit
from .moving_nodes import axes_node, slice_node

__all__ = ["PATTERNS", "chain"]

PATTERNS: list[Callable[[Graph], object]] = []


def pattern(maker: Callable[[Graph], object]) -> Callable[[Graph], object]:
    """Register a maker."""
    PATTERNS.append(maker)
    return maker


def chain(g: Graph, x: Tensor) -> Tensor:
    """One more elementwise node that keeps the type of `x`."""
    op = g.rng.choice(["Add", "Mul", "Sub", "Neg", "Relu", "Abs", "Max", "Min", "Identity", "Sigmoid", "Tanh"])
    if x.value.dtype.kind != "f" and op in ("Sigmoid", "Tanh", "Neg"):
        op = "Add"
    if op in ("Add", "Mul", "Sub", "Max", "Min"):
        kept = x.shape[g.rng.randint(0, x.rank) :]
        other = g.fitting(x.dtype, [1 if g.rng.random() < 0.2 else n for n in kept])
        (made,) = g.add(op, [x, other] if g.rng.random() < 0.7 else [other, x])
    else:
        (made,) = g.add(op, [x])
    if made.shape != x.shape or made.dtype != x.dtype:
        raise Unfit("another type")
    return made


@pattern
def _chain(g: Graph) -> None:
    x = g.pick("fi")
    for _ in range(g.rng.randint(2, 5)):
        x = chain(g, x)


@pattern
def _again(g: Graph) -> None:
    """An operator that is there, with one operand exchanged for another of its type."""
    nodes = [n for n in g.nodes if n.op_type not in ("Constant", "If", "Loop")]
    known = {t.name: t for t in g.available()}
    if not nodes:
        raise Unfit("nothing to repeat")
    old = g.rng.choice(nodes)
    operands = [known.get(name) if name else None for name in old.input]
    if any(o is None and name for o, name in zip(operands, old.input, strict=True)) or not operands:
        raise Unfit("operands that are out of reach")
    place = g.rng.randrange(len(operands))
    operand = operands[place]
    if operand is not None and (operand.dtype != "int64" or not operand.constant) and old.op_type not in ("Div", "Mod"):
        operands[place] = g.fitting(operand.dtype, operand.shape, operand.constant or None)
    attrs = {a.name: helper.get_attribute_value(a) for a in old.attribute}
    made = g.add(old.op_type, operands, attrs, outputs=len(old.output), domain=old.domain)
    if g.rng.random() < 0.6:
        first, second = known[old.output[0]], made[0]
        if first.dtype == second.dtype and first.value.dtype.kind in "fiu":
            if g.rng.random() < 0.6:
                g.add(g.rng.choice(["Add", "Mul", "Sub", "Max"]), [first, second])
            elif first.rank:
                g.add("Concat", [first, second], {"axis": g.rng.randrange(first.rank)})


@pattern
def _linear_layers(g: Graph) -> None:
    x = g.pick("f", least=2, most=3)
    for _ in range(g.rng.randint(1, 3)):
        width = g.rng.choice([1, 2, 3, 4])
        (x,) = g.add("MatMul", [x, g.fitting(x.dtype, (x.shape[-1], width), constant=True)])
        if g.rng.random() < 0.7:
            (x,) = g.add("Add", [x, g.fitting(x.dtype, (width,), constant=True)])
        if g.rng.random() < 0.4:
            (x,) = g.add(g.rng.choice(["Relu", "Tanh", "Sigmoid"]), [x])
        if g.rng.random() < 0.3:
            (x,) = g.add("Mul", [x, g.fitting(x.dtype, g.rng.choice([(), (1,), (width,)]), constant=True)])


@pattern
def _conv_block(g: Graph) -> None:
    size, channels = g.rng.choice([3, 4, 5]), g.rng.choice([1, 2, 3, 4])
    x = g.fitting(g.real, (g.size() or 1, channels, size, size))
    results = []
    for _ in range(g.rng.randint(1, 3)):
        kernel = g.rng.choice([1, 3, 3])
        attrs: dict[str, object] = {"pads": [kernel // 2] * 4}
        inside = channels
        if g.rng.random() < 0.2:
            attrs["group"], inside = channels, 1
        weight = g.fitting(x.dtype, (channels, inside, kernel, kernel), constant=True)
        bias = [g.fitting(x.dtype, (channels,), constant=True)] if g.rng.random() < 0.5 else []
        (y,) = g.add("Conv", [x, weight, *bias], attrs)
        if g.rng.random() < 0.6:
            row = [g.fitting(x.dtype, (channels,), constant=True) for _ in range(3)]
            variance = g.weight(np.abs(g.numbers.standard_normal(channels)).astype(x.dtype))
            (y,) = g.add("BatchNormalization", [y, *row, variance])
        results.append(y)
    while len(results) > 1:
        results.append(g.add("Add", [results.pop(), results.pop()])[0])
    g.add(g.rng.choice(["Relu", "Sigmoid", "Identity"]), results)


@pattern
def _swish(g: Graph) -> None:
    x = g.pick("f")
    (gate,) = g.add("Sigmoid", [x])
    g.add("Mul", [x, gate] if g.rng.random() < 0.5 else [gate, x])


@pattern
def _gelu(g: Graph) -> None:
    x = g.pick("f")
    number = [g.weight(np.array(n, x.dtype)) for n in (1.4142135, 1.0, 0.5)]
    (y,) = g.add("Div", [x, number[0]])
    (y,) = g.add("Erf", [y])
    (y,) = g.add("Add", [y, number[1]])
    (y,) = g.add("Mul", [x, y])
    g.add("Mul", [y, number[2]])


@pattern
def _normalized(g: Graph) -> None:
    x = g.pick("f", least=2, most=3)
    if not x.shape[-1]:
        raise Unfit("nothing to take a mean of")
    mean = _mean(g, x)
    (c,) = g.add("Sub", [x, mean])
    (square,) = g.add(*g.rng.choice([("Mul", [c, c]), ("Pow", [c, g.weight(np.array(2, c.dtype))])]))
    (variance,) = g.add("Add", [_mean(g, square), g.weight(np.array(1e-3, x.dtype))])
    (deviation,) = g.add("Sqrt", [variance])
    (y,) = g.add("Div", [c, deviation])
    (y,) = g.add("Mul", [y, g.fitting(x.dtype, x.shape[-1:], constant=True)])
    g.add("Add", [y, g.fitting(x.dtype, x.shape[-1:], constant=True)])


def _mean(g: Graph, x: Tensor) -> Tensor:
    if g.opset >= 18:
        return g.add("ReduceMean", [x, g.numbers64(-1)])[0]
    return g.add("ReduceMean", [x], {"axes": [x.rank - 1]})[0]


@pattern
def _attention(g: Graph) -> None:
    batch, rows, size = g.size(), g.size(), g.rng.choice([1, 2, 3])
    q, k, v = (g.fitting(g.real, (batch, rows, size)) for _ in range(3))
    (turned,) = g.add("Transpose", [k], {"perm": [0, 2, 1]})
    (scores,) = g.add("MatMul", [q, turned])
    if g.rng.random() < 0.7:
        (scores,) = g.add(g.rng.choice(["Mul", "Div"]), [scores, g.weight(np.array(2, scores.dtype))])
    if g.rng.random() < 0.4:
        (scores,) = g.add("Add", [scores, g.fitting(g.real, g.rng.choice([(rows,), (1, 1, rows), (rows, 1), ()]))])
    (weights,) = g.add("Softmax", [scores], {"axis": 2})
    g.add("MatMul", [weights, v])


@pattern
def _parts(g: Graph) -> None:
    """A tensor cut along an axis, its parts computed with, and put together again."""
    x = g.pick("fi", least=1, most=4)
    axes = [a for a, n in enumerate(x.shape) if n >= 2]
    if not axes:
        raise Unfit("nothing to cut")
    axis = g.rng.choice(axes)
    cut = g.rng.randint(1, x.shape[axis] - 1)
    sizes = [cut, x.shape[axis] - cut]
    if g.rng.random() < 0.5:
        where = {} if g.opset >= 13 else {"split": sizes}
        parts = g.add(
            "Split", [x, *([g.numbers64(*sizes)] if g.opset >= 13 else [])], {"axis": axis, **where}, outputs=2
        )
    else:
        parts = [slice_node(g, x, [0], [cut], [axis], [1]), slice_node(g, x, [cut], [2**31 - 1], [axis], [1])]
    parts = [chain(g, part) if g.rng.random() < 0.6 else part for part in parts]
    if g.rng.random() < 0.3:
        parts.reverse()
    g.add("Concat", parts, {"axis": axis})


@pattern
def _moved(g: Graph) -> None:
    """Movements of data in a row, with an elementwise operator somewhere in between."""
    x = g.pick(most=4)
    for _ in range(g.rng.randint(2, 4)):
        kind = g.rng.choice(["Transpose", "Reshape", "Unsqueeze", "Squeeze", "chain"])
        if kind == "Transpose":
            (x,) = g.add("Transpose", [x], {"perm": g.rng.sample(range(x.rank), x.rank)})
        elif kind == "Reshape":
            (x,) = g.add("Reshape", [x, g.numbers64(*g.rng.choice([[-1], [1, -1], [x.value.size, 1], [0, -1]]))])
        elif kind == "Unsqueeze" and x.rank < 5:
            x = axes_node(g, "Unsqueeze", x, [g.rng.randint(0, x.rank)])
        elif kind == "Squeeze" and 1 in x.shape:
            x = axes_node(g, "Squeeze", x, [x.shape.index(1)])
        elif x.dtype != "bool":
            x = chain(g, x)


@pattern
def _whole_sums(g: Graph) -> None:
    """Sums and products of integers, moved into and out of each other."""
    x = g.pick("iu", least=1, most=3)
    other = g.fitting(x.dtype, g.rng.choice([(), (1,), x.shape[-1:], x.shape]))
    (y,) = g.add(g.rng.choice(["Mul", "Add", "Sub"]), [x, other])
    op, axis = g.rng.choice(["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL1"]), -1
    if g.opset >= (13 if op == "ReduceSum" else 18):
        (y,) = g.add(op, [y, g.numbers64(axis)])
    else:
        (y,) = g.add(op, [y], {"axes": [x.rank - 1]})
    chain(g, y)
