"""Normal form of operators for measurement: isolated, over leaves of concrete types, as simple as the cost allows."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.infer import IllTyped, make
from superopt.ir.term import Term, repr_attrs, var
from superopt.search.cost.concrete import concrete_attrs
from superopt.search.cost.microbench import Unmeasurable, concrete
from superopt.search.cost.runtime_fusion import is_filled, matrices_of_stack, simplest_form

__all__ = ["describe", "isolated"]


def isolated(term: Term, sizes: Mapping[str, int]) -> Term:
    """Return the operator over leaves, with symbols replaced by `sizes`, in its simplest form.

    Raises Unmeasurable if a size is not known or the operator does not exist at these sizes.
    """
    term = simplest_form(term)
    leaves: dict[Term, Term] = {}
    for used in term.inputs:
        if used is not None and used not in leaves:
            type = concrete(used.type, sizes)
            if not used.is_constant:
                leaves[used] = var(f"x{len(leaves)}", type)
            elif is_filled(used):
                leaves[used] = Term.of(used.op, (), {"shape": type.shape or ()}, (type,))
            else:
                leaves[used] = Term.of("Const", (), {"hash": f"w{len(leaves)}"}, (type,))
    inputs = tuple(None if i is None else leaves[i] for i in term.inputs)
    try:
        alone = make(term.op, inputs, concrete_attrs(term.attrs, sizes))
    except IllTyped as error:
        raise Unmeasurable(f"{term.op} at the sizes to be measured: {error}") from error
    return matrices_of_stack(alone)


def describe(alone: Term) -> str:
    """Return the text that identifies an isolated operator in the cache."""
    operands = " ".join("-" if i is None else f"{i.op}{i.attrs[0][1]}:{i.type}" for i in alone.inputs)
    return f"{alone.op}[{repr_attrs(alone.attrs)}]({operands})"
