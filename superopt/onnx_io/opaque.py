"""Opaque terms: nodes without a definition here, which are copied to the output and never rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx

from superopt.ir.infer import OPERATORS
from superopt.ir.term import CLOSED_FORM, Attr, Term, Types
from superopt.onnx_io.attributes import pack
from superopt.onnx_io.schemas import DEFAULT_DOMAINS
from superopt.onnx_io.subgraphs import all_nodes, captured, subgraphs

__all__ = ["RANDOM", "draws_numbers", "is_random", "opaque_term"]

# Operators that draw random numbers (Dropout while training only).
RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def draws_numbers(proto: onnx.ModelProto) -> bool:
    """Return True if the model can draw random numbers, also in a branch that it has not taken yet."""
    functions = onnx.GraphProto(node=[node for function in proto.functions for node in function.node])
    return any(node.op_type in RANDOM for graph in (proto.graph, functions) for node in all_nodes(graph))


def is_random(term: Term) -> bool:
    """Return True if the operator of `term` draws random numbers by itself."""
    return term.op.rpartition("::")[2] in RANDOM and term.op not in OPERATORS


def opaque_term(
    node: onnx.NodeProto,
    inputs: Iterable[Term | None],
    outputs: Sequence[str],
    types: Types,
    number: int,
    is_function: bool,
    value_of: Callable[[str], Term],
) -> Term:
    """Return the opaque term of a node.

    `number` is the node's own number. The term of a node that may have state or draw random numbers contains it, so
    that no two such nodes are merged. `is_function` is True if the node calls a function of the file. Tensors that
    bodies capture, found by `value_of`, are further inputs.
    """
    attrs: dict[str, Attr] = dict(map(pack, node.attribute))
    inputs, bodies = list(inputs), list(subgraphs(node))
    if bodies:
        outer = tuple(dict.fromkeys(name for body in bodies for name in captured(body)))
        attrs["captures"], attrs["declared"] = outer, len(inputs)
        inputs += map(value_of, outer)
    if bodies or is_function or node.domain not in DEFAULT_DOMAINS or node.op_type in RANDOM:
        attrs["node"] = number
    absent = tuple(k for k, name in enumerate(outputs) if not name)
    if absent:
        attrs["absent"] = absent
    if node.overload:
        attrs["overload"] = node.overload
    return Term.of(_opaque_name(node), inputs, attrs, types)


def _opaque_name(node: onnx.NodeProto) -> str:
    """Return the operator type, as domain::type for other domains and for types with a special meaning in terms."""
    if node.domain not in DEFAULT_DOMAINS:
        return f"{node.domain}::{node.op_type}"
    taken = node.op_type in OPERATORS or node.op_type in CLOSED_FORM or node.op_type in ("Var", "Const", "Out")
    return f"ai.onnx::{node.op_type}" if taken else node.op_type
