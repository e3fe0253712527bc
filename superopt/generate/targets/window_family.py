"""A window of a model as a family: its graph is the target that other graphs over its variables are wanted for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from superopt.corpus import Window
from superopt.generate.grammar import CORPUS, Constant, Family, Use, Variable
from superopt.generate.targets.related import RELATIONS, View, pooled_constants, shape_of
from superopt.generate.targets.variants import repetitions, variants
from superopt.ir.infer import IllTyped, make
from superopt.ir.notation import show_terms
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Term, topological
from superopt.properties import is_linear_product

__all__ = ["window_families"]

_RUNTIME = 4  # most operators of a right side at inference
_FOLDED = 3  # most folded operators of a right side
_MOST = 1 << 15  # graphs on a level
_OPERATORS = 3  # of a window: right sides of larger ones are seldom small, and follow from those of their parts
_ELEMENTS = 1 << 10  # of the largest value of a window: enumeration computes thousands of graphs of such values
_OPERANDS = 6  # of an operator, as in `enumeration.classes`
_WAVE, _WAVES = 4, 3  # the first wave, and the number of waves: by the number of operators


def window_families(windows: Iterable[Window], most: int | None = None) -> tuple[Family, ...]:
    """Return the families of the first `most` windows that can be enumerated, in order, each family once.

    Windows of few operators come in an earlier wave, so that their rules explain larger windows.
    """
    found: dict[tuple[str, ...], Family] = {}
    chosen = itertools.islice(filter(_is_enumerable, windows), most)
    for window in itertools.chain.from_iterable((window, *variants(window)) for window in chosen):
        weights = _weights(window)
        view = View(window.terms, weights)
        for outputs, by in _targets(view):
            family = _family(window, View(outputs[:1] if by else outputs, weights), outputs, by)
            if family is not None:
                found.setdefault((*family.targets, repr(family.variables)), family)
    return tuple(found.values())


def _is_enumerable(window: Window) -> bool:
    """Return True if the window is small, all values are real and small, and all operators have definitions."""
    if len(window.operators) > _OPERATORS:
        return False
    terms = list(topological(window.terms))
    real = all(type is not None and type.dtype == "float" for term in terms for type in term.types)
    known = all(
        t.op in OPERATORS and None not in t.inputs and len(t.inputs) <= _OPERANDS
        for t in terms
        if t.op not in ("Var", "Out")
    )
    return real and known and max(math.prod(shape_of(t)) for t in terms if len(t.types) == 1) <= _ELEMENTS


def _weights(window: Window) -> frozenset[Term]:
    """Return the terms of weights and constants alone."""
    found: set[Term] = set()
    names = set(window.weights)
    for term in topological(window.terms):
        if term.attr("name") in names if term.op == "Var" else all(i in found for i in term.inputs):
            found.add(term)
    return frozenset(found)


def _targets(view: View) -> Iterator[tuple[tuple[Term, ...], int]]:
    """Yield the outputs of families for a window, with the distance of phases if the window is cut into phases."""
    for output in view.outputs:
        yield (output,), 0
        by = repetitions(output)
        phases = list(_phases(output, by)) if by > 1 else []
        if phases:
            yield (output, *phases), by
    for one, other in itertools.combinations(view.outputs, 2):
        yield (one, other), 0


def _phases(output: Term, by: int) -> Iterator[Term]:
    """Yield the elements that are `by` apart along both image axes, from each start."""
    sizes = shape_of(output)[2:]
    if len(sizes) == 2 and all(size % by == 0 for size in sizes):
        for starts in itertools.product(range(by), repeat=2):
            attrs = {"axes": (2, 3), "starts": starts, "ends": sizes, "steps": (by, by)}
            try:
                yield make("Slice", (output,), attrs)
            except IllTyped:
                return


def _family(window: Window, view: View, outputs: Sequence[Term], phases: int) -> Family | None:
    """Return the family of these outputs, or None if there is nothing to enumerate."""
    operators = view.operators
    if not operators:
        return None
    used = {term.attr("name") for term in topological(view.outputs) if term.op == "Var"}
    variables = tuple(Variable(v.name, v.shape, v.name, v.weight) for v in window.variables if v.name in used)
    own = [use for term in operators if (use := _own(term, view)) is not None]
    related = [use for relation in RELATIONS for use in relation(view)]
    uses = {repr(use): use for use in (*own, *related)}
    closed = [t for t in topological(view.outputs) if not t.inputs and t.op != "Var"]
    constants: list[Constant] = [(term.op, dict(term.attrs)) for term in closed]
    constants += [entry for entry in pooled_constants(view) if entry not in constants]
    folds = _FOLDED if any(use.fold for use in uses.values()) else 0
    # A phase, and a target that is computed from another one, are wanted as one operator.
    runtime = 1 if len(outputs) > 1 else min(_RUNTIME, len(operators) + 2)
    return Family(
        CORPUS,
        variables,
        tuple(uses.values()),
        runtime,
        folded=(0, *(folds,) * _RUNTIME),
        constants=tuple(constants),
        elements=max(math.prod(shape_of(t)) for t in topological(view.outputs) if len(t.types) == 1),
        variation="conv" if any(is_linear_product(t.op) and "strides" in dict(t.attrs) for t in operators) else "",
        neutral=2,
        wave=_WAVE + min(len(operators), _WAVES) - 1,
        targets=tuple(show_terms((term,)) for term in outputs),
        phases=phases,
        most=_MOST,
    )


def _own(term: Term, view: View) -> Use | None:
    """Return the use of a window's operator. Operands that are weights in the window are weights."""
    if len(term.types) > 1:
        return None  # its outputs are used one by one: see below
    slots = tuple("w" if operand in view.weights else "x" for operand in term.inputs)
    return Use(term.op, dict(term.attrs), (len(term.inputs),), slots)
