"""Variadic rules, and horizontal fusion: one rule merges sibling operators wherever they are."""

from __future__ import annotations

import numpy as np

from superopt.evaluate import evaluate
from superopt.ir.infer import make
from superopt.ir.notation import parse_rule, parse_terms, show_rule
from superopt.ir.term import Term, node_of, topological, var
from superopt.ir.types import tensor
from superopt.rulebook.commutative import operand_orders
from superopt.rulebook.loading import load_rules
from superopt.search import AnalyticCost, device_of, search
from superopt.search.match.graph_index import GraphIndex, index_key
from superopt.search.match.matcher import Matcher
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.variadic_rule import variadic_rule
from superopt.search.strategy.horizontal_fusion import compatible_regions, sibling_regions
from tests.support.search_rules import believe

_SPLIT = "Split[axis=-2, split=[a.shape[-2], c.shape[-2]]](MatMul(Concat[axis=-2](a, c), b))"
INPUTS = parse_rule(f"(MatMul(a, b), MatMul(c, b)) = ({_SPLIT}.0, {_SPLIT}.1)")
PARTS = parse_rule(
    "(Tanh(Split[axis=i, split=n](t).0), Tanh(Split[axis=i, split=n](t).1))"
    " = (Split[axis=i, split=n](Tanh(t)).0, Split[axis=i, split=n](Tanh(t)).1) @ t[_,_] i=-1 n=[_,_]"
)
_GATES = "Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c)))"
GATES = parse_rule(f"(MatMul(a, b), MatMul(a, c)) = ({_GATES}.0, {_GATES}.1)")
_SUM = "Split[axis=i, split=n](Add(t, u))"
SUMS = parse_rule(
    "(Add(Split[axis=i, split=n](t).0, Split[axis=i, split=n](u).0),"
    " Add(Split[axis=i, split=n](t).1, Split[axis=i, split=n](u).1))"
    f" = ({_SUM}.0, {_SUM}.1) @ t[_,_] u[_,_] i=-1 n=[_,_]"
)
WIDTH = 64


def const(name: str, *shape: int) -> Term:
    return Term.of("Const", (), {"hash": name}, (tensor(*shape),))


def recurrent(steps: int, layers: int) -> Term:
    """h[l, t] = tanh(x[l, t] W[l] + h[l, t - 1] U[l]), unrolled; x[l + 1, t] = h[l, t]."""
    rows = [var(f"x{t}", tensor(1, WIDTH)) for t in range(steps)]
    for layer in range(layers):
        state = var(f"h{layer}", tensor(1, WIDTH))
        for t, row in enumerate(rows):
            new = make("MatMul", (row, const(f"w{layer}", WIDTH, WIDTH)))
            old = make("MatMul", (state, const(f"u{layer}", WIDTH, WIDTH)))
            rows[t] = state = make("Tanh", (make("Add", (new, old)),))
    return rows[-1]


def gated(steps: int) -> Term:
    """h[t] = tanh(x[t] W[2] + h[t - 1] U[2]) * the product of g[k], g[k] = sigmoid(x[t] W[k] + h[t - 1] U[k])."""
    state = var("h", tensor(1, WIDTH))
    for t in range(steps):
        x = var(f"x{t}", tensor(1, WIDTH))
        sums = [
            make("Add", [make("MatMul", (v, const(f"{n}{k}", WIDTH, WIDTH))) for v, n in ((x, "w"), (state, "u"))])
            for k in range(3)
        ]
        first, second = (make("Sigmoid", (gate,)) for gate in sums[:2])
        state = make("Mul", (first, make("Mul", (second, make("Tanh", sums[2:])))))
    return state


def count(outputs: tuple[Term, ...], op: str) -> int:
    return sum(term.op == op for term in topological(outputs))


def test_a_rule_for_two_operands_is_one_for_n() -> None:
    variadic = variadic_rule(INPUTS)
    assert variadic is not None and variadic.merges_siblings
    (rule,) = variadic.for_operands(5)
    assert len(rule.lhs) == 5 and count(rule.rhs, "MatMul") == 1
    parts = variadic_rule(PARTS)
    assert parts is not None and not parts.merges_siblings
    assert "n" in show_rule(parts.for_operands(4)[0]) and len(parts.for_operands(4)[0].lhs) == 4
    assert variadic_rule(parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))")) is None


def test_operators_that_share_a_weight_are_one_match() -> None:
    w = const("w", 3, 4)
    outputs = tuple(make("MatMul", (var(f"x{k}", tensor(2, 3)), w)) for k in range(7))
    (match,) = Matcher(RuleIndex([INPUTS])).sibling_matches(GraphIndex(outputs))
    assert match.roots == outputs
    rng = np.random.default_rng(0)
    env = {term: rng.random(term.type.concrete()) for term in topological(outputs) if term.op == "Var" and term.type}
    weights = {"w": rng.random((3, 4))}
    for before, after in zip(evaluate(outputs, env, weights), evaluate(match.results, env, weights), strict=True):
        np.testing.assert_allclose(before, after, rtol=1e-12)


def test_operators_that_depend_on_each_other_are_not_merged() -> None:
    w = const("w", 3, 3)
    first = make("MatMul", (var("x", tensor(3, 3)), w))
    second = make("MatMul", (make("Tanh", (first,)), w))
    assert not list(Matcher(RuleIndex([INPUTS])).sibling_matches(GraphIndex((second,))))


def test_two_merges_that_would_depend_on_each_other_are_not_both_made() -> None:
    v, w = const("v", 3, 3), const("w", 3, 3)
    x, y = var("x", tensor(3, 3)), var("y", tensor(3, 3))
    a, b = make("MatMul", (x, v)), make("MatMul", (y, w))
    # Each of a and b leads to a product with the other's weight: merging both pairs would make a cycle.
    outputs = (make("MatMul", (make("Tanh", (a,)), w)), make("MatMul", (make("Tanh", (b,)), v)))
    regions = list(sibling_regions(outputs, Matcher(RuleIndex([INPUTS])), sharing_values=False))
    assert len(regions) == 2
    assert compatible_regions(outputs, regions) == regions[:1]


def test_input_projections_of_all_steps_are_hoisted_layer_by_layer() -> None:
    outputs = (recurrent(6, 3),)
    result = search(outputs, [INPUTS], believe, AnalyticCost(), position={})
    # One product a layer for all inputs; one a step for the state. (Of the last layer only one step is an output.)
    assert count(outputs, "MatMul") == 36 and count(result.outputs, "MatMul") == 3 + 18
    assert result.cost_after < result.cost_before


def test_gates_are_merged_before_their_projections_are_hoisted() -> None:
    """Merged products are read by Splits of the same parts, so that one sum serves all gates."""
    outputs = (gated(6),)
    result = search(outputs, [INPUTS, GATES, SUMS], believe, AnalyticCost(), position={})
    assert count(outputs, "MatMul") == 36 and count(outputs, "Add") == 18
    # One product for all inputs, one a step for the state; one sum a step.
    assert count(result.outputs, "MatMul") == 1 + 6 and count(result.outputs, "Add") == 6


def test_rules_that_introduce_an_unavailable_operator_are_left_out() -> None:
    rule = parse_rule("Mul(x, Tanh(Softplus(x))) = Mish(x)")
    mish, parts = parse_terms("(Mish(x), Mul(x, Tanh(Softplus(x))))", {"x": tensor(2, 3)})
    for available, applied in ((lambda one: True), {mish, parts}), ((lambda one: one.op != "Mish"), {mish}):
        rules = RuleIndex([rule], available)
        assert {term for term in (mish, parts) if rules.candidates(term)} == applied
    assert not RuleIndex([rule], lambda one: one.op == "Mish").candidates(mish)


def test_rules_that_introduce_a_kernel_of_the_runtime_are_marked() -> None:
    rule = parse_rule("Relu(Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](x, w, b)) = "
                      "FusedGemm[activation=\"Relu\", activation_alpha=0.0, activation_beta=0.0, alpha=1.0,"
                      " beta=1.0, transA=0, transB=0](x, w, b)")  # fmt: skip
    for side, chooses in (rule.lhs, True), (rule.rhs, False):
        assert [v.introduces_kernel for v in RuleIndex([rule]).candidates(side[0])] == [chooses]


def test_the_search_introduces_no_unavailable_operator() -> None:
    x = var("x", tensor(4, 8))
    outputs = (make("Mul", (x, make("Tanh", (make("Softplus", (x,)),)))),)
    rules = [parse_rule("Mul(x, Tanh(Softplus(x))) = Mish(x)")]
    assert count(search(outputs, rules, believe, AnalyticCost(), position={}).outputs, "Mish") == 1
    kept = search(outputs, rules, believe, AnalyticCost(), position={}, available=lambda one: one.op != "Mish")
    assert kept.outputs == outputs


def test_transposed_keys_of_several_attentions_stay_apart() -> None:
    """The projections of one context are merged. One Transpose of all keys would hide each from rules for attention."""
    context, outputs = var("x", tensor(1, 64, WIDTH)), []
    for k in range(4):
        keys = make("Transpose", (make("MatMul", (context, const(f"w{k}", WIDTH, 16))),), {"perm": (0, 2, 1)})
        outputs.append(make("MatMul", (var(f"q{k}", tensor(1, 8, 16)), keys)))
    found = search(outputs, load_rules(), believe, AnalyticCost(device_of("cuda_h200")), position={}, efforts=0).outputs
    assert count(found, "MatMul") + count(found, "FusedMatMul") == 5
    assert {node_of(term).inputs[0].op for term in topological(found) if term.op == "Split"} == {"MatMul"}  # type: ignore[union-attr]  # a Split has an operand


def test_wide_rules_are_those_that_fit_the_operators_there() -> None:
    """Compiling rules only where their operators occur finds the same rules as compiling all of them."""
    t = var("t", tensor(2, 9))
    split = make("Split", (t,), {"axis": -1, "split": (3, 3, 3)})
    parts = [split.out(k) for k in range(3)]
    rules = RuleIndex([PARTS, SUMS, GATES])
    for term in (*parts, make("Tanh", parts[:1]), make("Add", parts[:2]), make("Relu", parts[:1])):
        all_of_three = [
            rule
            for number in (PARTS, SUMS, GATES)
            for directed in (number, number.reversed())
            if directed.applicable
            for rule in operand_orders(directed)
            if (variadic := variadic_rule(rule)) is not None
            and not variadic.merges_siblings
            and variadic.root_key == index_key(term)
            for rule in variadic.for_operands(3)
        ]
        wanted = {show_rule(rule) for rule in all_of_three if _may_match(rule.lhs[0], term)}
        assert wanted <= {show_rule(compiled.rule) for compiled in rules.candidates(term)}
        assert all(_may_match(compiled.rule.lhs[0], term) for compiled in rules.candidates(term))
    assert any(len(compiled.rule.lhs) == 3 for compiled in rules.candidates(make("Tanh", parts[:1])))


def _may_match(pattern: Term, term: Term) -> bool:
    wanted, inputs = node_of(pattern).inputs, node_of(term).inputs
    return len(wanted) == len(inputs) and all(
        p is None or p.op == "Var" or (i is not None and p.op == i.op) for p, i in zip(wanted, inputs, strict=True)
    )
