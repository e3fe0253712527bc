"""Facts that make two operators the same one: name, attributes without defaults, version, and randomness.

Operators without a definition are compared by these facts alone.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TypeAlias

import onnx

from superopt.ir.infer import OPERATORS
from superopt.ir.term import CLOSED_FORM, Attr, Term, repr_attrs
from superopt.onnx_io import Model
from superopt.onnx_io.attributes import pack, unpack
from superopt.onnx_io.opaque import RANDOM
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, schema_of, specification, standard_name
from superopt.onnx_io.subgraphs import all_nodes, graphs_in
from superopt.runtime import attribute_defaults

__all__ = ["Meanings", "StructureKey"]

StructureKey: TypeAlias = tuple[object, ...]


class Meanings:
    """Facts of a model that decide the meaning of operators without a definition, besides names and attributes."""

    def __init__(self, model: Model) -> None:
        self._opset = model.opset
        self._domains = {o.domain: o.version for o in model.skeleton.opset_import}
        self._functions = list(model.skeleton.functions)
        digest = hashlib.blake2b(digest_size=16)
        for function in self._functions:
            digest.update(function.SerializeToString(deterministic=True))
        self._file = (tuple(sorted(self._domains.items())), digest.hexdigest())

    def key(self, term: Term, inputs: tuple[Term | None, ...]) -> StructureKey:
        """Return a key that equal operators on equal operands share. It leaves out types and the number of a node."""
        types = term.types if term.op == "Const" or term.op in CLOSED_FORM else len(term.types)
        return term.op, inputs, repr_attrs(self._attributes(term)), types, self.version(term)

    def _attributes(self, term: Term) -> list[tuple[str, Attr]]:
        """Return the attributes that matter: without the number of the node, and without defaults."""
        op, defaults = standard_name(term.op), dict[str, Attr]()
        schema = None if op is None or term.op in OPERATORS else schema_of(op, self._opset)
        if schema is not None:
            given = [one.default_value for one in schema.attributes.values() if one.default_value.name]
            defaults = dict(map(pack, given))
        elif op is None and term.attrs:
            defaults = dict(map(pack, map(onnx.AttributeProto.FromString, attribute_defaults().get(term.op, ()))))
        return [(name, value) for name, value in term.attrs if name != "node" and defaults.get(name) != value]

    def version(self, term: Term) -> object:
        """Return what operators of one name and attributes may differ in: what the files' versions say of them."""
        if term.op in OPERATORS or term.op in CLOSED_FORM or term.op in ("Const", "Out", "Var"):
            return None
        domain, _, op = term.op.rpartition("::")
        return self.version_of(op, domain, has_bodies=any(name == "captures" for name, _ in term.attrs))

    def version_of(self, op: str, domain: str, has_bodies: bool) -> object:
        """Return what this file's version says of an operator.

        For a node that calls functions or has bodies, that is the versions of all operators, and all functions.
        """
        if has_bodies or any(op == function.name for function in self._functions):
            return self._file
        return specification(op, self._opset) if domain in DEFAULT_DOMAINS else self._domains.get(domain)

    def is_random(self, term: Term) -> bool:
        """Return True if the operator draws random numbers, or calls what does."""
        op = term.op.rpartition("::")[2]
        if term.op in OPERATORS or term.op in CLOSED_FORM:
            return False
        bodies = graphs_in(unpack(term.attrs)) if any(name == "captures" for name, _ in term.attrs) else ()
        return not self._random.isdisjoint({op, *(node.op_type for body in bodies for node in all_nodes(body))})

    @cached_property
    def _random(self) -> frozenset[str]:
        """The operators that draw random numbers, and all functions if one of them does."""
        functions = onnx.GraphProto(node=[node for function in self._functions for node in function.node])
        draws = any(node.op_type in RANDOM for node in all_nodes(functions))
        return RANDOM | {function.name for function in self._functions} if draws else RANDOM
