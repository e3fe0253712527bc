"""A random graph while it grows. Every node is run in ONNX Runtime before it is kept, so the graph is well-typed.

A tensor has a shape for the sizes at which the graph grows, and its value there. Inputs declare some of their sizes as
symbols; the graph may or may not run at other sizes, which is found out by trying.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import GraphProto, NodeProto, ValueInfoProto, helper, numpy_helper

from .values import FLOATS, INTEGERS, Array, draw
from .workers import runs_original

__all__ = ["IR_VERSION", "Graph", "Tensor", "Unfit", "elem_type", "reads", "without_unused"]

IR_VERSION = 9
_MOST_ELEMENTS = 4000
_OPSETS = (9, 11, 12, 13, 14, 16, 17, 17, 18, 18, 19, 20, 21, 22, 23)


class Unfit(Exception):
    """A node that was drawn cannot be run, or gives too much."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of the graph, with its value at the sizes at which the graph grows."""

    name: str
    value: Array
    constant: bool = False

    @property
    def dtype(self) -> str:
        return self.value.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def rank(self) -> int:
        return self.value.ndim


def elem_type(dtype: str) -> int:
    """Return ONNX's number of a NumPy type."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


class Graph:
    """A graph that grows. `around` is the graph that this one is a body in: its tensors may be read as well."""

    def __init__(self, rng: random.Random, around: Graph | None = None) -> None:
        self.rng, self.around = rng, around
        self.numbers = np.random.default_rng(rng.getrandbits(64))
        if around is None:
            self.opset = rng.choice(_OPSETS)
            self.profile = rng.choice(["simple", "plain", "plain", "plain", "wide", "edge", "special"])
            self.real = rng.choice(["float32"] * 7 + ["float64", "float64", "float16"])
            self.whole = rng.choice(["int64", "int32", "int64", "int32", *INTEGERS])
            self.real_share = rng.choice([0.15, 0.9, 0.9, 1.0])
            sizes = [1, 2, 2, 3, 3, 4, 5]
            self.sizes = {name: rng.choice(sizes) for name in ("N", "M", "L")}
            self.numbers_of = [rng.choice([1, 2, 3, 4]) for _ in range(2)]
            self.dynamic = rng.choice([0.0, 0.3, 0.9])
            self.counter = [0]
        else:
            for name in ("opset", "profile", "real", "whole", "real_share", "sizes", "numbers_of", "counter"):
                setattr(self, name, getattr(around, name))
            self.dynamic = 0.0
        self.tensors: list[Tensor] = []
        self.inputs: list[tuple[Tensor, list[int | str]]] = []
        self.weights: list[Tensor] = []
        self.nodes: list[NodeProto] = []

    # ---- leaves

    def fresh(self, stem: str = "t") -> str:
        self.counter[0] += 1
        return f"{stem}{self.counter[0]}"

    def dtype(self) -> str:
        """Return an element type, most often one of the two that this graph prefers."""
        if self.rng.random() < self.real_share:
            return self.real if self.rng.random() < 0.97 else self.rng.choice(FLOATS)
        return self.rng.choice([self.whole] * 6 + ["bool", self.rng.choice(INTEGERS)])

    def size(self) -> int:
        kind = self.rng.random()
        if kind < 0.15:
            return 1
        if kind < 0.17:
            return 0
        return self.rng.choice([*self.sizes.values(), *self.numbers_of])

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        return tuple(self.size() for _ in range(self.rng.randint(least, most)))

    def leaf(self, dtype: str, shape: Sequence[int], constant: bool | None = None) -> Tensor:
        """Return a new input or a new weight."""
        if constant is None:
            constant = self.rng.random() < 0.5
        if constant or self.around is not None:
            return self.weight(draw(self.numbers, dtype, tuple(shape), self.weight_profile()))
        tensor = Tensor(self.fresh("x"), draw(self.numbers, dtype, tuple(shape), self.profile))
        declared: list[int | str] = []
        for size in shape:
            names = [name for name, value in self.sizes.items() if value == size]
            declared.append(self.rng.choice(names) if names and self.rng.random() < self.dynamic else size)
        self.inputs.append((tensor, declared))
        self.tensors.append(tensor)
        return tensor

    def weight_profile(self) -> str:
        return "simple" if self.rng.random() < 0.2 else self.profile

    def weight(self, value: Array, reusable: bool = True) -> Tensor:
        """Return a new weight of this value: an initializer, or now and then a Constant node."""
        tensor = Tensor(self.fresh("w"), np.asarray(value), constant=True)
        if self.rng.random() < 0.12:
            proto = numpy_helper.from_array(tensor.value, tensor.name)
            self.nodes.append(helper.make_node("Constant", [], [tensor.name], value=proto))
        else:
            self.weights.append(tensor)
        if reusable:
            self.tensors.append(tensor)
        return tensor

    def numbers64(self, *values: int) -> Tensor:
        """Return a weight with these int64 numbers, as axes and shapes are given."""
        return self.weight(np.array(values, np.int64), reusable=False)

    def special_weight(self, dtype: str, shape: Sequence[int]) -> Tensor:
        """Return a weight whose values rules ask for: zeros, ones, an identity, one number."""
        kind = self.rng.choice(["zeros", "ones", "full", "eye"])
        value = np.zeros(tuple(shape), dtype)
        if kind == "eye" and len(shape) == 2:
            value = np.eye(shape[0], shape[1]).astype(dtype)
        elif kind != "zeros":
            value = np.full(tuple(shape), 1 if kind == "ones" else self.rng.choice([2, 3, 0.5, 6]), dtype)
        return self.weight(value)

    # ---- choice of operands

    def available(self) -> list[Tensor]:
        return self.tensors if self.around is None else [*self.around.available(), *self.tensors]

    def pick(self, kinds: str = "fiub", least: int = 0, most: int = 6, dtype: str | None = None) -> Tensor:
        """Return a tensor of these NumPy kinds whose rank is in range: one there is, or a new leaf."""
        found = [
            t for t in self.available()
            if least <= t.rank <= most and (t.dtype == dtype if dtype else t.value.dtype.kind in kinds)
        ]  # fmt: skip
        computed = [t for t in found if not t.constant]
        if computed and self.rng.random() < 0.85:
            return self.rng.choice(computed[-6:] if self.rng.random() < 0.6 else computed)
        if dtype is None:
            choices = [self.dtype() for _ in range(8)] + ["bool", self.whole, self.real, "int64", "uint8"]
            dtype = next(name for name in choices if np.dtype(name).kind in kinds)
        return self.leaf(dtype, self.shape(least, max(least, min(most, 4))))

    def fitting(self, dtype: str, shape: Sequence[int], constant: bool | None = None) -> Tensor:
        """Return a tensor of exactly this type: one there is, a new leaf, or a special weight."""
        shape = tuple(shape)
        found = [t for t in self.available() if t.dtype == dtype and t.shape == shape and (t.constant or not constant)]
        if found and self.rng.random() < 0.5:
            return self.rng.choice(found)
        if self.rng.random() < 0.12:
            return self.special_weight(dtype, shape)
        return self.leaf(dtype, shape, constant)

    def broadcastable(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the same element type that broadcasts with this one."""
        found = [t for t in self.available() if t.dtype == tensor.dtype and _broadcast(t.shape, tensor.shape)]
        if found and self.rng.random() < 0.6:
            return self.rng.choice(found)
        kept = tensor.shape[self.rng.randint(0, tensor.rank) :]
        return self.fitting(tensor.dtype, [1 if self.rng.random() < 0.25 else n for n in kept])

    # ---- nodes

    def add(
        self,
        op: str,
        inputs: Sequence[Tensor | None],
        attrs: dict[str, Any] | None = None,
        outputs: int = 1,
        domain: str = "",
        bodies: Sequence[Graph] = (),
    ) -> list[Tensor]:
        """Add a node and return its outputs. Raises Unfit if ONNX Runtime does not run it on the values here."""
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        names = [self.fresh() for _ in range(outputs)]
        node = helper.make_node(op, [t.name if t else "" for t in inputs], names, domain=domain, **(attrs or {}))
        read = {t.name: t for t in inputs if t is not None}
        for body in bodies:
            read |= body.captured()
        values = self.run(node, list(read.values()))
        made = [Tensor(name, value) for name, value in zip(names, values, strict=True)]
        for tensor in made:
            if tensor.value.size > _MOST_ELEMENTS or tensor.rank > 6 or tensor.dtype not in _KNOWN:
                raise Unfit("too large, or of another type")
        self.nodes.append(node)
        self.tensors += made
        return made

    def captured(self) -> dict[str, Tensor]:
        """Return the tensors around a body that its nodes read, by name."""
        outer = {} if self.around is None else {t.name: t for t in self.around.available()}
        return {name: outer[name] for node in self.nodes for name in node.input if name in outer}

    def run(self, node: NodeProto, read: Sequence[Tensor]) -> list[Array]:
        if node.op_type in ("Div", "Mod") and read[0].value.dtype.kind in "iu" and not _divisible(read):
            raise Unfit("an integer division that ends the process")
        graph = GraphProto(name="node", node=[node])
        graph.input.extend(helper.make_tensor_value_info(t.name, elem_type(t.dtype), t.shape) for t in read)
        graph.output.extend(ValueInfoProto(name=name) for name in node.output)
        try:
            with runs_original():
                session = ort.InferenceSession(self.model(graph).SerializeToString(), _OPTIONS, _CPU)
                found = session.run(None, {t.name: t.value for t in read})
        except Exception as error:  # noqa: BLE001  the runtime's exceptions share no other base class
            raise Unfit(str(error)) from None
        return [np.asarray(value) for value in found]

    def model(self, graph: GraphProto) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="fuzz")

    def finish(self) -> onnx.ModelProto:
        """Return the graph as a model whose outputs are some of its tensors, always the ones that nobody reads."""
        read = {name for node in self.nodes for name in node.input}
        made = [name for node in self.nodes if node.op_type != "Constant" for name in node.output]
        ends = [name for name in made if name not in read]
        more = [name for name in made if name in read and self.rng.random() < 0.1]
        outputs = self.rng.sample(ends, min(len(ends), 4)) + more[:2]
        known = {t.name: t for t in self.tensors}
        infos = [helper.make_tensor_value_info(name, elem_type(known[name].dtype), None) for name in outputs]
        graph = helper.make_graph(
            self.nodes,
            "fuzz",
            [helper.make_tensor_value_info(t.name, elem_type(t.dtype), declared) for t, declared in self.inputs],
            infos,
            [numpy_helper.from_array(t.value, t.name) for t in self.weights],
        )
        return self.model(without_unused(graph))

    def body(self, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> GraphProto:
        """Return the graph as the body of a control flow operator."""
        return helper.make_graph(
            self.nodes,
            self.fresh("body"),
            [helper.make_tensor_value_info(t.name, elem_type(t.dtype), t.shape) for t in inputs],
            [helper.make_tensor_value_info(t.name, elem_type(t.dtype), None) for t in outputs],
            [numpy_helper.from_array(t.value, t.name) for t in self.weights],
        )


_KNOWN = frozenset({*FLOATS, *INTEGERS, "bool"})
_CPU = ["CPUExecutionProvider"]
_OPTIONS = ort.SessionOptions()
_OPTIONS.intra_op_num_threads = 1
_OPTIONS.log_severity_level = 4
_OPTIONS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL


def reads(node: NodeProto) -> Iterator[str]:
    """Yield the names of the tensors that a node or one of its bodies reads."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                yield from reads(inner)
            yield from (value.name for value in attribute.g.output)


def _broadcast(a: Sequence[int], b: Sequence[int]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


def _divisible(read: Sequence[Tensor]) -> bool:
    """Division by 0, and of the least integer by -1, are traps of the processor: only weights that are neither."""
    by = read[-1]
    return by.constant and not np.isin(by.value, [0, -1]).any()


def without_unused(graph: GraphProto) -> GraphProto:
    """Drop nodes, weights and inputs that no output needs."""
    needed = {value.name for value in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(graph.node):
        if needed & set(node.output):
            kept.append(node)
            needed |= set(reads(node))
    for field, values in (("node", kept[::-1]), ("initializer", None), ("input", None)):
        old = list(getattr(graph, field)) if values is None else values
        graph.ClearField(field)
        getattr(graph, field).extend(v for v in old if values is not None or v.name in needed)
    return graph
