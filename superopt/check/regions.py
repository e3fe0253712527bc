"""Proven and unproven pairs of tensors by the names that the files give them, with the operators between."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

from superopt.check.answer import Correspondence, Unproven
from superopt.check.proven import Equality
from superopt.ir.infer import OPERATORS
from superopt.ir.notation import show_terms
from superopt.ir.term import Term, topological
from superopt.onnx_io import Model

__all__ = ["correspondences", "name_of", "unproven_pairs"]

_MAX_OPERATORS = 16  # of a region that is shown
_MAX_LETTERS = 24  # of a tensor's name in a drawing


def name_of(model: Model, term: Term) -> str:
    """Return the name of a tensor, or the operator that computes it if it has no name."""
    if term.op == "Var":
        return str(term.attr("name"))
    if term in model.outputs:
        return model.output_names[model.outputs.index(term)]
    return model.names.get(term) or f"({term.op})"


def correspondences(equality: Equality, as_read: tuple[Model, Model]) -> list[Correspondence]:
    """Return the proven pairs, without constants and inputs, in topological order.

    `as_read` are the models before rules rewrote them.
    """
    left, right = equality.models
    ours, theirs = (
        {*topological(model.outputs), *end.outputs} for model, end in zip(as_read, equality.models, strict=True)
    )
    return [
        Correspondence(
            name_of(left, one.left),
            name_of(right, one.right),
            str(one.left.type or ""),
            one.by,
            one.error,
            one.left not in ours or one.right not in theirs,
        )
        for one in equality.matches
        if one.left.op != "Var" and (one.by in ("values", "runtime") or not one.left.is_constant)
    ]


def unproven_pairs(equality: Equality) -> list[Unproven]:
    """Return the pairs that were not proven, and the outputs that are among no pair, with the regions to draw."""
    left, right = equality.models
    words = _words(name_of(left, one.left) for one in equality.matches)
    ours = {one.left: words[name_of(left, one.left)] for one in equality.matches}
    theirs = {one.right: words[name_of(left, one.left)] for one in equality.matches}  # one name on both sides
    pairs = list(equality.unproven)
    known = {(a, b) for a, b, _ in pairs}
    for a, b, proven in zip(left.outputs, right.outputs, equality.outputs, strict=True):
        if not proven and (a, b) not in known:
            pairs.append((a, b, "not proven"))
            known.add((a, b))
    found = []
    for a, b, reason in pairs:
        constants: dict[Term, str] = {}  # another one for each: sides that differ in weights alone look different
        drawn = _drawn(a, ours, constants), _drawn(b, theirs, constants)
        found.append(Unproven(name_of(left, a), name_of(right, b), reason, *drawn))
    return found


def _drawn(end: Term, cut: Mapping[Term, str], constants: dict[Term, str]) -> str:
    """Return what computes `end` from the terms in `cut`, in the notation; empty if it cannot be shown.

    `constants` has the names of constants, and new ones are added.
    """
    made: dict[Term, Term] = {}
    inside = _inside(end, cut)
    if not 0 < len(inside) <= _MAX_OPERATORS:
        return ""
    for term in topological((end,)):
        if term in inside:
            if term.op not in OPERATORS and term.op != "Out":
                return ""
            operands = [None if i is None else made[i] for i in term.inputs]
            made[term] = term.over(operands)
        elif term.is_constant:
            name = constants.setdefault(term, f"w{len(constants) + 1}")
            made[term] = Term.of("Var", (), {"name": name}, term.types)
        elif term in cut or term.op == "Var":
            name = cut[term] if term in cut else _word(str(term.attr("name")))
            made[term] = Term.of("Var", (), {"name": name}, term.types)
    return show_terms((made[end],))


def _inside(end: Term, cut: Mapping[Term, str]) -> set[Term]:
    found: set[Term] = set()
    stack = [end]
    while stack and len(found) <= _MAX_OPERATORS:
        term = stack.pop()
        if term in found or term.op == "Var" or term.is_constant or (term in cut and term is not end):
            continue
        found.add(term)
        stack += [i for i in term.inputs if i is not None]
    return found


def _words(names: Iterable[str]) -> dict[str, str]:
    """Return a short word of the notation for each name, another one for each: long names would fill the drawings."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(names):
        short = word = _word(_word(name.rpartition("/")[2])[-_MAX_LETTERS:])
        for number in itertools.count(2):
            if word not in taken:
                break
            word = f"{short}_{number}"
        found[name] = word
        taken.add(word)
    return found


def _word(name: str) -> str:
    """Return a tensor's name as one word of the notation."""
    word = "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in name).strip("_")
    return word if word[:1].isalpha() else f"t_{word}"
