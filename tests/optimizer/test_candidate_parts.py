"""Rewrites that cannot be written, or that take too long to fold, are left out; the others stay, in all passes."""

from __future__ import annotations

import pytest

from superopt.ir.infer import completed, make
from superopt.ir.term import Attr, Term, topological, var
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.ir.types import tensor
from superopt.onnx_io import Unwritable, new_model, write_model
from superopt.optimizer.bodies import RewrittenBodies
from superopt.optimizer.candidate_parts import foldable_part, without_operator
from superopt.optimizer.candidates import ModelCandidate
from superopt.search import folding_seconds
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


def merging(size: int, places: list[Term], weights: list[Term]) -> list[Application]:
    """Return the applications of (x A) B = x (A B), with matrices of size x size, at each of `places`."""
    leaf = var("leaf", tensor(1, size))
    a, b = (Term.of("Const", (), {"hash": name}, (tensor(size, size),)) for name in "ab")
    rule = Rewrite((term("MatMul", term("MatMul", leaf, a), b),), (), (term("MatMul", leaf, term("MatMul", a, b)),))
    pairs = zip(places, weights[::2], weights[1::2], strict=True)
    return [Application(rule, ((leaf, place), (a, first), (b, second))) for place, first, second in pairs]


@pytest.mark.parametrize(("seconds", "products"), [(2.5, 2), (1.5, 3), (0.5, None)])
def test_only_what_can_be_folded_in_time_stays(seconds: float, products: int | None) -> None:
    """Four products of weights: two pairs are merged in the first pass, and the results in the second."""
    size = 2000
    weights = [Term.of("Const", (), {"hash": name}, (tensor(size, size),)) for name in "klmn"]
    chain = [var("x", tensor(1, size))]
    for weight in weights:
        chain.append(term("MatMul", chain[-1], weight))
    first = merging(size, [chain[0], chain[2]], weights)
    after = AppliedTrace((chain[-1],), Trace(tuple(first)), {})
    second = merging(size, [chain[0]], [after.became(chain[2]).inputs[1], after.outputs[0].inputs[1]])  # type: ignore[list-item]
    whole = ModelCandidate("all rewrites", (Trace(tuple(first)), Trace(tuple(second))), RewrittenBodies())
    one = folding_seconds([term("MatMul", *weights[:2])])
    assert folding_seconds(applied((chain[-1],), whole)) == pytest.approx(3 * one)
    gains = {application.rewrite: 1.0 for application in (*first, *second)}
    part = foldable_part(whole, (chain[-1],), gains, lambda outputs: folding_seconds(outputs) <= seconds * one)
    found = None if part is None else applied((chain[-1],), part)
    assert (found and len([t for t in topological(found) if t.op == "MatMul" and not t.is_constant])) == products
