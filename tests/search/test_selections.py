"""Selections are moved towards the inputs: only what the outputs need is computed."""

from __future__ import annotations

import numpy as np

from superopt.evaluate import evaluate
from superopt.ir.infer import make
from superopt.ir.notation import parse_rules
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological, var
from superopt.ir.types import tensor
from superopt.search import AnalyticCost, search
from superopt.search.match.graph_index import GraphIndex
from superopt.search.strategy.horizontal_fusion import compatible_regions
from superopt.search.strategy.selections import movable_selections, selection_regions
from tests.support.search_rules import believe

_CUT = "Slice[axes=[i], ends=to, starts=from, steps=by]"
RULES = parse_rules(
    "\n".join(
        (
            "Gather[axis=i, indices=j](x) = Squeeze[axes=[i]](Slice[axes=[i], ends=[j + 1], starts=[j], steps=[1]](x))",
            *(f"{_CUT}({op}(x)) = {op}({_CUT}(x))" for op in ("Erf", "Tanh")),
            *(f"{_CUT}({op}(x, r)) = {op}({_CUT}(x), r)" for op in ("Add", "Div", "Mul")),
            f"{_CUT}(Mul(x, y)) = Mul({_CUT}(x), {_CUT}(y))",
            f"{_CUT}(MatMul(x, w)) = MatMul({_CUT}(x), w)",
        )
    )
)
_ROWS, _WIDTH = 64, 96


def weight(name: str, *shape: int) -> Term:
    return Term.of("Const", (), {"hash": name}, (tensor(*shape),))


def gelu_of_product(x: Term, name: str) -> Term:
    """Return y * (1 + erf(y / s)), y = x W + b."""
    product = make("Add", (make("MatMul", (x, weight(f"W{name}", _WIDTH, _WIDTH))), weight(f"b{name}", _WIDTH)))
    erf = make("Erf", (make("Div", (product, weight("s"))),))
    return make("Mul", (product, make("Add", (erf, weight("one")))))


def first_row(x: Term) -> Term:
    return make("Gather", (x,), {"axis": -2, "indices": 0})


def products(outputs: tuple[Term, ...]) -> list[tuple[int, ...]]:
    return [t.type.concrete() for t in topological(outputs) if t.op == "MatMul"]


def searched(*outputs: Term, rules: list[Rule] = RULES) -> tuple[Term, ...]:
    position = {term: k for k, term in enumerate(topological(outputs))}
    return search(outputs, rules, believe, AnalyticCost(), position=position, efforts=0).outputs


def test_a_row_is_selected_before_two_layers_with_activations_in_parts() -> None:
    # On the way the row is selected from y twice, and one of the operators that read y still needs all rows of it.
    x = var("x", tensor(2, _ROWS, _WIDTH))
    before = (first_row(gelu_of_product(gelu_of_product(x, "1"), "2")),)
    after = searched(*before)
    assert products(before) == [(2, _ROWS, _WIDTH)] * 2
    assert products(after) == [(2, 1, _WIDTH)] * 2
    rng = np.random.default_rng(0)
    values = {
        t: rng.standard_normal(t.type.concrete()) for t in topological(before) if t.op in ("Const", "Var") and t.type
    }
    np.testing.assert_allclose(evaluate(after, values, {})[0], evaluate(before, values, {})[0], rtol=1e-9)


def test_what_something_else_reads_stays() -> None:
    x = var("x", tensor(2, _ROWS, _WIDTH))
    hidden = gelu_of_product(x, "1")
    outputs = (first_row(hidden), hidden)
    assert not movable_selections(GraphIndex(outputs)) and not list(selection_regions(outputs))
    assert products(searched(*outputs)) == [(2, _ROWS, _WIDTH)]


def test_a_region_ends_where_a_value_has_another_reader() -> None:
    x = var("x", tensor(2, _ROWS, _WIDTH))
    shared = make("Tanh", (make("Tanh", (x,)),))
    row = first_row(make("Mul", (make("Tanh", (shared,)), weight("W", _WIDTH))))
    (region,) = selection_regions((row, shared))
    assert [term.op for term in region.operators] == ["Tanh", "Mul", "Gather"]


def test_two_rows_of_one_value_are_not_movable() -> None:
    # Each of them would compute its own row, but rules move one selection at a time.
    product = make("MatMul", (var("x", tensor(_ROWS, _WIDTH)), weight("W", _WIDTH, _WIDTH)))
    rows = [make("Gather", (product,), {"axis": -2, "indices": k}) for k in (0, 1)]
    assert not movable_selections(GraphIndex(rows))


def test_moves_and_repetitions_are_no_selections() -> None:
    x = make("Tanh", (var("x", tensor(4, 6)),))
    for whole in (
        make("Transpose", (x,), {"perm": (1, 0)}),
        make("Tile", (x,), {"repeats": (2, 1)}),
        make("Gather", (x,), {"axis": 0, "indices": (3, 2, 1, 0)}),
    ):
        assert not movable_selections(GraphIndex((whole,)))


def test_a_region_with_a_split_in_it_is_compatible() -> None:
    product = make("MatMul", (var("x", tensor(_ROWS, _WIDTH)), weight("W", _WIDTH, _WIDTH)))
    halves = make("Split", (product,), {"axis": -1, "split": (_WIDTH // 2, _WIDTH // 2)})
    outputs = (first_row(make("Mul", (halves.out(0), halves.out(1)))),)
    (region,) = selection_regions(outputs)
    assert [term.op for term in region.operators] == ["MatMul", "Split", "Mul", "Gather"]
    assert compatible_regions(outputs, [region]) == [region]


def test_a_region_without_a_gain_is_still_searched() -> None:
    # The region of the selection is the whole graph, and so is the region that the first pass cuts.
    x = var("x", tensor(_ROWS, _WIDTH))
    row = first_row(make("Relu", (make("Relu", (x,)),)))
    (region,) = selection_regions((row,))
    assert [term.op for term in region.operators] == ["Relu", "Relu", "Gather"]
    after = searched(row, rules=parse_rules("Relu(Relu(x)) = Relu(x)"))
    assert [term.op for term in topological(after)] == ["Var", "Relu", "Gather"]
