"""Matching and instantiating are inverse to each other; rules, their variants and their signatures."""

from __future__ import annotations

import random
from contextlib import suppress
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from superopt.evaluate import evaluate
from superopt.ir.dim import Size, floor_div, symbol
from superopt.ir.infer import OPERATORS, make, remake, replace
from superopt.ir.notation import parse_rule, parse_terms, show_rule
from superopt.ir.operator import IllTyped
from superopt.ir.pattern import Bindings, instantiate, match, pattern_names
from superopt.ir.rule import Condition, Rule
from superopt.ir.term import Term, topological, var
from superopt.ir.types import TensorType, tensor
from superopt.rulebook.commutative import operand_orders
from tests.support.semantic_cases.terms import example
from verify.propose.signatures import literal_signatures

VARIABLES = [var(name) for name in "abcd"]


def of_reals(count: int) -> list[str]:
    """The operators without attributes that make a real matrix of so many."""
    found = []
    for op, spec in OPERATORS.items():
        if spec.elementwise and not spec.attrs and count in (spec.inputs[0], spec.inputs[1] or count):
            with suppress(IllTyped):
                found += [op] * (make(op, [var("x", tensor(3, 3))] * count).type == tensor(3, 3))
    return found


UNARY, BINARY = of_reals(1), of_reals(2)
assert {"Neg", "Sum", "Exp"} <= set(UNARY)
assert {"Add", "Sum", "Max", "Div"} <= set(BINARY)


@st.composite
def squares(draw: st.DrawFn, inner: st.SearchStrategy[Term]) -> Term:
    """One more operator over matrices of 3 by 3, which gives a matrix of 3 by 3."""
    kind = draw(st.sampled_from(["unary", "binary", "transpose", "join"]))
    if kind == "unary":
        return make(draw(st.sampled_from(UNARY)), (draw(inner),))
    if kind == "transpose":
        return make("Transpose", (draw(inner),), {"perm": (1, 0)})
    if kind == "binary":
        return make(draw(st.sampled_from([*BINARY, "MatMul"])), (draw(inner), draw(inner)))
    axis = draw(st.sampled_from([-1, -2]))
    joined = make("Concat", (draw(inner), draw(inner)), {"axis": axis})
    return make("Split", (joined,), {"axis": axis, "split": (3, 3)}).out(draw(st.integers(0, 1)))


PATTERNS = st.recursive(st.sampled_from(VARIABLES), squares, max_leaves=6)
TARGETS = st.recursive(st.sampled_from([var(name, tensor(3, 3)) for name in "uvw"]), squares, max_leaves=3)


@given(st.lists(PATTERNS, min_size=1, max_size=2), st.tuples(TARGETS, TARGETS, TARGETS, TARGETS))
def test_matching_an_instance_recovers_the_bindings(patterns: list[Term], targets: tuple[Term, ...]) -> None:
    names, _ = pattern_names(patterns)
    bindings = Bindings({name: term for name, term in zip("abcd", targets, strict=True) if name in names})
    terms = instantiate(patterns, bindings, "float")
    found = match(patterns, terms)
    assert found is not None
    assert found.terms == bindings.terms
    assert instantiate(patterns, found, "float") == terms
    assert all(term.type == tensor(3, 3) for term in terms)


@given(PATTERNS, TARGETS)
def test_a_match_is_an_instance(pattern: Term, term: Term) -> None:
    found = match([pattern], [term])
    if found is not None:
        assert instantiate([pattern], found, "float") == (term,)


@given(PATTERNS)
def test_every_pattern_matches_itself_as_a_term(pattern: Term) -> None:
    found = match([pattern], [pattern])
    assert found is not None
    assert all(found.terms[str(v.attr("name"))] is v for v in topological([pattern]) if v.op == "Var")


def test_a_variable_that_occurs_twice_stands_for_one_term() -> None:
    (pattern,) = parse_terms("Add(a, a)")
    x, y = var("x", tensor(2)), var("y", tensor(2))
    assert match([pattern], [make("Add", (x, x))]) is not None
    assert match([pattern], [make("Add", (x, y))]) is None


def test_several_patterns_share_their_bindings() -> None:
    patterns = parse_terms("(MatMul(a, b), MatMul(a, c))")
    x, y, u, v = (var(name, tensor(2, 2)) for name in "xyuv")
    same = match(patterns, [make("MatMul", (x, u)), make("MatMul", (x, v))])
    assert same is not None
    assert same.terms == {"a": x, "b": u, "c": v}
    assert match(patterns, [make("MatMul", (x, u)), make("MatMul", (y, v))]) is None


def conv(x: Term, w: Term, bias: Term | None = None, **attrs: object) -> Term:
    full = {"dilations": (1, 1), "group": 1, "pads": (0, 0, 0, 0), "strides": (1, 1), **attrs}
    inputs = (x, w) if bias is None else (x, w, bias)
    return make("Conv", inputs, full)  # type: ignore[arg-type]


X, W, B = var("x", tensor(1, 4, 8, 8)), var("w", tensor(6, 4, 3, 3)), var("b", tensor(6))


@pytest.mark.parametrize(
    ("pattern", "attrs"),
    [
        ("Conv[dilations=d, group=g, pads=p, strides=s](x, w)",
         {"d": (1, 1), "g": 1, "p": (2, 3, 2, 3), "s": (2, 1)}),
        ("Conv[dilations=[1, 1], group=g, pads=[p, q, p, q], strides=[s, t]](x, w)",
         {"g": 1, "p": 2, "q": 3, "s": 2, "t": 1}),
        ("Conv[dilations=[1, 1], group=1, pads=[p + 1, q + 1, p + 1, q + 1], strides=s](x, w)",
         {"p": 1, "q": 2, "s": (2, 1)}),
        ("Conv[dilations=[1, 1], group=1, pads=[p, p + 1, r, q], strides=s](x, w)",
         {"p": 2, "q": 3, "r": 2, "s": (2, 1)}),
        ("Conv[dilations=[1, 1], group=1, pads=[2*p, 2*q + 1, 2*p, 2*r - 3], strides=s](x, w)",
         {"p": 1, "q": 1, "r": 3, "s": (2, 1)}),
        ("Conv[dilations=[w.shape[0] - 5, 1], group=1, pads=[w.shape[-1] - 1, 3, 2, 3], strides=s](x, w)",
         {"s": (2, 1)}),
    ],
)  # fmt: skip
def test_attributes_are_bound(pattern: str, attrs: dict[str, object]) -> None:
    term = conv(X, W, pads=(2, 3, 2, 3), strides=(2, 1))
    found = match(parse_terms(pattern), [term])
    assert found is not None
    assert found.attrs == attrs
    assert instantiate(parse_terms(pattern), found, "float") == (term,)


@pytest.mark.parametrize(
    "pattern",
    [
        "Conv[dilations=d, group=2, pads=p, strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=[p, p, p, p], strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=[p, q, p + 1, q + 1], strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=[p, 2*q, p, r], strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=[2*p, q, 2*p + 2, r], strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=d, strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=[p, q], strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=p, strides=s](x, w, b)",
        "Conv[dilations=d, group=g, pads=p, strides=s](x, w, _)",
        "Conv[dilations=[w.shape[0], 1], group=g, pads=p, strides=s](x, w)",
        "Conv[dilations=d, group=g, pads=p, strides=s](w, w)",
        "MatMul(x, w)",
    ],
)
def test_what_does_not_match(pattern: str) -> None:
    assert match(parse_terms(pattern), [conv(X, W, pads=(2, 3, 2, 3), strides=(2, 1))]) is None


def test_sizes_of_bound_terms_fill_in_attributes() -> None:
    rule = parse_rule(
        "(MatMul(a, b), MatMul(a, c)) = (Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, "
        "c))).0, Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).1)"
    )
    a, b, c = var("a", tensor(symbol("n"), 3)), var("b", tensor(3, 4)), var("c", tensor(3, 5))
    lhs = (make("MatMul", (a, b)), make("MatMul", (a, c)))
    found = match(rule.lhs, lhs)
    assert found is not None
    rhs = instantiate(rule.rhs, found, "float")
    assert [term.type for term in rhs] == [term.type for term in lhs]
    assert rhs[0].inputs[0] is rhs[1].inputs[0]
    back = match(rule.rhs, rhs)
    assert back is not None
    assert instantiate(rule.lhs, back, "float") == lhs


def test_what_cannot_be_instantiated() -> None:
    (pattern,) = parse_terms("Concat[axis=k](a, b)")
    sides = {"a": var("a", tensor(2, 3)), "b": var("b", tensor(2, 4))}
    with pytest.raises(IllTyped, match="no value for attribute variable k"):
        instantiate([pattern], Bindings(dict(sides)), "float")
    with pytest.raises(IllTyped, match="size 4 is not 3"):
        instantiate([pattern], Bindings(dict(sides), {"k": -2}), "float")


# Rules and their variants.


@given(PATTERNS, TARGETS)
def test_commuted_variants_compute_the_same(pattern: Term, target: Term) -> None:
    rule = Rule((pattern,), (var("a"),))
    variants = list(operand_orders(rule))
    assert variants[0] == rule
    assert len(set(variants)) == len(variants)
    bindings = Bindings(dict(zip("abcd", [*(var(n, tensor(3, 3)) for n in "uvw"), target], strict=True)))
    env = {var(n, tensor(3, 3)): np.random.default_rng(k).standard_normal((3, 3)) for k, n in enumerate("uvw")}
    values = [evaluate(instantiate(v.lhs, bindings, "float"), env, {})[0] for v in variants]
    for value in values:
        np.testing.assert_allclose(value, values[0], rtol=1e-9, atol=1e-12)


def test_commuted_variants_are_all_orders() -> None:
    rule = parse_rule("Add(Mul(a, b), Mul(c, d)) = Add(a, Sub(b, c))")
    shown = {show_rule(variant).split(" = ")[0] for variant in operand_orders(rule)}
    products = [("Mul(a, b)", "Mul(b, a)"), ("Mul(c, d)", "Mul(d, c)")]
    expected = {f"Add({x}, {y})" for pair in permutations(products) for x in pair[0] for y in pair[1]}
    assert shown == expected
    assert len(list(operand_orders(parse_rule("Add(a, a) = Mul(a, b)")))) == 1


@pytest.mark.parametrize(
    ("line", "forward", "backward"),
    [
        ("Neg(Neg(x)) = Identity(x)", True, True),
        ("Neg(Neg(x)) = x", True, False),
        ("Mul(x, y) = Mul(y, x)", True, True),
        ("Sub(x, x) = Zeros[shape=x.shape]", True, False),
        ("Relu(x) = Conv[dilations=d, group=1, pads=p, strides=s](x, w)", False, True),
        ("Conv[dilations=d, group=g, pads=[p, q], strides=s](x, w) = Conv[dilations=d, group=g, pads=[q, p], "
         "strides=s](x, w)", True, True),
        ("Transpose[perm=t](x) = Transpose[perm=u](x)", False, False),
        ("Expand[shape=[z[1], 2]](x) = Squeeze[axes=[0]](Expand[shape=z](x))", False, True),
    ],
)  # fmt: skip
def test_which_directions_are_applicable(line: str, forward: bool, backward: bool) -> None:
    rule = parse_rule(line)
    assert rule.applicable is forward
    assert rule.reversed().applicable is backward
    assert rule.reversed().reversed() == rule
    assert rule.reversed().id != rule.id


def test_signatures_of_a_match_cover_it() -> None:
    rule = parse_rule("Conv[dilations=d, group=g, pads=p, strides=s](x, w) = Conv[dilations=d, group=g, pads=p, "
                      "strides=s](x, w)")  # fmt: skip
    small = conv(X, var("w1", tensor(6, 4, 1, 1)))
    found = match(rule.lhs, [small])
    assert found is not None
    general, ones = literal_signatures(rule, found)
    assert general.covers(found)
    assert ones.covers(found)
    assert dict(ones.shapes)["w"] == (None, None, 1, 1)
    big = match(rule.lhs, [conv(X, W)])
    assert big is not None
    assert general.covers(big)
    assert not ones.covers(big)
    assert not general.covers(Bindings({"x": X}, big.attrs))
    typed = general.bindings()
    assert str(typed.terms["x"].type) == "float[x.shape[0], x.shape[1], x.shape[2], x.shape[3]]"
    left, right = rule.instantiate(general)
    assert left == right


def test_conditions_hold_for_every_value_of_what_stays_symbolic() -> None:
    n, m = symbol("n"), symbol("m")
    assert Condition("==", n + m, m + n).holds({})
    assert not Condition("==", n, m).holds({})
    assert Condition("==", n, m).holds({"n": 3, "m": 3})
    assert Condition("<=", n, n + m).holds({})
    assert Condition("<=", n + 1, n + m).holds({})  # sizes are at least 1
    assert Condition("<=", n + m, n * m + 1).holds({})
    assert not Condition("<=", n + 2, n + m).holds({})
    assert not Condition("<=", n, n * m - 1).holds({})
    assert Condition("<=", n, m).holds({"n": 2, "m": 5})
    assert not Condition("<=", m, n).holds({"n": 2, "m": 5})


# Terms over other inputs.


@given(TARGETS)
def test_replacing_nothing_changes_nothing(term: Term) -> None:
    assert replace([term], {}) == (term,)
    assert remake(term, term.inputs) is term


@given(TARGETS)
def test_replacing_a_variable_renames_it_everywhere(term: Term) -> None:
    u, z = var("u", tensor(3, 3)), var("z", tensor(3, 3))
    (renamed,) = replace([term], {u: z})
    assert u not in set(topological([renamed]))
    assert replace([renamed], {z: u}) == (term,)


def test_types_follow_the_inputs() -> None:
    x, wide = var("x", tensor(2, 3)), var("wide", tensor(2, 5))
    total = make("Concat", (x, make("Neg", (x,))), {"axis": -1})
    (changed,) = replace([total], {x: wide})
    assert changed.type == tensor(2, 10)
    opaque = Term.of("Atan", (x,), {}, (tensor(2, 3),))
    assert replace([opaque], {x: make("Identity", (x,))})[0].type == tensor(2, 3)


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_untyped_inputs_give_untyped_terms(op: str) -> None:
    least, attrs = OPERATORS[op].inputs[0], example(op, random.Random(op)).attrs
    term = make(op, [var(f"v{k}") for k in range(least)], attrs)
    assert len(term.types) == OPERATORS[op].outputs(attrs)
    assert {type is None for type in term.types} == {least > 0}


def test_symbols_of_the_model_are_not_those_of_the_pattern() -> None:
    """A model may call its sizes as a rule calls its attribute variables."""
    (pattern,) = parse_terms("Slice[axes=[-1], ends=[q], starts=[p + q], steps=[1]](x)")
    for start, expected in ((symbol("q") + symbol("p"), symbol("q")), (symbol("p"), 0)):
        attrs = {"axes": (-1,), "ends": (symbol("p"),), "starts": (start,), "steps": (1,)}
        found = match((pattern,), (make("Slice", (var("x", tensor(2, symbol("p"))),), attrs),))
        assert found is not None
        assert found.attrs == {"p": expected, "q": symbol("p")}


@pytest.mark.parametrize(
    ("target", "heads"),
    [((2, 6, 4, 8), 4), ((2, 6, -1, 8), 4), ((0, 0, 4, -1), 4), ((0, -1, 2, 16), 2), ((2, 6, 32, 1), 32)],
)
def test_the_target_of_a_reshape_is_matched_by_its_meaning(target: tuple[int, ...], heads: int) -> None:
    (pattern,) = parse_terms("Reshape[allowzero=0, shape=[0, 0, h, -1]](q)")
    term = make("Reshape", (var("x", tensor(2, 6, 32)),), {"allowzero": 0, "shape": target})
    found = match((pattern,), (term,))
    assert found is not None and found.attrs == {"h": heads}
    (filled,) = instantiate((pattern,), found, "float")
    assert filled.type == term.type


@pytest.mark.parametrize("target", [(0, 0, -1, 8), (-1, 0, 4, 8), (0, -1, 4, 8), (symbol("n"), symbol("m"), 4, 8)])
def test_sizes_in_the_target_of_a_reshape_may_be_symbols(target: tuple[Size, ...]) -> None:
    (pattern,) = parse_terms("Reshape[allowzero=0, shape=[0, 0, h, -1]](q)")
    n, m = symbol("n"), symbol("m")
    term = make("Reshape", (var("x", TensorType("float", (n, m, 32))),), {"allowzero": 0, "shape": target})
    found = match((pattern,), (term,))
    assert found is not None and found.attrs == {"h": 4}
    (filled,) = instantiate((pattern,), found, "float")
    assert filled.type == term.type
    (stated,) = parse_terms("Reshape[allowzero=0, shape=[q.shape[0], k, h, 8]](q)")
    found = match((stated,), (term,))
    assert found is not None and found.attrs == {"k": m, "h": 4}
    (other,) = parse_terms("Reshape[allowzero=0, shape=[q.shape[1], k, h, 8]](q)")
    assert match((other,), (term,)) is None


@pytest.mark.parametrize(
    ("shape", "target"),
    [
        ((2, 6, 32), (6, 2, 4, 8)),  # other sizes
        ((2, 6, 32), (12, 4, 8)),  # another rank
        ((2, 0, 32), (2, 0, 4, 8)),  # of no elements: -1 would stand for any size
        ((symbol("n") - 1, 6, 32), (-1, 6, 4, 8)),  # of a size that may be 0 where n is 1
        ((floor_div(symbol("n"), 2), 6, 32), (-1, 6, 4, 8)),
    ],
)
def test_another_target_of_a_reshape_does_not_match(shape: tuple[Size, ...], target: tuple[int, ...]) -> None:
    (pattern,) = parse_terms("Reshape[allowzero=0, shape=[0, 0, h, -1]](q)")
    term = make("Reshape", (var("x", TensorType("float", shape)),), {"allowzero": 0, "shape": target})
    assert match((pattern,), (term,)) is None
