"""Normal form of operators for measurement: isolated, over leaves of concrete types, as simple as the cost allows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from superopt.ir.infer import IllTyped, make
from superopt.ir.term import Term, repr_attrs, var
from superopt.ir.types import TensorType
from superopt.search.cost.microbench import Unmeasurable, concrete, concrete_attrs

__all__ = ["describe", "isolated", "lookup_key"]

_TRANSPOSE_ATTRIBUTES = ("transA", "transB")


def lookup_key(term: Term) -> tuple[object, ...]:
    """Return a key that is cheap to compute, such that operators with equal keys have equal costs.

    The key has the operator, its attributes, the types of its operands, which operands are constants and which are
    equal.
    """
    positions = {used: position for position, used in reversed(list(enumerate(term.inputs)))}
    operands = [
        None if i is None else (i.types, i.is_constant, i.op in ("Zeros", "Ones") and i.op, positions[i])
        for i in term.inputs
    ]
    return (term.op, term.attrs, *operands)


def isolated(term: Term, sizes: Mapping[str, int]) -> Term:
    """Return the operator over leaves, with symbols replaced by `sizes`, in its simplest form.

    Raises Unmeasurable if a size is not known or the operator does not exist at these sizes.
    """
    term = _simplest(term)
    leaves: dict[Term, Term] = {}
    for used in term.inputs:
        if used is not None and used not in leaves:
            type = concrete(used.type, sizes)
            if not used.is_constant:
                leaves[used] = var(f"x{len(leaves)}", type)
            elif used.op in ("Zeros", "Ones"):  # the runtime simplifies operators with these
                leaves[used] = Term.of(used.op, (), {"shape": type.shape or ()}, (type,))
            else:
                leaves[used] = Term.of("Const", (), {"hash": f"w{len(leaves)}"}, (type,))
    inputs = tuple(None if i is None else leaves[i] for i in term.inputs)
    try:
        alone = make(term.op, inputs, concrete_attrs(term.attrs, sizes))
    except IllTyped as error:
        raise Unmeasurable(f"{term.op} at the sizes to be measured: {error}") from error
    return _flattened(alone)


def describe(alone: Term) -> str:
    """Return the text that identifies an isolated operator in the cache."""
    operands = " ".join("-" if i is None else f"{i.op}{i.attrs[0][1]}:{i.type}" for i in alone.inputs)
    return f"{alone.op}[{repr_attrs(alone.attrs)}]({operands})"


def _simplest(term: Term) -> Term:
    """Return the simplest operator of the same cost, so that noise does not favour one of two equal operators.

    A constant bias is free. The runtime packs a constant matrix when it loads the model, so a product with one costs
    the same as MatMul and as Gemm, transposed or not. A FusedMatMul that transposes nothing runs MatMul's kernel.
    """
    if term.op == "FusedMatMul" and not any(term.attr(name) for name in _TRANSPOSE_ATTRIBUTES):
        return make("MatMul", term.inputs)
    if term.op not in ("Conv", "Gemm"):
        return term
    inputs = term.inputs
    if len(inputs) > 2 and (inputs[2] is None or inputs[2].is_constant):
        inputs = inputs[:2]
    weight = inputs[1]
    if term.op == "Gemm" and len(inputs) == 2 and not term.attr("transA") and weight is not None and weight.is_constant:
        if term.attr("transB"):
            weight = make("Transpose", (weight,), {"perm": (1, 0)})
        return make("MatMul", (inputs[0], weight))
    return make(term.op, inputs, dict(term.attrs))


def _flattened(alone: Term) -> Term:
    """Return the product of an array and a matrix as a product of two matrices: the runtime runs the same kernel."""
    if alone.op != "MatMul":
        return alone
    a, b = alone.inputs
    assert a is not None and b is not None and a.type is not None and b.type is not None
    shape, matrix = a.type.concrete(), b.type.concrete()
    if shape is None or len(shape) < 3 or matrix is None or len(matrix) != 2 or a.op != "Var":
        return alone
    rows = TensorType(a.type.dtype, (math.prod(shape[:-1]), shape[-1]))
    return make("MatMul", (var(str(a.attr("name")), rows), b))
