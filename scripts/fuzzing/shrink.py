"""A smaller model that still fails: fewer nodes, attributes and outputs, simpler weights, smaller sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .feeds import Subject
from .graphs import elem_type, without_unused
from .judge import NotRun, run
from .values import FLOATS, INTEGERS, Array

__all__ = ["shrunk"]

_TYPES = frozenset({*FLOATS, *INTEGERS, "bool"})

Fails = Callable[[Subject], bool]


def shrunk(subject: Subject, fails: Fails, seconds: float = 60.0) -> Subject:
    """Return a small subject for which `fails` still holds; it holds for `subject`."""
    end = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for variants in (_outputs, _cuts, _bypasses, _attributes, _sizes, _weights):
            again = True
            while again and time.monotonic() < end:
                again = False
                for model in variants(subject):
                    candidate = replace(subject, model=model)
                    if _size(model) < _size(subject.model) and fails(candidate):
                        subject, again, progress = candidate, True, True
                        break
                    if time.monotonic() > end:
                        return subject
    return subject


def _size(model: onnx.ModelProto) -> tuple[int, int, int, int]:
    graph = model.graph
    simple = sum(np.unique(numpy_helper.to_array(t)).size for t in graph.initializer)
    elements = sum(d.dim_value or 3 for v in graph.input for d in v.type.tensor_type.shape.dim)
    elements += sum(sum(t.dims) for t in graph.initializer)
    attributes = sum(len(node.attribute) for node in graph.node)
    return len(graph.node), len(graph.output) + attributes, elements, simple


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    return copied


def _outputs(subject: Subject) -> Iterator[onnx.ModelProto]:
    """One output only."""
    if len(subject.model.graph.output) > 1:
        for value in subject.model.graph.output:
            yield _with_outputs(subject.model, [value])


def _with_outputs(model: onnx.ModelProto, outputs: list[onnx.ValueInfoProto]) -> onnx.ModelProto:
    model = _copy(model)
    kept = [onnx.ValueInfoProto.FromString(value.SerializeToString()) for value in outputs]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    without_unused(model.graph)
    return model


def _cuts(subject: Subject) -> Iterator[onnx.ModelProto]:
    """A node's output becomes an input of the graph, or the graph ends there."""
    values = _values(subject)
    outputs = {value.name for value in subject.model.graph.output}
    for k, node in reversed(list(enumerate(subject.model.graph.node))):
        known = [name for name in node.output if name in values]
        if not known:
            continue
        if outputs.isdisjoint(node.output):
            yield _with_outputs(
                subject.model, [helper.make_tensor_value_info(n, elem_type(values[n].dtype.name), None) for n in known]
            )
            if len(known) == len([name for name in node.output if name]):
                model = _copy(subject.model)
                del model.graph.node[k]
                model.graph.input.extend(
                    helper.make_tensor_value_info(n, elem_type(values[n].dtype.name), values[n].shape) for n in known
                )
                without_unused(model.graph)
                yield model


def _bypasses(subject: Subject) -> Iterator[onnx.ModelProto]:
    """A node is replaced by one of its operands."""
    values = _values(subject)
    outputs = {value.name for value in subject.model.graph.output}
    for k, node in enumerate(subject.model.graph.node):
        if len(node.output) != 1 or node.output[0] not in values or node.output[0] in outputs:
            continue
        made = values[node.output[0]]
        for name in node.input:
            if name in values and values[name].shape == made.shape and values[name].dtype == made.dtype:
                model = _copy(subject.model)
                del model.graph.node[k]
                for other in model.graph.node:
                    for i, read in enumerate(other.input):
                        if read == node.output[0]:
                            other.input[i] = name
                without_unused(model.graph)
                yield model


def _attributes(subject: Subject) -> Iterator[onnx.ModelProto]:
    for k, node in enumerate(subject.model.graph.node):
        for a in range(len(node.attribute)):
            model = _copy(subject.model)
            del model.graph.node[k].attribute[a]
            yield model


def _sizes(subject: Subject) -> Iterator[onnx.ModelProto]:
    """One size everywhere is smaller; numbers among the weights that are this size as well."""
    graph = subject.model.graph
    sizes = {d.dim_value for v in graph.input for d in v.type.tensor_type.shape.dim}
    sizes |= {size for t in graph.initializer for size in t.dims}
    for size in sorted(sizes, reverse=True):
        for smaller in (1, 2):
            if smaller >= size:
                continue
            model = _copy(subject.model)
            for value in model.graph.input:
                for d in value.type.tensor_type.shape.dim:
                    if d.dim_value == size:
                        d.dim_value = smaller
            for t in model.graph.initializer:
                array = numpy_helper.to_array(t)
                cut = array[tuple(slice(smaller if n == size else None) for n in array.shape)]
                if array.dtype == np.int64 and array.ndim == 1:
                    cut = np.where(cut == size, smaller, cut)
                t.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(cut).reshape(cut.shape), t.name))
            yield model


def _weights(subject: Subject) -> Iterator[onnx.ModelProto]:
    """All elements of a weight are its first, or 1."""
    for k, tensor in enumerate(subject.model.graph.initializer):
        array = numpy_helper.to_array(tensor)
        if array.size > 1:
            for value in (np.ones((), array.dtype), array.reshape(-1)[0]):
                model = _copy(subject.model)
                model.graph.initializer[k].CopyFrom(numpy_helper.from_array(np.full(array.shape, value), tensor.name))
                yield model


def _values(subject: Subject) -> dict[str, Array]:
    """All tensors at the first of the inputs."""
    model, feeds = _copy(subject.model), subject.feeds()[0]
    there = {value.name for value in model.graph.output}
    names = [n for node in model.graph.node for n in node.output if n and n not in there]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    try:
        found = run(model, feeds)
    except NotRun:
        return {}
    values = dict(zip([value.name for value in model.graph.output], found, strict=True))
    return {name: value for name, value in {**values, **feeds}.items() if value.dtype.name in _TYPES}
