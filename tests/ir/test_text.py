"""The notation: what is printed is read back as the same term, rule or signature."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import subprocess
import sys
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from superopt.ir.dim import symbol
from superopt.ir.infer import OPERATORS, REAL_ATTRS, make
from superopt.ir.notation import (
    NotationError,
    parse_rule,
    parse_rules,
    parse_signature,
    parse_terms,
    show_graph,
    show_rule,
    show_signature,
    show_term,
    show_terms,
)
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import CLOSED_FORM, Attr, AttrVar, Term, map_terms, node_of, repr_attrs, topological, var
from superopt.ir.types import tensor
from tests.support.paths import ROOT
from tests.support.semantic_cases.terms import example

NAMES = st.sampled_from(["a", "b", "x", "bias", "w2"])
REALS = st.floats(allow_nan=False).map(lambda value: value + 0.0) | st.just(AttrVar("e"))
INTEGERS = st.integers(-9, 9) | st.builds(
    lambda name, factor, offset: symbol(name) * factor + offset,
    st.sampled_from(["p", "q", "a.shape[0]", "x.shape[-1]", "t[1]"]),
    st.integers(2, 4),
    st.integers(-3, 3),
)
LISTS = st.lists(INTEGERS, min_size=1, max_size=4).map(tuple) | st.just(AttrVar("t"))


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), max_size=6)


@cache
def attrs_of(op: str) -> st.SearchStrategy[dict[str, Attr]]:
    """Attributes of the right kinds for `op`; their values need not make sense."""
    seen = [example(op, random.Random(seed)).attrs for seed in range(30)]

    def kind(name: str) -> st.SearchStrategy[Attr]:
        if name in REAL_ATTRS:
            return REALS
        kinds = {tuple: LISTS.filter(lambda value: isinstance(value, tuple)), int: INTEGERS, str: TEXTS}
        return st.one_of(*(kinds[found] for found in kinds if any(type(attrs[name]) is found for attrs in seen)))

    return st.fixed_dictionaries({name: kind(name) for name in OPERATORS[op].attrs})


NODES = st.sampled_from(sorted(set(OPERATORS) - CLOSED_FORM))


@st.composite
def applications(draw: st.DrawFn, inner: st.SearchStrategy[Term]) -> Term:
    op = draw(NODES)
    least, most = OPERATORS[op].inputs
    count = draw(st.integers(least, most if most is not None else 4))
    inputs: list[Term | None] = [draw(inner) for _ in range(count)]
    if count > least and draw(st.booleans()):
        inputs[-1] = None
    term = make(op, inputs, draw(attrs_of(op)))
    several = 2 if op == "Split" else OPERATORS[op].outputs({}) - 1 if OPERATORS[op].equations else 0
    return term.out(draw(st.integers(0, several))) if several else term


TERMS = st.recursive(NAMES.map(var), applications, max_leaves=6)


@given(st.lists(TERMS, min_size=1, max_size=3))
def test_terms_are_read_back(terms: list[Term]) -> None:
    assert parse_terms(show_terms(terms)) == tuple(terms)


@given(TERMS, TERMS)
def test_rules_are_read_back(left: Term, right: Term) -> None:
    rule = Rule((left,), (right,))
    again = parse_rule(show_rule(rule))
    assert again == rule
    assert again.id == rule.id


@pytest.mark.parametrize("op", sorted(op for op in OPERATORS if OPERATORS[op].defaults))
def test_attributes_that_are_left_out_have_their_defaults(op: str) -> None:
    spec, given = OPERATORS[op], example(op, random.Random(op)).attrs
    inputs = [var(f"x{k}") for k in range(spec.inputs[0])]
    stated = repr_attrs((name, value) for name, value in given.items() if name not in spec.defaults)
    shown = f"{op}[{stated}]({', '.join(show_term(x) for x in inputs)})" if inputs else f"{op}[{stated}]"
    (term,) = parse_terms(shown)
    assert node_of(term) is make(op, inputs, {**given, **spec.defaults})
    assert term is node_of(term) or (term is node_of(term).out(0) and spec.equations)
    assert set(given) == set(spec.attrs) >= set(spec.defaults)
    for name, value in spec.defaults.items():
        assert isinstance(value, float if name in REAL_ATTRS else type(given[name])), name


@pytest.mark.parametrize("op", sorted(OPERATORS))
def test_attributes_that_have_no_default_are_needed(op: str) -> None:
    spec, given = OPERATORS[op], example(op, random.Random(op)).attrs
    inputs = ", ".join(f"x{k}" for k in range(spec.inputs[0]))
    for left_out in set(given) - set(spec.defaults):
        stated = repr_attrs((name, value) for name, value in given.items() if name != left_out)
        with pytest.raises(NotationError, match=f"missing attribute '{left_out}'"):
            parse_terms(f"{op}[{stated}]({inputs})")
    with pytest.raises(NotationError, match="attribute 'nonsense'"):
        parse_terms(f"{op}[{repr_attrs([*given.items(), ('nonsense', 1)])}]({inputs})")


SIZES = st.none() | st.integers(0, 9)
SIGNATURES = st.builds(
    lambda shapes, attrs: Signature(tuple(sorted(shapes.items())), tuple(sorted(attrs.items()))),
    st.dictionaries(NAMES, st.lists(SIZES, max_size=4).map(tuple), max_size=3),
    st.dictionaries(
        st.sampled_from(["p", "q", "t"]),
        SIZES | st.floats(allow_nan=False, allow_infinity=False) | st.lists(SIZES, max_size=3).map(tuple),
        max_size=2,
    ),
)


@given(SIGNATURES)
def test_signatures_are_read_back(signature: Signature) -> None:
    assert parse_signature(show_signature(signature)) == signature


RULES = [
    "Concat[axis=-1](MatMul(a, b), MatMul(a, c)) = MatMul(a, Concat[axis=-1](b, c)) @ a[_,_] b[_,_] c[_,_] | "
    "a[_,_,_] b[_,1] c[_,_]",
    "(MatMul(a, b), MatMul(a, c)) = (Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, "
    "c))).0, Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).1)",
    "Conv[dilations=[1, 1], group=g, pads=[p, q, r, s], strides=t](x, w) = Conv[dilations=[1, 1], group=g, "
    "pads=[p + 1, q + 1, r + 1, s + 1], strides=t](x, Pad[pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0](w)) @ "
    "w[_,_,1,1] x[_,_,_,_] g=_ p=_ q=_ r=_ s=_ t=[_,_]",
    "BatchNormalization[epsilon=e](x, s, b, m, v) = Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], "
    "strides=[1, 1]](x, Dirac[group=1, shape=[x.shape[1], x.shape[1], 1, 1]], Zeros[shape=[x.shape[1]]]) @ "
    "x[_,_,_,_] e=*",
    "Mul(x, Ones[shape=[]]) = Identity(x)",
    "Conv[dilations=d, group=g, pads=p, strides=s](x, w, _) = Relu(w)",
]


@pytest.mark.parametrize("line", RULES)
def test_the_printed_form_is_stable(line: str) -> None:
    assert show_rule(parse_rule(line)) == line


def test_files_of_rules() -> None:
    rules = parse_rules("# a comment\n\nNeg(Neg(x)) = Identity(x)\n   Relu(Relu(x)) = Relu(x)\n")
    assert [show_rule(rule) for rule in rules] == ["Neg(Neg(x)) = Identity(x)", "Relu(Relu(x)) = Relu(x)"]
    with pytest.raises(NotationError, match=r"^my\.rules:2: column 14: expected an operator or a variable"):
        parse_rules("Neg(x) = x\nNeg(x) = Neg(", "my.rules")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", 1), ("Neg(", 5), ("Neg(x", 6), ("Neg(x))", 7), ("Nonsense(x)", 12), ("Neg(x) = x ~", 11),
        ("Concat[axis=](x) = x", 13), ("(a, b) = a", None), ("a", 2), ("a = b @ x[_,", 13), ("Neg(3) = x", 5),
    ],
)  # fmt: skip
def test_errors_name_the_place(text: str, place: int | None) -> None:
    with pytest.raises(NotationError) as caught:
        parse_rule(text)
    if place is not None:
        assert str(caught.value).startswith(f"column {place}: ")


def test_graphs_print_shared_terms_once() -> None:
    x = var("x", tensor(symbol("n"), 2))
    shared = make("Neg", (x,))
    split = make("Split", (make("Concat", (shared, shared), {"axis": -1}),), {"axis": -1, "split": (1, 3)})
    assert show_graph([split.out(1), shared]).splitlines() == [
        "input x: float[n, 2]",
        "t0 = Neg(x)  # float[n, 2]",
        "t1 = Concat[axis=-1](t0, t0)  # float[n, 4]",
        "t2 = Split[axis=-1, split=[1, 3]](t1)  # float[n, 1]",
        "return (t2.1, t0)",
    ]
    assert show_term(shared, {x: "y"}) == "Neg(y)"


@given(TERMS)
def test_equal_parts_make_the_same_term(term: Term) -> None:
    rebuilt = map_terms([term], lambda old, inputs: old.over(inputs))
    assert rebuilt == (term,)
    assert pickle.loads(pickle.dumps(term)) is term


@given(TERMS, TERMS)
def test_digests_tell_terms_apart(left: Term, right: Term) -> None:
    assert (left.digest == right.digest) == (left is right)


def test_integers_and_reals_are_one_value_of_a_real_attribute() -> None:
    shared = {"beta": 1.0, "transA": 0, "transB": 0}
    assert make("Gemm", (var("a"), var("b")), {"alpha": 2, **shared}).attr("alpha") == 2.0
    assert isinstance(make("Gemm", (var("p"), var("q")), {"alpha": 3, **shared}).attr("alpha"), float)


def test_topological_order_is_the_same_every_time_and_not_recursive() -> None:
    term = var("x")
    for _ in range(50_000):
        term = make("Neg", (term,))
    order = list(topological([term, term]))
    assert len(order) == 50_001
    assert all(a in b.inputs for a, b in itertools.pairwise(order))
    assert term.digest


SCRIPT = """
from superopt.ir.notation import parse_rule
import sys
for line in sys.stdin.read().splitlines():
    rule = parse_rule(line)
    print(rule.id, *(term.digest for term in rule.lhs + rule.rhs))
"""


def test_ids_are_the_same_in_every_process() -> None:
    printed = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        lines = RULES if seed == "1" else RULES[::-1]
        result = subprocess.run(
            [sys.executable, "-c", SCRIPT], input="\n".join(lines), env=environment, text=True, capture_output=True,
            check=True,
        )  # fmt: skip
        printed.add(frozenset(result.stdout.splitlines()))
    assert len(printed) == 1


@pytest.mark.parametrize("text", ["Neg() = a", "Neg(a, b) = a", "MatMul(a) = a"])
def test_operators_take_as_many_inputs_as_they_have(text: str) -> None:
    with pytest.raises(ValueError, match="inputs"):
        parse_rules(text)
