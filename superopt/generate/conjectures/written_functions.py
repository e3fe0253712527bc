"""Windows that write out a function, such as RMSNormalization, as families: the function is the other graph.

Exporters write functions in forms of their own: x / r, x * (1 / r) or x * Reciprocal(r), and Pow(x, 2) or x * x. Steps
lead from each form to the operator's own equation. But a runtime that fuses the whole form fuses none of the graphs on
the way, which cost a multiple of both ends. A search does not go there. So these rules are direct ones.

A function may also begin further up in a window: LayerNormalization(Add(Add(MatMul(a, w), b), y)) is
SkipLayerNormalization(MatMul(a, w), y) with a bias b. Rules that are unstable are left out, as no run uses them by
default: they would make those for special cases that are stable seem derivable.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Set

import numpy as np

from superopt.corpus import CorpusError, Window
from superopt.evaluate.composite import is_composite
from superopt.generate.conjectures.reals import RealSamples
from superopt.generate.grammar import CORPUS, Family, Variable
from superopt.generate.targets.related import shape_of
from superopt.ir.infer import IllTyped, make, replace
from superopt.ir.notation import show_terms
from superopt.ir.operator import OPERATORS, Operator
from superopt.ir.term import Attr, Term, node_of, topological, values_of, var
from superopt.ir.types import tensor
from superopt.ops.equation import unfold
from superopt.ops.meaning import NoSemantics
from superopt.properties import is_linear_product
from superopt.rulebook.number_formulas import formulas_in, numbers_by_formula

__all__ = ["function_families"]

_SEED = 0  # of the samples at which windows and functions are compared; a proof decides
_LEAST, _MOST = 3, 8  # operators of a function, and of a window: smaller functions are enumerated
_OPERANDS = 5  # of a function
_ELEMENTS = 1 << 10
_WAVE = 7  # after the rules for functions themselves, and for windows that are enumerated


def function_families(windows: Iterable[Window]) -> tuple[Family, ...]:
    """Return a family for each way in which a window's output is a function of variables and numbers, each once."""
    samples, found = RealSamples(_SEED), dict[str, Family | None]()
    functions = [operator for name, operator in OPERATORS.items() if is_composite(name)]
    known = [formula for one in functions for formula in _formulas(one)]
    for window in windows:
        weights = {v.name for v in window.variables if v.weight}
        for read in _outputs(window):
            (output,) = replace((read,), numbers_by_formula((read,), known))
            for part, operands, own_weights in _parts(output, weights):
                target = show_terms((part,))
                if target in found:
                    continue
                equal = [term for term in _candidates(part, operands, functions) if _is_equal(samples, part, term)]
                found[target] = _family((part,), [(term,) for term in equal], own_weights) if equal else None
                for outputs, terms in _several_outputs(samples, part, equal).items():
                    found[show_terms(outputs)] = _family(outputs, terms, own_weights)
    return tuple(family for family in found.values() if family is not None)


def _several_outputs(
    samples: RealSamples, part: Term, equal: Iterable[Term]
) -> dict[tuple[Term, ...], list[tuple[Term, ...]]]:
    """Return the functions whose further outputs are values below `part` too, by these values, `part` being the first.

    A value that is normalised is often read by the next layer as well.
    """
    found: dict[tuple[Term, ...], list[tuple[Term, ...]]] = {}
    below = [term for term in topological((part,)) if term.inputs and term is not part]
    for term in equal:
        first, *further = outputs = values_of(node_of(term))
        values = [next((t for t in below if t.types == o.types and _is_equal(samples, t, o)), None) for o in further]
        if further and first is term and None not in values:
            found.setdefault((part, *(value for value in values if value is not None)), []).append(outputs)
    return found


def _family(part: tuple[Term, ...], equal: Iterable[tuple[Term, ...]], weights: Set[str]) -> Family:
    variables = [(str(t.attr("name")), shape_of(t)) for t in topological(part) if t.op == "Var"]
    return Family(
        CORPUS,
        tuple(Variable(name, shape, name, name in weights) for name, shape in sorted(variables)),
        (),
        runtime=1,
        variation="function",
        wave=_WAVE,
        reals=True,
        targets=(show_terms(part),),
        definitions=tuple(map(show_terms, equal)),
    )


def _outputs(window: Window) -> Iterator[Term]:
    """Yield the outputs of a window that are real, and computed by several operators with definitions."""
    try:
        terms = window.terms
    except CorpusError:
        return
    for output in terms:
        below = list(topological((output,)))
        operators = [t for t in below if t.inputs and t.op != "Out"]
        real = all(type is not None and type.dtype == "float" for t in below for type in t.types)
        known = all(t.op in OPERATORS for t in operators)
        elements = max(math.prod(shape_of(t)) for t in below if len(t.types) == 1)
        if real and known and _LEAST <= len(operators) <= _MOST and elements <= _ELEMENTS:
            yield output


def _formulas(function: Operator) -> Iterator[Term]:
    """Yield the formulas for numbers in the equations of a function, at its default attributes."""
    operands = [var(f"x{k}", tensor(2, 2)) for k in range(function.inputs[0])]
    with contextlib.suppress(IllTyped, LookupError, NoSemantics, TypeError):
        yield from formulas_in([unfold(one) for one in values_of(make(function.name, operands, function.defaults))])


def _parts(output: Term, weights: Set[str]) -> Iterator[tuple[Term, tuple[Term, ...], set[str]]]:
    """Yield the output over variables in place of what it is computed from, these operands, and which are weights.

    Where products are among the operands, there is a second form, with products of variables. A sum with a product may
    be taken in any order, because the rounding errors of the product are as large as what may cancel; the same equation
    over variables is unstable.
    """
    for cut in _cuts(output):
        if _operators(output, cut) < _LEAST:
            continue
        products = [term for term in cut if is_linear_product(term.op)]
        for kept in ([], products) if products else ([],):
            below = (i for term in cut for i in (term.inputs if term in kept else (term,)) if i is not None)
            leaves = {leaf: var(f"x{k}", leaf.type) for k, leaf in enumerate(dict.fromkeys(below))}
            (part,), operands = replace((output,), leaves), replace(cut, leaves)
            kinds = ((str(new.attr("name")), old) for old, new in leaves.items())
            yield part, operands, {name for name, old in kinds if old.op == "Var" and old.attr("name") in weights}


def _operators(output: Term, cut: Iterable[Term]) -> int:
    """Return the number of operators that compute the output from the cut, without those of numbers only."""
    seen, stack = {*cut}, [output]
    count = 0
    while stack:
        term = stack.pop()
        if term not in seen:
            seen.add(term)
            count += bool(term.inputs) and any(t.op == "Var" for t in topological((term,)))
            stack += [i for i in term.inputs if i is not None]
    return count


def _cuts(output: Term) -> list[tuple[Term, ...]]:
    """Return the sets of at most `_OPERANDS` values below `output` that, with numbers, determine it."""
    found: dict[Term, list[frozenset[Term]]] = {}
    for term in topological((output,)):
        if not term.inputs:
            found[term] = [frozenset([term] if term.op == "Var" else [])]
            continue
        below = itertools.product(*(found[i] for i in term.inputs if i is not None))
        unions = {frozenset[Term]().union(*parts) for parts in below}
        found[term] = [cut for cut in (frozenset([term]), *unions) if len(cut) <= _OPERANDS]
    places = {term: place for place, term in enumerate(topological((output,)))}
    cuts = {tuple(sorted(cut, key=places.__getitem__)) for cut in found[output] if output not in cut}
    return sorted(cuts, key=lambda cut: [places[term] for term in cut])


def _candidates(part: Term, operands: Sequence[Term], functions: Sequence[Operator]) -> Iterator[Term]:
    """Yield the functions of the operands that have the type of `part`, with numbers that stand there."""
    numbers = [value for t in topological((part,)) for _, value in t.attrs if isinstance(value, float)]
    for operator in functions:
        least, most = operator.inputs
        if not least <= len(operands) <= (_OPERANDS if most is None else most):
            continue
        choices = [_values(operator, name, numbers) for name in operator.attrs]
        for order in itertools.permutations(operands):
            for values in itertools.product(*choices):
                try:
                    term = make(operator.name, order, dict(zip(operator.attrs, values, strict=True)))
                except (IllTyped, TypeError, ValueError, LookupError):  # an attribute without a default
                    continue
                yield from (value for value in values_of(term) if value.types == part.types)


def _values(operator: Operator, name: str, numbers: Sequence[float]) -> list[Attr]:
    default = operator.defaults.get(name)
    if isinstance(default, float):
        is_there = float(np.float32(default)) in numbers  # as files hold it
        return [*dict.fromkeys(numbers if is_there else (*numbers, default))]
    return [] if default is None else [default]


def _is_equal(samples: RealSamples, output: Term, term: Term) -> bool:
    try:
        return samples.implies(output, term)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # no equation for these attributes
        return False
