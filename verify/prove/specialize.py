"""Substitution of sizes in typed terms."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.dim import Dim, Size, evaluate
from superopt.ir.infer import OPERATORS, make
from superopt.ir.term import Attr, Term, map_terms, var
from superopt.ops.meaning import NoSemantics

__all__ = ["resized"]


def resized(terms: tuple[Term, ...], env: Mapping[str, Size]) -> tuple[Term, ...]:
    """Replace the size symbols of `terms`, in the types of leaves and in attributes.

    Raises IllTyped if the new sizes contradict each other, NoSemantics for an operator that is not registered.
    """

    def build(term: Term, inputs: tuple[Term | None, ...]) -> Term:
        if term.op == "Var":
            return var(str(term.attr("name")), None if term.type is None else term.type.with_sizes(dict(env)))
        attrs = {name: _fill(value, env) for name, value in term.attrs}
        if term.op not in OPERATORS and term.op != "Out":
            raise NoSemantics(term.op)
        return make(term.op, inputs, attrs, _dtype(term))

    return map_terms(terms, build)


def _dtype(term: Term) -> str:
    return "float" if term.type is None else term.type.dtype


def _fill(value: Attr, env: Mapping[str, Size]) -> Attr:
    if isinstance(value, tuple):
        return tuple(_fill(item, env) for item in value)
    return evaluate(value, env) if isinstance(value, Dim) else value
