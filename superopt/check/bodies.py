"""Bodies of If, Loop and Scan: two nodes are equal if they read the same tensors and their bodies are equal.

A body is compared as a model of its own (`superopt.onnx_io.read_bodies`), for all values of its inputs: those that the
node gives it, and the outer tensors that it reads. These are inputs of one name where the outer tensors are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from superopt.check.joining import joined, over_inputs
from superopt.ir.dim import symbol
from superopt.ir.term import Attr, Term, var
from superopt.ir.types import TensorType
from superopt.onnx_io import Body, BodyKey, Model, ModelError, read_bodies
from superopt.onnx_io.attributes import unpack
from superopt.onnx_io.schemas import specification
from superopt.onnx_io.subgraph_reader import body_interface

__all__ = ["Bodies", "has_bodies"]

_WITH_BODIES = frozenset({"If", "Loop", "Scan"})  # and no graphs besides these bodies


def has_bodies(term: Term) -> bool:
    """Return True if `term` is a node with graphs inside."""
    return any(name == "captures" for name, _ in term.attrs)


class Bodies:
    """The bodies of the nodes of two `joined` models."""

    def __init__(self, left: Model, right: Model) -> None:
        self._models = (left, right)

    @cached_property
    def _read(self) -> tuple[dict[BodyKey, Body], dict[BodyKey, Body]]:
        left, right = ({body.key: body for body in read_bodies(model.as_read or model)} for model in self._models)
        return left, right

    def pairs(self, ours: Term, theirs: Term) -> list[tuple[Model, Model]] | None:
        """Return the bodies of two nodes in pairs, as joined models: the nodes are equal if all pairs are.

        `ours` is a term of the left model, `theirs` one of the right model over left tensors. None if the nodes differ
        beside their bodies, or if a body cannot be read.
        """
        if ours.op not in _WITH_BODIES or not (has_bodies(ours) and has_bodies(theirs)):
            return None
        left, right = (specification(ours.op, model.opset) for model in self._models)
        if left != right or _outside(ours) != _outside(theirs):
            return None
        found = []
        for key in _keys(ours):
            one, other = self._read[0].get(key), self._read[1].get((_node(theirs), key[1]))
            if one is None or other is None:
                return None
            try:
                found.append(_joined(_named(one, ours), _named(other, theirs)))
            except ModelError:
                return None
        return found


def _outside(term: Term) -> tuple[object, ...]:
    """Return what a node is beside its bodies: the operator, the operands, the other attributes."""
    declared, _ = body_interface(term)
    bodies = {name for _, name in _keys(term)}
    others = [one.SerializeToString(deterministic=True) for one in unpack(term.attrs) if one.name not in bodies]
    marks = {name: value for name, value in term.attrs if name in ("absent", "overload")}
    return term.op, len(term.types), declared, term.inputs[:declared], sorted(bodies), sorted(others), marks


def _keys(term: Term) -> Iterator[BodyKey]:
    for attribute in unpack(term.attrs):
        if attribute.HasField("g"):
            yield _node(term), attribute.name


def _node(term: Term) -> int:
    number: Attr = term.attr("node")
    assert isinstance(number, int)
    return number


def _named(body: Body, term: Term) -> tuple[Model, dict[str, Term]]:
    """Return a body, and its inputs by its own names: they are named by place, or by the outer tensor.

    Raises ModelError if two names stand for one outer tensor and have other types.
    """
    _, outer = body_interface(term)
    types: dict[str, TensorType | None] = {}
    found: dict[str, Term] = {}
    for place, leaf in enumerate(body.model.inputs):
        name = str(leaf.attr("name"))
        called = f"outer {outer[name].digest}" if name in outer else f"input {place}"
        if types.setdefault(called, leaf.type) != leaf.type:
            raise ModelError(f"{name!r} has another type under another name")
        found[name] = var(called, leaf.type)
    return body.model, found


def _joined(one: tuple[Model, dict[str, Term]], other: tuple[Model, dict[str, Term]]) -> tuple[Model, Model]:
    """Return both bodies as `joined` models over the inputs of either. Raises ModelError."""
    (left, ours), (right, theirs) = one, other
    return joined(over_inputs(left, ours, _missing(theirs, ours)), over_inputs(right, theirs, _missing(ours, theirs)))


def _missing(there: Mapping[str, Term], here: Mapping[str, Term]) -> list[Term]:
    """Return inputs like those that are only `there`; their free sizes have names that are not used `here`."""
    found = []
    for leaf in {term: None for term in there.values() if term not in set(here.values())}:
        name, type = str(leaf.attr("name")), leaf.type
        if any(name == term.attr("name") for term in here.values()):
            continue  # of another type, which is compared when the models are joined
        if type is not None and type.shape is not None:
            sizes = (s if isinstance(s, int) else symbol(f"{name}[{k}]") for k, s in enumerate(type.shape))
            type = TensorType(type.dtype, tuple(sizes))
        found.append(var(name, type))
    return found
