"""One random node of operators that `superopt` does not define: they are copied to the output unchanged."""

from __future__ import annotations

import numpy as np

from .graphs import Graph, Tensor, Unfit
from .nodes import NODES, OPAQUE, node
from .patterns import chain

__all__ = ["OPAQUE"]


@node("Atan", "Sinh", "Asinh", "IsNaN", "Hardmax", "Det", opaque=True)
def _real(g: Graph, op: str) -> None:
    g.add(op, [g.pick("f")])


@node("TopK", opaque=True)
def _top(g: Graph, op: str) -> None:
    x = g.pick("fi", least=1)
    axis = g.rng.randrange(x.rank)
    g.add(op, [x, g.numbers64(g.rng.randint(0, x.shape[axis]))], {"axis": axis}, outputs=2)


@node("Shape", "Size", "NonZero", opaque=True)
def _of_any(g: Graph, op: str) -> None:
    g.add(op, [g.pick()])


@node("GatherElements", "ScatterElements", opaque=True)
def _elements(g: Graph, op: str) -> None:
    x = g.pick(least=1, most=3)
    axis = g.rng.randrange(x.rank)
    if not x.shape[axis]:
        raise Unfit("nothing to gather")
    index = g.weight(g.numbers.integers(0, x.shape[axis], x.shape), reusable=False)
    g.add(op, [x, index, *([g.fitting(x.dtype, x.shape)] if op == "ScatterElements" else [])], {"axis": axis})


@node("BitwiseAnd", "BitwiseOr", "BitwiseXor", opaque=True)
def _bits(g: Graph, op: str) -> None:
    x = g.pick("iu")
    g.add(op, [x, g.broadcastable(x)])


@node("BitwiseNot", opaque=True)
def _bitwise_not(g: Graph, op: str) -> None:
    g.add(op, [g.pick("iu")])


@node("Dropout", opaque=True)
def _dropout(g: Graph, op: str) -> None:
    g.add(op, [g.pick("f")], outputs=g.rng.choice([1, 1, 2]))


@node("Compress", opaque=True)
def _compress(g: Graph, op: str) -> None:
    x = g.pick(least=1)
    axis = g.rng.randrange(x.rank)
    g.add(op, [x, g.weight(g.numbers.random(x.shape[axis]) < 0.6)], {"axis": axis})


@node("ConstantOfShape", opaque=True)
def _filled(g: Graph, op: str) -> None:
    x = g.pick(least=1, most=3)
    (shape,) = g.add("Shape", [x])
    g.add(op, [shape])


@node("Range", opaque=True)
def _range(g: Graph, op: str) -> None:
    x = g.pick("fi", least=1, most=3)
    (shape,) = g.add("Shape", [x])
    (end,) = g.add("Gather", [shape, g.weight(np.array(0), reusable=False)])
    g.add(op, [g.weight(np.array(0), False), end, g.weight(np.array(1), False)])


# ---- control flow


def _body(g: Graph, x: Tensor, length: int) -> tuple[Graph, Tensor]:
    """A body with some nodes over `x`, and the last tensor in it that has the type of `x`."""
    body = Graph(g.rng, g)
    last = x
    for _ in range(length):
        last = chain(body, last)
    for _ in range(g.rng.choice([0, 0, 1])):
        try:
            g.rng.choice(list(NODES.values()))(body)
        except (Unfit, ValueError, IndexError):
            continue
    if last is x:
        (last,) = body.add("Identity", [x])
    return body, last


@node("If", opaque=True)
def _if(g: Graph, op: str) -> None:
    x = g.pick("fi")
    condition = g.fitting("bool", g.rng.choice([(), (1,)]), constant=g.rng.random() < 0.3)
    if condition.shape not in ((), (1,)):
        raise Unfit("no condition")
    branches = [_body(g, x, g.rng.randint(1, 3)) for _ in range(2)]
    graphs = {
        name: body.body([], [last]) for name, (body, last) in zip(("then_branch", "else_branch"), branches, strict=True)
    }
    g.add(op, [condition], graphs, bodies=[body for body, _ in branches])


@node("Loop", opaque=True)
def _loop(g: Graph, op: str) -> None:
    x = g.pick("fi")
    body = Graph(g.rng, g)
    step, go, carried = (Tensor(body.fresh("b"), value) for value in (np.array(0), np.array(True), x.value))
    body.tensors += [step, go, carried]
    last = carried
    for _ in range(g.rng.randint(1, 3)):
        last = chain(body, last)
    (still,) = body.add("Identity", [go])
    scan = [last] if g.rng.random() < 0.5 else []
    graph = body.body([step, go, carried], [still, last, *scan])
    trips = g.weight(np.array(g.rng.choice([0, 1, 2, 3])), reusable=False)
    known = {t.name for t in (step, go, carried)}
    if any(name in known for node in g.nodes for name in node.input):
        raise Unfit("a name of the body outside of it")
    g.add(op, [trips, g.weight(np.array(True), False), x], {"body": graph}, outputs=1 + len(scan), bodies=[body])
