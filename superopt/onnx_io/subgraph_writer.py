"""Writing bodies of If, Loop and Scan back into their nodes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from superopt.ir.infer import replace
from superopt.ir.term import Term, topological
from superopt.onnx_io.attributes import pack, unpack
from superopt.onnx_io.model import Model, ModelError
from superopt.onnx_io.subgraph_reader import Body, BodyKey, body_interface
from superopt.onnx_io.subgraphs import captured
from superopt.onnx_io.tensors import from_proto
from superopt.onnx_io.writer import write_model

__all__ = ["replace_bodies", "write_body"]


def write_body(
    body: Body, model: Model, origin: Mapping[Term, str] | None = None, exact: bool = False
) -> onnx.GraphProto:
    """Return `model`, which is equivalent to `body.model`, as a graph with the interface of `body.graph`.

    `origin` and `exact` as for `write_model`. Raises ModelError.
    """
    written = write_model(model, origin, exact).graph
    graph = onnx.GraphProto()
    graph.CopyFrom(written)
    del graph.input[:], graph.output[:], graph.initializer[:], graph.value_info[:]
    graph.input.extend(body.graph.input)
    graph.output.extend(body.graph.output)
    for tensor in written.initializer:
        captured_one = body.constants.get(tensor.name)
        if captured_one is None:
            graph.initializer.append(tensor)
        elif from_proto(tensor, "body")[0].tobytes() != captured_one.tobytes():
            raise ModelError(f"the body {body.key[1]} of {body.owner.op} would hide tensor {tensor.name!r}")
    there = {name for node in graph.node for name in node.output}
    graph.value_info.extend(value for value in body.graph.value_info if value.name in there)
    if not set(captured(graph)) <= set(captured(body.graph)):
        raise ModelError(f"the body {body.key[1]} of {body.owner.op} would read other tensors than before")
    return graph


def replace_bodies(model: Model, written: Mapping[BodyKey, onnx.GraphProto]) -> Model:
    """Return `model` with other bodies in its nodes; a body whose node is gone is ignored."""
    changes: dict[Term, Term] = {}
    for term in topological(model.outputs):
        names = dict(term.attrs)
        node = names.get("node")
        if "captures" not in names or not isinstance(node, int) or not any(key[0] == node for key in written):
            continue
        declared, outer = body_interface(term)
        attributes = unpack(term.attrs)
        for attribute in attributes:
            if (node, attribute.name) in written:
                attribute.g.CopyFrom(written[node, attribute.name])
        reads = tuple(dict.fromkeys(name for a in attributes if a.HasField("g") for name in captured(a.g)))
        new = {**names, **dict(map(pack, attributes)), "captures": reads}
        inputs = [*term.inputs[:declared], *(outer[name] for name in reads)]
        changes[term] = Term.of(term.op, inputs, new, term.types)
    if not changes:
        return model
    return model.with_outputs(_replaced(model, changes), replaced=changes)


def _replaced(model: Model, changes: Mapping[Term, Term]) -> tuple[Term, ...]:
    """Replace the nodes one after the other, because one may read from another."""
    outputs, left = model.outputs, dict(changes)
    while left:
        old = next(iter(left))  # inputs come before users
        new = left.pop(old)
        outputs = replace(outputs, {old: new})
        left = dict(zip(replace(left.keys(), {old: new}), replace(left.values(), {old: new}), strict=True))
    return outputs
