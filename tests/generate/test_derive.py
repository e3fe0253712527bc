"""Derivations: they are found, every step is valid, and no false equation is derived."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from superopt.cli.default_signatures import default_signatures
from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.derive import (
    DERIVED,
    NO_INSTANCE,
    NOT_DERIVED,
    CertificateCheck,
    Consequence,
    Deriver,
    FingerprintCheck,
    consequence,
    normal,
)
from superopt.generate.derive.neighbours import Neighbours, RewriteEdge
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.grammar import Family, Variable
from superopt.generate.minimise.minimiser import Minimiser
from superopt.ir.notation import parse_rule, parse_terms, show_terms
from superopt.ir.rule import Rule
from superopt.ir.term import Term, topological
from superopt.ir.types import TensorType, tensor
from tests.support.derivations import check_derivation
from verify.certificates import Certificate
from verify.diagnose.decide import certify

ASSOCIATIVE = "MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]"
TWICE = "Transpose[perm=p](Transpose[perm=p](a)) = a @ a[_,_] p=[1,0]"
SPREAD = "Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c)) @ a[_,_] b[_,_] c[_,_]"
NOTHING = "Sub(a, a) = Zeros[shape=a.shape] @ a[_,_]"
BRANCHES = (
    "(MatMul(a, b), MatMul(a, c)) = (Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))"
    ").0, Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).1)"
    " @ a[_,_] b[_,_] c[_,_]"
)
RULES = (ASSOCIATIVE, TWICE, SPREAD, NOTHING, BRANCHES)
SQUARE: Mapping[str, TensorType] = {name: tensor(3, 3) for name in "abcd"}
T = "Transpose[perm=[1, 0]]"


def deriver(*rules: str, most: int = 20_000) -> Deriver:
    """Return a deriver whose rules are certified here."""
    parsed = [parse_rule(rule) for rule in rules]
    certificates = {rule: certificate(rule) for rule in parsed}
    return Deriver(parsed, CertificateCheck(parsed, certificates), most)


def certificate(rule: Rule) -> Certificate:
    made, verdicts = certify(rule)
    assert made is not None, verdicts
    return made


@pytest.fixture(scope="module")
def few() -> Deriver:
    return deriver(*RULES)


def sides(text: str, types: Mapping[str, TensorType] = SQUARE) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    left, right = text.split(" = ")
    return parse_terms(left, types), parse_terms(right, types)


@pytest.mark.parametrize(
    ("equation", "steps"),
    [
        ("MatMul(a, b) = MatMul(a, b)", 0),
        ("Add(a, MatMul(b, Add(c, d))) = Add(MatMul(b, Add(d, c)), a)", 0),  # operands in another order
        ("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))", 1),
        ("MatMul(a, MatMul(b, c)) = MatMul(MatMul(a, b), c)", 1),
        ("Relu(MatMul(MatMul(a, a), b)) = Relu(MatMul(a, MatMul(a, b)))", 1),
        ("Add(MatMul(a, c), MatMul(a, b)) = MatMul(a, Add(b, c))", 1),
        (f"MatMul(MatMul(a, b), {T}({T}(c))) = MatMul(a, MatMul(b, c))", 2),
        (f"a = {T}({T}({T}({T}(a))))", 2),
        ("MatMul(MatMul(MatMul(a, b), c), d) = MatMul(a, MatMul(b, MatMul(c, d)))", 2),
        ("Zeros[shape=[3, 3]] = Sub(MatMul(a, MatMul(b, c)), MatMul(MatMul(a, b), c))", 2),
        (f"Mul({T}({T}(a)), Relu({T}({T}(a)))) = Mul(a, Relu(a))", 1),  # one value that occurs twice
        ("(MatMul(MatMul(a, b), c), Relu(d)) = (MatMul(a, MatMul(b, c)), Relu(d))", 1),
    ],
)
def test_derived(few: Deriver, equation: str, steps: int) -> None:
    lhs, rhs = sides(equation)
    found = few.derive(lhs, rhs)
    assert found is not None
    check_derivation(lhs, rhs, found)
    assert len(found) == steps
    assert few.derive(lhs, rhs, steps) is not None
    if steps:
        assert few.derive(lhs, rhs, steps - 1) is None


@pytest.mark.parametrize(
    "equation",
    [
        "MatMul(a, b) = MatMul(b, a)",
        "Add(Add(a, b), c) = Add(a, Add(b, c))",
        f"{T}(a) = a",
        "a = b",
        "Sub(a, b) = Zeros[shape=[3, 3]]",
        "(MatMul(MatMul(a, b), c), a) = (MatMul(a, MatMul(b, c)), b)",
        "(MatMul(a, b), a) = (a, MatMul(a, b))",
    ],
)
def test_not_derived(few: Deriver, equation: str) -> None:
    assert few.derive(*sides(equation)) is None


def test_steps_state_their_direction(few: Deriver) -> None:
    for text, directions in (
        ("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))", [True]),
        ("MatMul(a, MatMul(b, c)) = MatMul(MatMul(a, b), c)", [False]),
        ("Zeros[shape=[3, 3]] = Sub(a, a)", [False]),  # found from the right only: the zeros do not determine a
        (f"{T}({T}(a)) = Add(a, Sub(b, b))", None),
    ):
        found = few.derive(*sides(text))
        assert (None if found is None else [step.forward for step in found]) == directions


def test_a_rule_that_assumes_a_defined_left_side_is_not_reversed() -> None:
    one_way = deriver("Mul(Div(x, y), y) = x @ x[_,_] y[_,_]")
    lhs, rhs = sides("Relu(Mul(Div(a, b), b)) = Relu(a)")
    assert one_way.derive(lhs, rhs) is not None
    assert one_way.derive(rhs, lhs) is None
    between = sides("Mul(Div(a, b), b) = Mul(Div(a, c), c)")
    assert one_way.derive(*between) is None


def test_a_certificate_covers_its_signatures_only(few: Deriver) -> None:
    ranks = {name: tensor(2, 3, 3) for name in "abc"}
    lhs, rhs = sides("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))", ranks)
    assert few.derive(lhs, rhs) is None
    rule = parse_rule(ASSOCIATIVE)
    assert Deriver([rule], CertificateCheck([rule], {rule: certificate(rule)}, anew=True)).derive(lhs, rhs) is not None


def test_a_step_that_is_not_proven_when_a_path_is_found_is_given_up() -> None:
    rules = [parse_rule(rule) for rule in (TWICE, SPREAD)]
    certificates = {rule: certificate(rule) for rule in rules}
    for provable in (True, False):
        asked: list[Rule] = []

        def prove(rule: Rule, *_: object, asked: list[Rule] = asked, provable: bool = provable) -> bool:
            asked.append(rule)
            return provable

        lazy = Deriver(rules, prove, is_possible=lambda *_: True)
        lhs, rhs = sides(f"{T}({T}(MatMul(a, Add(b, c)))) = MatMul(a, Add(b, c))")
        assert (lazy.derive(lhs, rhs) is not None) == provable
        assert asked if not provable else len(asked) == 1
    strict = Deriver(rules, CertificateCheck(rules, certificates))
    assert strict.derive(lhs, rhs) is not None


def test_conditions_must_hold() -> None:
    rule = "Slice[axes=[-1], ends=to, starts=[0], steps=[1]](Concat[axis=-1](x, y)) = x @ x[_,_] y[_,_] to=[_]"
    only, types = deriver(rule), {"x": tensor(2, 3), "y": tensor(2, 3), "z": tensor(2, 6)}
    cut = "Slice[axes=[-1], ends=[{}], starts=[0], steps=[1]]({}) = x"
    assert only.derive(*sides(cut.format(3, "Concat[axis=-1](x, y)"), types)) is not None
    assert only.derive(*sides(cut.format(4, "Concat[axis=-1](x, y)"), types)) is None
    assert only.derive(*sides(cut.format(3, "z"), types)) is None


def test_a_written_size_is_no_mark() -> None:
    rule = parse_rule("Relu(Reshape[allowzero=0, shape=[0, z]](x)) = Reshape[allowzero=0, shape=[0, z]](Relu(x))")
    by_values = Deriver([rule], FingerprintCheck(Evaluator(0)))
    for size, derived in ((12, True), (-1, False), (0, False)):
        types = {"x": tensor(2, 12) if size == 0 else tensor(2, 3, 4)}
        equal = "Relu(Reshape[allowzero=0, shape=[0, {0}]](x)) = Reshape[allowzero=0, shape=[0, {0}]](Relu(x))"
        assert (by_values.derive(*sides(equal.format(size), types)) is not None) == derived


def test_rules_of_several_outputs(few: Deriver) -> None:
    types = {"a": tensor(2, 3), "b": tensor(3, 4), "c": tensor(3, 5)}
    merged = "Split[axis=-1, split=[{}, {}]](MatMul(a, Concat[axis=-1]({}, {})))"
    forth, back = merged.format(4, 5, "b", "c"), merged.format(5, 4, "c", "b")
    for text in (
        f"(MatMul(a, b), MatMul(a, c)) = ({forth}.0, {forth}.1)",
        f"(MatMul(a, b), MatMul(a, c)) = ({back}.1, {back}.0)",  # outputs in the other order
        f"({forth}.0, {forth}.1) = (MatMul(a, b), MatMul(a, c))",
    ):
        lhs, rhs = sides(text, types)
        found = few.derive(lhs, rhs)
        assert found is not None and len(found) == 1
        check_derivation(lhs, rhs, found)
    assert few.derive(*sides(f"MatMul(a, b) = {forth}.0", types)) is None
    lhs, rhs = sides(f"(MatMul(a, {T}({T}(b))), MatMul(a, c)) = ({forth}.0, {forth}.1)", types)
    found = few.derive(lhs, rhs)
    assert found is not None and len(found) == 2
    check_derivation(lhs, rhs, found)


def test_steps_of_several_outputs_are_counted_together(few: Deriver) -> None:
    lhs, rhs = sides(f"({T}({T}(a)), MatMul(MatMul(a, b), c)) = (a, MatMul(a, MatMul(b, c)))")
    found = few.derive(lhs, rhs, 2)
    assert found is not None and len(found) == 2
    check_derivation(lhs, rhs, found)
    assert few.derive(lhs, rhs, 1) is None


def test_graphs_of_a_derivation_pass_the_given_test(few: Deriver) -> None:
    lhs, rhs = sides("MatMul(MatMul(MatMul(a, b), c), d) = MatMul(a, MatMul(b, MatMul(c, d)))")
    found = few.derive(lhs, rhs)
    assert found is not None
    other = few.derive(lhs, rhs, passes=lambda terms: terms != found[0].after)
    assert other is not None and all(step.after != found[0].after for step in other)
    assert few.derive(lhs, rhs, passes=lambda terms: False) is None


def test_steps_forward_are_found_from_the_graph_before() -> None:
    collapsing = deriver("Mul(a, Zeros[shape=z]) = Zeros[shape=z] @ a[_,_] z=[_,_]", TWICE)
    lhs, rhs = sides("Add(Mul(a, Zeros[shape=[3, 3]]), b) = Add(Zeros[shape=[3, 3]], b)")
    assert collapsing.derive(lhs, rhs, forward=True) is not None
    assert collapsing.derive(rhs, lhs, forward=True) is None
    assert collapsing.derive(rhs, lhs) is not None
    peak = sides("Mul(a, Zeros[shape=[3, 3]]) = Mul(b, Zeros[shape=[3, 3]])")
    assert collapsing.derive(*peak) is not None
    assert collapsing.derive(*peak, forward=True) is None
    lhs, rhs = sides(f"Relu({T}({T}({T}({T}(a))))) = Relu(a)")
    assert collapsing.derive(lhs, rhs, forward=True) is not None
    assert collapsing.derive(rhs, lhs, forward=True) is None


MATRICES = Family("f", tuple(Variable(name, (2, 2), "a") for name in "abc"), (), 1)


def minimiser(*rules: str) -> Minimiser:
    made = Minimiser(Evaluator(0))
    for rule in rules:
        made.add(parse_rule(rule))
    return made


def equation(text: str, family: Family = MATRICES) -> GroundEquation:
    types = {v.name: tensor(*v.shape, dtype=v.dtype) for v in family.variables}
    return GroundEquation(*sides(text, types), family)


def test_a_graph_without_a_meaning_is_on_no_path() -> None:
    """Einsum has no meaning for integers of 8 bits, as no runtime computes it."""
    integers = Family("f", (Variable("a", (2, 3), "a", dtype="int8"),), (), 2)
    asked = equation(f"{T}({T}(a)) = Neg(Neg(a))", integers)
    assert not minimiser(f'{T}(a) = Einsum[equation="ab->ba"](a)').derivable(asked)


def test_a_merge_of_products_is_kept_though_both_halves_follow() -> None:
    halves = [
        "Split[axis=i, split=n](Concat[axis=i](x, y)).0 = x",
        "Split[axis=i, split=n](Concat[axis=i](x, y)).1 = y",
        "Split[axis=i, split=n](MatMul(a, t)).0 = MatMul(a, Split[axis=i, split=n](t).0)",
        "Split[axis=i, split=n](MatMul(a, t)).1 = MatMul(a, Split[axis=i, split=n](t).1)",
    ]
    merged = "Split[axis=-1, split=[2, 2]](MatMul(a, Concat[axis=-1](b, c)))"
    for text in (f"{merged}.0 = MatMul(a, b)", f"{merged}.1 = MatMul(a, c)"):
        assert minimiser(*halves).derivable(equation(text))
    both = equation(f"(MatMul(a, b), MatMul(a, c)) = ({merged}.0, {merged}.1)")
    assert not minimiser(*halves).derivable(both)
    assert minimiser(*halves, BRANCHES).derivable(both)


def test_two_graphs_that_lead_down_to_one_need_no_rule() -> None:
    collapsing = minimiser("Add(Sub(a, b), b) = a")
    assert collapsing.derivable(equation("Neg(Add(Sub(a, b), b)) = Neg(Add(Sub(a, c), c))"))
    assert not collapsing.derivable(equation("Neg(Add(Sub(a, b), b)) = Neg(Add(Sub(b, c), c))"))


def test_rules_are_added_and_removed() -> None:
    equation = sides(f"MatMul(MatMul(a, b), {T}({T}(c))) = MatMul(a, MatMul(b, c))")
    rules = [parse_rule(rule) for rule in (ASSOCIATIVE, TWICE)]
    growing = Deriver([], FingerprintCheck(Evaluator(0)))
    assert growing.derive(*equation) is None
    growing.add(rules[0])
    assert growing.derive(*equation) is None
    growing.add(rules[1])
    assert growing.derive(*equation) is not None
    assert growing.derive(*equation, without=rules[0]) is None
    growing.remove(rules[1])
    assert growing.derive(*equation) is None
    growing.add(rules[1])
    growing.forget()
    assert growing.derive(*equation) is not None


def test_earlier_searches_do_not_change_results(few: Deriver) -> None:
    lhs, rhs = sides("MatMul(MatMul(MatMul(a, b), c), d) = MatMul(a, MatMul(b, MatMul(c, d)))")
    for _ in range(2):
        first, second = (deriver(*RULES).derive(lhs, rhs) for _ in range(2))
        assert first == second
        assert [step.after for step in few.derive(lhs, rhs) or ()] == [step.after for step in first or ()]


def test_a_search_ends_at_its_bound() -> None:
    narrow = deriver(ASSOCIATIVE, most=3)
    long = "MatMul(MatMul(MatMul(a, b), c), MatMul(MatMul(d, b), a)) = MatMul(a, MatMul(b, MatMul(c, MatMul(d, d))))"
    assert narrow.derive(*sides(long)) is None
    assert narrow.cut == 1


def test_at_its_bound_a_search_tries_one_more_step() -> None:
    lhs, rhs = sides("MatMul(MatMul(MatMul(a, b), c), d) = MatMul(a, MatMul(b, MatMul(c, d)))")
    narrow = deriver(ASSOCIATIVE, most=3)
    assert len(narrow.derive(lhs, rhs) or ()) == 2 and narrow.cut == 1
    assert deriver(ASSOCIATIVE, most=3).derive(lhs, rhs, forward=True) is None
    assert deriver(ASSOCIATIVE, most=3).derive(lhs, rhs, steps=1) is None


def test_steepest_descent() -> None:
    down = Deriver([parse_rule(TWICE)], FingerprintCheck(Evaluator(0)))
    (term,) = normal(parse_terms(f"Add({T}({T}({T}({T}(a)))), b)", SQUARE))
    assert show_terms([down.descend(term, lambda t: float(sum(1 for _ in topological((t,)))))]) in (
        "Add(a, b)",
        "Add(b, a)",
    )


def test_a_rule_follows_at_all_its_signatures_or_not(few: Deriver) -> None:
    def ask(text: str, steps: int = 4) -> Consequence:
        rule = parse_rule(text)
        return consequence(few, rule, rule.signatures or default_signatures(rule), steps)

    law = "MatMul(MatMul(MatMul(a, b), c), d) = MatMul(a, MatMul(b, MatMul(c, d))) @ a[_,_] b[_,_] c[_,_] d[_,_]"
    found = ask(law)
    assert (found.outcome, found.steps, len(found.derivations)) == (DERIVED, 2, 2)
    short = ask(law, 1)
    assert (short.outcome, short.steps) == (NOT_DERIVED, None)
    assert "no derivation of at most 1 steps at a[_,_] b[_,_] c[_,_] d[_,_] with a.shape[" in short.reason
    assert ask(law + " | a[_,_,_] b[_,_,_] c[_,_,_] d[_,_,_]").outcome == NOT_DERIVED
    assert ask("Concat[axis=-1](x, y) = Concat[axis=-2](x, y) @ x[_,_] y[_,_]").outcome == NO_INSTANCE


CONSTANTS = (
    "Add(a, Zeros[shape=a.shape]) = a @ a[_,_]",
    "Add(a, a) = Mul(a, ConstantOfShape[shape=a.shape, value=2.0]) @ a[_,_]",
    "Mul(a, Add(b, c)) = Add(Mul(a, b), Mul(a, c)) @ a[_,_] b[_,_] c[_,_]",
)


@pytest.mark.parametrize(
    "text",
    [
        "Add(MatMul(a, MatMul(b, Add(c, d))), MatMul(MatMul(a, b), c))",
        "Mul(MatMul(MatMul(a, b), c), Sub(MatMul(a, MatMul(b, c)), MatMul(MatMul(a, b), c)))",
        "Add(Sub(a, a), Mul(Add(a, a), Add(Sub(b, b), Sub(a, a))))",
        "MatMul(Add(b, a), Add(MatMul(a, b), MatMul(a, b)))",
    ],
)
def test_steps_toward_a_graph_are_those_of_all_steps_that_lead_there(text: str) -> None:
    all_steps, some = (Neighbours(lambda *step: True) for _ in range(2))
    for rule in (*RULES, *CONSTANTS):
        all_steps.add(parse_rule(rule))
        some.add(parse_rule(rule))

    def named(steps: Iterable[tuple[RewriteEdge, Term]]) -> list[tuple[object, ...]]:
        return [(edge.number, edge.forward, edge.place, edge.new, new) for edge, new in steps]

    (start,) = normal(parse_terms(text, SQUARE))
    layer, seen = [start], {start}
    for _ in range(2):
        for term in layer:
            near = all_steps.of(term)
            for targets in (*(frozenset({new}) for new in near.values()), frozenset(near.values()), frozenset(layer)):
                expected = [(edge, new) for edge, new in near.items() if new in targets]
                assert named(some.toward(term, targets)) == named(expected)
                some.forget()
        layer = list(dict.fromkeys(new for term in layer for new in all_steps.of(term).values() if new not in seen))
        seen.update(layer)
    assert len(seen) > 4
