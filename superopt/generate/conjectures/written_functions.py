"""Windows that write out a function, such as RMSNormalization, as families: the function is the other graph.

Exporters write functions in forms of their own: x / r, x * (1 / r) or x * Reciprocal(r), and Pow(x, 2) or x * x. Steps
lead from each form to the operator's own equation. But a runtime that fuses the whole form fuses none of the graphs on
the way, which cost a multiple of both ends. A search does not go there. So these rules are direct ones.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from superopt.corpus import CorpusError, Window
from superopt.evaluate.composite import is_composite
from superopt.generate.conjectures.reals import RealSamples
from superopt.generate.grammar import CORPUS, Family, Variable
from superopt.generate.targets.related import shape_of
from superopt.ir.infer import IllTyped, make, replace
from superopt.ir.notation import show_terms
from superopt.ir.operator import OPERATORS, Operator
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.types import tensor
from superopt.ops.equation import unfold
from superopt.ops.meaning import NoSemantics
from superopt.rulebook.number_formulas import formulas_in, numbers_by_formula

__all__ = ["function_families"]

_SEED = 0  # of the samples at which windows and functions are compared; a proof decides
_LEAST, _MOST = 4, 8  # operators of a window: smaller ones are enumerated
_OPERANDS = 4
_ELEMENTS = 1 << 10
_WAVE = 7  # after the rules for functions themselves, and for windows that are enumerated


def function_families(windows: Iterable[Window]) -> tuple[Family, ...]:
    """Return a family for each output of a window that is a function of variables and numbers, each once."""
    samples, found = RealSamples(_SEED), dict[str, Family]()
    functions = [operator for name, operator in OPERATORS.items() if is_composite(name)]
    known = [formula for one in functions for formula in _formulas(one)]
    for window in windows:
        for read in _outputs(window):
            (output,) = replace((read,), numbers_by_formula((read,), known))
            target = show_terms((output,))
            if target in found:
                continue
            equal = [term for term in _candidates(output, functions) if _is_equal(samples, output, term)]
            if equal:
                used = {t.attr("name") for t in topological((output,)) if t.op == "Var"}
                variables = (Variable(v.name, v.shape, v.name, v.weight) for v in window.variables if v.name in used)
                found[target] = Family(
                    CORPUS,
                    tuple(variables),
                    (),
                    runtime=1,
                    variation="function",
                    wave=_WAVE,
                    reals=True,
                    targets=(target,),
                    definitions=tuple(show_terms((term,)) for term in equal),
                )
    return tuple(found.values())


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
        yield from formulas_in((unfold(make(function.name, operands, function.defaults)),))


def _candidates(output: Term, functions: Sequence[Operator]) -> Iterator[Term]:
    """Yield the functions of all variables below `output` that have its type, with numbers that stand there."""
    below = list(topological((output,)))
    leaves = [t for t in below if t.op == "Var"]
    numbers = [value for t in below if t.op == "ConstantOfShape" and isinstance(value := t.attr("value"), float)]
    for operator in functions:
        least, most = operator.inputs
        if not least <= len(leaves) <= min(_OPERANDS, _OPERANDS if most is None else most):
            continue
        choices = [_values(operator, name, numbers) for name in operator.attrs]
        for operands in itertools.permutations(leaves):
            for values in itertools.product(*choices):
                try:
                    term = make(operator.name, operands, dict(zip(operator.attrs, values, strict=True)))
                except (IllTyped, TypeError, ValueError, LookupError):  # an attribute without a default
                    continue
                if term.types == output.types:
                    yield term


def _values(operator: Operator, name: str, numbers: Sequence[float]) -> list[Attr]:
    default = operator.defaults.get(name)
    if isinstance(default, float):
        return [*dict.fromkeys((*numbers, default))]
    return [] if default is None else [default]


def _is_equal(samples: RealSamples, output: Term, term: Term) -> bool:
    try:
        return samples.implies(output, term)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # no equation for these attributes
        return False
