"""A canonical form of windows: one order of outputs and commutative operands, and one naming of variables.

Windows that differ in these only get the same text. Each term gets a colour from its operator, its operands and its
users, refined as in the Weisfeiler-Leman test; colours decide every order, and ties go to what was numbered first.
Sizes that scale are not part of a colour: windows that differ in them only are instances of one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, repr_attrs, topological, var
from superopt.ir.types import TensorType

__all__ = ["canonical", "forms"]

# Operators whose second operand is a kernel: its spatial sizes do not scale.
CONVOLUTIONS = frozenset({"Conv", "ConvTranspose", "FusedConv"})
_ROUNDS = 8  # a colour sees this far


def canonical(
    outputs: tuple[Term, ...], types: Mapping[str, TensorType], weights: frozenset[str]
) -> tuple[tuple[Term, ...], dict[str, str]]:
    """Return the outputs in canonical form, over variables x0, x1, ..., and the old name of each variable, in order."""
    colours = _colours(outputs, types, weights)
    new: dict[Term, Term] = {}
    number: dict[Term, int] = {}
    names: dict[str, str] = {}

    def build(term: Term) -> Term:
        if term in new:
            return new[term]
        if term.op == "Var":
            name = f"x{len(names)}"
            names[name] = str(term.attr("name"))
            new[term] = var(name)
        else:
            operands = list(term.inputs)
            if _is_commutative(term):
                # Before the operands are built: what is numbered already comes first among equal colours.
                operands.sort(key=lambda used: (colours[used], _first_number(used, number)) if used else ("", 0))
            inputs = [None if used is None else build(used) for used in operands]
            new[term] = make(term.op, inputs, dict(term.attrs))
        number[term] = len(number)
        return new[term]

    ordered: list[Term] = []
    waiting = list(outputs)
    while waiting:
        following = min(waiting, key=lambda term: (colours[term], _first_number(term, number)))
        waiting.remove(following)
        ordered.append(build(following))
    return tuple(ordered), names


def forms(
    outputs: tuple[Term, ...], types: Mapping[str, TensorType], weights: frozenset[str]
) -> dict[str, tuple[object, ...]]:
    """Return what matters of each variable but sizes that scale: element type, axes of size 1, kernels, weights."""
    kernels = {
        str(term.inputs[1].attr("name"))
        for term in topological(outputs)
        if term.op in CONVOLUTIONS and term.inputs[1] is not None and term.inputs[1].op == "Var"
    }
    found: dict[str, tuple[object, ...]] = {}
    for name, type in types.items():
        shape = type.shape or ()
        sizes = tuple(size if size == 1 or (name in kernels and axis >= 2) else 0 for axis, size in enumerate(shape))
        found[name] = (type.dtype, sizes, name in weights)
    return found


def _first_number(term: Term, number: Mapping[Term, int]) -> tuple[float, ...]:
    """Return the numbers of the terms below, so that what is shared decides between equal colours."""
    return tuple(number.get(below, float("inf")) for below in topological((term,)))


def _is_commutative(term: Term) -> bool:
    return term.op in OPERATORS and OPERATORS[term.op].commutative and len(term.inputs) == 2


def _colours(
    outputs: tuple[Term, ...], types: Mapping[str, TensorType], weights: frozenset[str]
) -> dict[Term | None, str]:
    order = list(topological(outputs))
    users: dict[Term, list[tuple[Term, int]]] = {term: [] for term in order}
    for term in order:
        for position, used in enumerate(term.inputs):
            if used is not None:
                users[used].append((term, 0 if _is_commutative(term) else position))
    leaves = forms(outputs, types, weights)
    colours: dict[Term | None, str] = {None: ""}
    for term in order:
        own = leaves[str(term.attr("name"))] if term.op == "Var" else repr_attrs(term.attrs)
        colours[term] = _hash(term.op, own, outputs.count(term))
    for _ in range(_ROUNDS):
        refined: dict[Term | None, str] = {None: ""}
        for term in order:
            operands = [colours[used] for used in term.inputs]
            if _is_commutative(term):
                operands.sort()
            above = sorted((colours[user], position) for user, position in users[term])
            refined[term] = _hash(colours[term], operands, above)
        colours = refined
    return colours


def _hash(*parts: object) -> str:
    return hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).hexdigest()
