"""Variants of a window: windows whose rules hold where the window's own rule does not reach."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from superopt.corpus import CorpusError, Window, WindowVariable
from superopt.generate.targets.related import attribute, shape_of
from superopt.ir.term import Attr, Term, map_terms, topological, var
from superopt.ir.types import tensor
from superopt.properties import joins

__all__ = ["repetitions", "variants"]

_BIASED = 2  # most operators of a window that is also taken with a bias


def variants(window: Window) -> Iterator[Window]:
    """Yield the variants that can be typed."""
    narrow = [*_of_two_parts(window)]
    wide = [*_of_wider_kernels(window)]
    biased = (found for one in (*(narrow or [window]), *wide) if _is_typed(one) for found in _of_biases(one))
    yield from filter(_is_typed, (*narrow, *wide, *biased))


def _is_typed(window: Window) -> bool:
    """Return True if types hold at the window's sizes."""
    try:
        _ = window.terms
    except CorpusError:
        return False
    return True


def repetitions(output: Term) -> int:
    """Return how often a Conv reads each element along both image axes, if a Resize of a variable repeats them, else 1.

    A variable stands for any value, so other operands of the Resize need no rule of their own.
    """
    resize = output.inputs[0] if output.op == "Conv" else None
    if resize is None or resize.op != "Resize" or any(i is None or i.op != "Var" for i in resize.inputs):
        return 1
    scales = attribute(resize, "scales")
    return scales[-1] if len(scales) > 1 and scales[-1] == scales[-2] else 1


def _of_wider_kernels(window: Window) -> Iterator[Window]:
    """Yield a convolution of repeated elements with larger kernels and pads.

    Which taps of the kernel meet one element depends on the pads modulo the number of repetitions. So each remainder
    has a rule of its own.
    """
    (output, *others), variables = window.outputs, {variable.name: variable for variable in window.variables}
    kernel = output.inputs[1] if len(output.inputs) > 1 else None
    weight = None if kernel is None or kernel.op != "Var" else variables.get(str(kernel.attr("name")))
    if others or weight is None or len(weight.shape) != 4:
        return
    for more in range(1, repetitions(output)):
        rows, columns = (size + 2 * more for size in weight.shape[2:])
        attrs: dict[str, Attr] = {**dict(output.attrs), "pads": tuple(p + more for p in attribute(output, "pads"))}
        wider = Term.of(output.op, output.inputs, attrs, output.types)
        wide = replace(weight, type=tensor(*weight.shape[:2], rows, columns))
        known = tuple(wide if variable is weight else variable for variable in window.variables)
        yield replace(window, outputs=(wider,), variables=known)


def _of_biases(window: Window) -> Iterator[Window]:
    """Yield a convolution with a bias, which a model gets when a normalization behind it is folded.

    Rules for larger windows follow from those for their parts.
    """
    (output, *others) = window.outputs
    names = {variable.name for variable in window.variables}
    if others or output.op != "Conv" or len(output.inputs) != 2 or len(window.operators) > _BIASED:
        return
    channels = shape_of(window.terms[0])[1]
    name = next(name for k in itertools.count() if (name := f"x{k}") not in names)
    biased = output.over((*output.inputs, var(name)))
    bias = WindowVariable(name, tensor(channels), True)
    yield replace(window, outputs=(biased,), variables=(*window.variables, bias))


def _of_two_parts(window: Window) -> Iterator[Window]:
    """Yield the window with two of the parts of a Concat of more: a rule for two parts applies to all, one by one.

    Weights whose size is the sum of all parts get the sum of the two.
    """
    wide = [term for term in topological(window.terms) if joins(term.op) and len(term.inputs) > 2]
    if len(wide) != 1 or "axis" not in dict(wide[0].attrs):
        return
    parts = [part for part in wide[0].inputs if part is not None]
    other = next((part for part in parts if part.op != parts[0].op), parts[1])
    (axis,) = attribute(wide[0], "axis")
    whole, less = shape_of(wide[0])[axis], shape_of(parts[0])[axis] + shape_of(other)[axis]

    def rebuilt(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        if old.op == "Var":
            return var(str(old.attr("name")))
        kept = (inputs[0], inputs[parts.index(other)]) if old is wide[0] else inputs
        return Term.of(old.op, kept, dict(old.attrs), (None,) * len(old.types))

    outputs = map_terms(window.terms, rebuilt)
    used = {term.attr("name") for term in topological(outputs) if term.op == "Var"}
    variables = []
    for variable in window.variables:
        sizes = tuple(less if variable.weight and size == whole else size for size in variable.shape)
        if variable.name in used:
            variables.append(replace(variable, type=tensor(*sizes)))
    yield replace(window, outputs=outputs, variables=tuple(variables))
