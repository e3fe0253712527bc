"""A rewrite that cannot be written is left out; the other rewrites stay, those of later passes included."""

from __future__ import annotations

import pytest

from superopt.ir.infer import completed, make
from superopt.ir.term import Attr, Term, var
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.ir.types import tensor
from superopt.onnx_io import Unwritable, new_model, write_model
from superopt.optimizer.bodies import RewrittenBodies
from superopt.optimizer.candidates import ModelCandidate
from superopt.optimizer.unwritable import without_operator
from superopt.search.apply import AppliedTrace

LEAF = var("leaf", tensor(4))


def term(op: str, *inputs: Term, **attrs: Attr) -> Term:
    return make(op, inputs, completed(op, attrs))


def rewrite(before: str, after: str) -> Rewrite:
    return Rewrite((term(before, LEAF),), (), (term(after, LEAF),))


def applied(outputs: tuple[Term, ...], candidate: ModelCandidate) -> tuple[Term, ...]:
    for trace in candidate.traces:
        outputs = AppliedTrace(outputs, trace, {}).outputs
    return outputs


def candidate(*passes: tuple[tuple[Rewrite, Term], ...]) -> ModelCandidate:
    traces = tuple(Trace(tuple(Application(r, ((LEAF, place),)) for r, place in found)) for found in passes)
    return ModelCandidate("all rewrites", traces, RewrittenBodies())


def test_the_rest_of_a_pass_stays() -> None:
    x = var("x", tensor(4))
    outputs = (term("Neg", term("Exp", term("Abs", x))),)
    whole = candidate(((rewrite("Abs", "Relu"), x), (rewrite("Exp", "Mish"), term("Abs", x))))
    assert applied(outputs, whole) == (term("Neg", term("Mish", term("Relu", x))),)
    rest = without_operator(whole, outputs, term("Mish", term("Relu", x)))
    assert rest is not None
    assert rest.name == "all rewrites, as far as it can be written"
    assert applied(outputs, rest) == (term("Neg", term("Exp", term("Relu", x))),)


def test_later_passes_are_carried_over() -> None:
    x = var("x", tensor(4))
    outputs = (term("Neg", term("Exp", term("Abs", x))), term("Tanh", x))
    whole = candidate(
        ((rewrite("Exp", "Mish"), term("Abs", x)), (rewrite("Tanh", "Erf"), x)),
        ((rewrite("Neg", "Relu"), term("Mish", term("Abs", x))), (rewrite("Erf", "Ceil"), x)),
        ((rewrite("Abs", "Sqrt"), x), (rewrite("Mish", "Softplus"), term("Abs", x))),
    )
    assert applied(outputs, whole) == (term("Relu", term("Softplus", term("Sqrt", x))), term("Ceil", x))
    rest = without_operator(whole, outputs, term("Mish", x))
    assert rest is not None
    assert applied(outputs, rest) == (term("Relu", term("Exp", term("Sqrt", x))), term("Ceil", x))


def test_an_operator_that_no_rewrite_introduces_is_not_left_out() -> None:
    x = var("x", tensor(4))
    whole = candidate(((rewrite("Abs", "Relu"), x),))
    assert without_operator(whole, (term("Exp", term("Abs", x)),), term("Exp", x)) is None


def test_the_writer_names_the_operator() -> None:
    mish = term("Mish", var("x", tensor(4)))
    with pytest.raises(Unwritable) as refused:
        write_model(new_model([term("Neg", mish)], opset=17))
    assert refused.value.term is mish
