"""The canonical form: equal for windows that differ in names, operand order and output order only."""

from __future__ import annotations

import random

import pytest

import superopt.ops  # noqa: F401
from superopt.harvest.window_form import canonical
from superopt.ir.notation import parse_terms, show_terms
from superopt.ir.term import Term, map_terms, topological, var
from superopt.ir.types import tensor
from superopt.rulebook.commutative import is_commutative

WINDOWS = (
    "(Add(MatMul(a, b), c), MatMul(a, d))",
    "Mul(Mul(Add(a, Exp(b)), 0), Add(Exp(b), c))".replace(", 0)", ", c)"),
    "(Add(a, b), Mul(a, b))",
    "(MatMul(a, b), MatMul(a, c), MatMul(a, d))",
    "Concat[axis=0](a, Relu(a), Add(Relu(b), Relu(a)))",
    "Sub(Add(a, b), Add(b, c))",
    "(Split[axis=0, split=[1, 1]](Add(a, b)).1, Split[axis=0, split=[1, 1]](Add(a, b)).0)",
)


def variant(outputs: tuple[Term, ...], rng: random.Random) -> tuple[tuple[Term, ...], dict[str, str]]:
    """The window with other names, operand orders and output orders, and the new name of each variable."""
    names = sorted({str(t.attr("name")) for t in topological(outputs) if t.op == "Var"})
    renamed = dict(zip(names, rng.sample("pqrstuvw", len(names)), strict=True))

    def build(old: Term, inputs: tuple[Term | None, ...]) -> Term:
        if old.op == "Var":
            return var(renamed[str(old.attr("name"))])
        swap = is_commutative(old) and rng.random() < 0.5
        return old.over(inputs[::-1] if swap else inputs)

    found = list(map_terms(outputs, build))
    rng.shuffle(found)
    return tuple(found), renamed


@pytest.mark.parametrize("text", WINDOWS)
def test_variants_have_one_form(text: str) -> None:
    outputs = parse_terms(text)
    types = {name: tensor(2, 2) for name in "abcd"}
    used = {str(t.attr("name")) for t in topological(outputs) if t.op == "Var"}
    rng = random.Random(0)
    forms = set()
    for _ in range(30):
        other, names = variant(outputs, rng)
        found, order = canonical(other, {names[name]: types[name] for name in used}, frozenset({names["b"]}))
        weight = [new for new, old in order.items() if old == names["b"]]
        forms.add((show_terms(found), *weight))
        assert list(order) == [f"x{k}" for k in range(len(used))]
    assert len(forms) == 1, forms


def test_what_differs_keeps_apart() -> None:
    types = {name: tensor(2, 2) for name in "abc"}
    one, two = parse_terms("Sub(Add(a, b), c)"), parse_terms("Sub(c, Add(a, b))")
    assert canonical(one, types, frozenset())[0] != canonical(two, types, frozenset())[0]
