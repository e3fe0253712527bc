"""The equation that an operator is defined by, as a conjecture like any other: it is generalised and proven."""

from __future__ import annotations

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.derive.neighbours import normal
from superopt.generate.grammar import Family
from superopt.ir.infer import make, remake
from superopt.ir.term import Term, map_terms
from superopt.ops.equation import unfold

__all__ = ["defining_equation"]


def defining_equation(outputs: tuple[Term, ...], family: Family) -> GroundEquation:
    """Return the equation of outputs of composite operators with what they are defined as."""
    return GroundEquation(outputs, map_terms(normal(tuple(map(unfold, outputs))), _as_written), family)


def _as_written(term: Term, inputs: tuple[Term | None, ...]) -> Term:
    """Return `term` over `inputs` as models have it: without products with 1, without absent operands at the end."""
    if term.op == "Mul":
        for factor, other in (inputs, inputs[::-1]):
            if factor is not None and other is not None and factor.op == "Ones" and other.type == term.type:
                return other
    if inputs and inputs[-1] is None:
        last = max(k for k, operand in enumerate(inputs) if operand is not None)
        return make(term.op, inputs[: last + 1], dict(term.attrs))
    return term if inputs == term.inputs else remake(term, inputs)
