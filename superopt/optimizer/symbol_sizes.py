"""Values of a model's symbolic sizes at given shapes of its inputs.

Shape inference finds most of them. Where it does not (an Expand to a computed shape, a broadcast with an unknown size),
costs would be those of any usual size, so the model is run, and asked for the shapes of tensors that have these sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import TensorProto, helper

from superopt.ir.dim import Dim, symbol
from superopt.ir.term import topological
from superopt.onnx_io import Model
from superopt.onnx_io.save import inline_bytes
from superopt.optimizer.source import Source
from superopt.runtime import CannotRun, Feeds, InputShapes, Target, open_session

__all__ = ["symbol_sizes"]

_MAX_BYTES = 1 << 30  # of weights in a model that is copied to be asked
_PREFIX = "superopt.shape_of."


def symbol_sizes(
    source: Source, target: Target, shapes: Sequence[InputShapes], feeds: Sequence[Feeds]
) -> tuple[dict[str, int], ...]:
    """Return the values of the symbols in the model's terms, for each of `shapes`.

    `feeds` are inputs of these shapes, or empty if the model cannot be run. A size that cannot be found is left out.
    """
    model = source.terms
    found = [dict(model.at_shapes(one).sizes) for one in shapes]
    missing = {
        name: place for name, place in _places(source.proto, model).items() if any(name not in one for one in found)
    }
    if missing and feeds and inline_bytes(source.proto) <= _MAX_BYTES:
        runs = _shapes_in_runs(source, target, {tensor for tensor, _ in missing.values()}, feeds)
        for sizes, run in zip(found, runs, strict=True):
            for name, (tensor, axis) in missing.items():
                if axis < len(run.get(tensor, ())):  # the rank that a file states may be that of some sizes only
                    sizes.setdefault(name, int(run[tensor][axis]))
    return tuple(found)


def _places(proto: onnx.ModelProto, model: Model) -> dict[str, tuple[str, int]]:
    """Return, for each symbol, a tensor of the file and the axis that has this size."""
    computed = {name for node in proto.graph.node for name in node.output}
    places: dict[str, tuple[str, int]] = {}
    for term in topological(model.outputs):
        name = model.names.get(term)
        if name is not None and name in computed and term.type is not None:
            for axis, size in enumerate(term.type.shape or ()):
                if isinstance(size, Dim) and size == symbol(str(size)):
                    places.setdefault(str(size), (name, axis))
    return places


def _shapes_in_runs(
    source: Source, target: Target, tensors: set[str], feeds: Sequence[Feeds]
) -> list[Mapping[str, list[int]]]:
    """Return the shapes of `tensors` on each of `feeds`; empty if the model that tells them cannot be run."""
    names = sorted(tensors)
    proto = onnx.ModelProto()
    proto.CopyFrom(source.proto)
    del proto.graph.output[:]
    for name in names:
        proto.graph.node.append(helper.make_node("Shape", [name], [_PREFIX + name]))
        proto.graph.output.append(helper.make_tensor_value_info(_PREFIX + name, TensorProto.INT64, None))
    try:
        session = open_session(proto, target)
        return [dict(zip(names, map(list, session.run(one)), strict=True)) for one in feeds]
    except CannotRun:
        return [{} for _ in feeds]
