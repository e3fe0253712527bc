"""Enumeration, generalisation, minimisation and the files, on grammars small enough to know the result."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from superopt.generate import generate
from superopt.generate.conjectures.equal_pairs import conjectures
from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.enumeration.enumerator import enumerate_family
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.equation_to_rule import generalise
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.generalise.size_equations import free_size_count, pinned
from superopt.generate.grammar import Family, Use, Variable
from superopt.generate.minimise.cost import EnumerationCost, cost
from superopt.generate.minimise.minimiser import Minimiser
from superopt.generate.minimise.usefulness import is_usable, is_weak
from superopt.generate.prove.prove_conjectures import ConjectureProver
from superopt.ir.infer import make
from superopt.ir.notation import parse_rule, parse_rules, parse_terms, show_rule
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term
from superopt.ir.types import tensor
from verify.certificates import load_certificates
from verify.diagnose.decide import decide
from verify.verdict import Refuted, Verdict

MATRICES = Family(
    "matrix",
    tuple(Variable(name, (2, 2), "a") for name in "abc"),
    (
        Use("MatMul"),
        Use("Add"),
        Use("Transpose", {"perm": (1, 0)}, (1,)),
        Use("Concat", {"axis": -1}),
    ),
    runtime=3,
    elements=8,
    variation="matrix",
    split_axes=(-1,),
)
LINEAR = Family(
    "linear",
    (Variable("x", (2, 2), "x"), Variable("w", (2, 2), "w", True), Variable("u", (2, 2), "w", True)),
    (Use("MatMul", slots=("x", "w")), Use("Add", slots=("x",)), Use("Add", slots=("w",), run=False, fold=True)),
    runtime=3,
    folded=(1, 1, 0, 0),
)


def _equation(family: Family, text: str) -> GroundEquation:
    types = {v.name: tensor(*v.shape) for v in family.variables}
    left, right = text.split(" = ")
    return GroundEquation(parse_terms(left, types), parse_terms(right, types), family)


def test_every_graph_is_counted_once_and_equal_graphs_share_a_class() -> None:
    family = Family("f", (Variable("a", (2, 2), "a"), Variable("b", (2, 2), "a")), (Use("MatMul"), Use("Add")), 3)
    state = enumerate_family(family, Evaluator(0))
    leaves, first = 2, 4 + 3  # MatMul of ordered pairs, Add of unordered ones
    pairs = 2 * first * leaves + first * leaves
    assert [(level.graphs, level.classes) for level in state.levels[:2]] == [
        (first, first),
        (pairs, pairs - state.levels[1].pairs),
    ]
    evaluator = Evaluator(0)
    terms = [make(op, pair) for op in ("MatMul", "Add") for pair in itertools.product(state.classes.leaves, repeat=2)]
    deeper = [
        make(op, p) for op in ("MatMul", "Add") for t in terms for s in state.classes.leaves for p in ((t, s), (s, t))
    ]
    known = leaves + sum(level.classes for level in state.levels[:2])
    assert len({evaluator.key(t) for t in state.classes.leaves + terms + deeper}) == known


def test_operators_on_weights_cost_nothing() -> None:
    state = enumerate_family(LINEAR, Evaluator(0))
    equations = conjectures(state, Evaluator(0))
    merged = _equation(LINEAR, "Add(MatMul(x, w), MatMul(x, u)) = MatMul(x, Add(w, u))")
    assert (merged.lhs, merged.rhs) in [(e.lhs, e.rhs) for e in equations]
    assert merged.size[:2] == (4, 5)


def test_conjectures_have_no_renamed_duplicates_and_no_special_cases() -> None:
    state = enumerate_family(MATRICES, Evaluator(0))
    equations = conjectures(state, Evaluator(0))
    assert sum(level.pairs for level in state.levels) > sum(level.unexplained for level in state.levels)
    assert sum(level.unexplained for level in state.levels) > len(equations)
    associative = [e for e in equations if {t.op for t in e.lhs + e.rhs} == {"MatMul"} and e.size[0] == 4]
    assert len(associative) == 1


def test_another_seed_finds_the_same_conjectures() -> None:
    found = [conjectures(enumerate_family(MATRICES, Evaluator(s)), Evaluator(s)) for s in (0, 1)]
    assert {(e.lhs, e.rhs) for e in found[0]} == {(e.lhs, e.rhs) for e in found[1]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Transpose[perm=[1, 0]](Add(a, b)) = Add(Transpose[perm=[1, 0]](a), Transpose[perm=[1, 0]](b))",
         "Transpose[perm=p](Add(a, b)) = Add(Transpose[perm=p](a), Transpose[perm=p](b))"),
        ("Concat[axis=-1](MatMul(a, b), MatMul(a, c)) = MatMul(a, Concat[axis=-1](b, c))",
         "Concat[axis=-1](MatMul(a, b), MatMul(a, c)) = MatMul(a, Concat[axis=-1](b, c))"),
        ("Concat[axis=-1](Add(a, b), Add(b, c)) = Add(Concat[axis=-1](a, b), Concat[axis=-1](b, c))",
         "Concat[axis=i](Add(a, b), Add(b, c)) = Add(Concat[axis=i](a, b), Concat[axis=i](b, c))"),
        ("Sub(a, a) = Zeros[shape=[2, 2]]", "Sub(a, a) = Zeros[shape=a.shape]"),
        ("Add(a, Zeros[shape=[]]) = a", "Add(a, Zeros[shape=z]) = a"),
        ("MatMul(a, Eye[n=2]) = a", "MatMul(a, Eye[n=a.shape[-1]]) = a"),
        ("(MatMul(a, b), MatMul(a, c)) = (Split[axis=-1, split=[2, 2]](MatMul(a, Concat[axis=-1](b, c))).0, "
         "Split[axis=-1, split=[2, 2]](MatMul(a, Concat[axis=-1](b, c))).1)",
         "(MatMul(a, b), MatMul(a, c)) = "
         "(Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).0, "
         "Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).1)"),
    ],
)  # fmt: skip
def test_literals_become_variables_and_sizes(text: str, expected: str) -> None:
    schema = generalise(_equation(MATRICES, text), SamplingCheck(Evaluator(0), 0))
    assert schema is not None
    assert show_rule(Rule(schema.rule.lhs, schema.rule.rhs)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Transpose[perm=[1, 0]](a) = a",
        "Sub(a, a) = Sub(b, b)",  # each side has a variable that the other lacks: the equation cannot be applied
        "Concat[axis=-1](a, b) = Concat[axis=-1](b, a)",
    ],
)
def test_accidental_equations_are_not_generalised(text: str) -> None:
    assert generalise(_equation(MATRICES, text), SamplingCheck(Evaluator(0), 0)) is None


def test_sizes_fixed_by_typing_become_literals() -> None:
    family = Family("f", (Variable("x", (1, 2, 2, 2), "x"),), (), 1, variation="conv")
    conv = "Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]]"
    schema = generalise(
        _equation(family, f"{conv}(x, Dirac[group=1, shape=[2, 2, 1, 1]]) = x"), SamplingCheck(Evaluator(0), 0)
    )
    assert schema is not None
    assert dict(schema.base.attrs)["z"] == (None, None, 1, 1)
    assert dict(schema.open.attrs)["z"] == (None, None, None, None)


def test_derivable_equations_are_recognised() -> None:
    minimiser = Minimiser(Evaluator(0))
    minimiser.add(parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))"))
    minimiser.add(parse_rule("Transpose[perm=p](Transpose[perm=p](a)) = a"))
    twice = "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]]({}))"
    for text in (
        "MatMul(MatMul(a, a), b) = MatMul(a, MatMul(a, b))",
        f"Add(a, {twice.format('b')}) = Add(b, a)",
        f"MatMul(MatMul(a, b), {twice.format('c')}) = MatMul(a, MatMul(b, c))",
    ):
        assert minimiser.derivable(_equation(MATRICES, text)), text
    for text in ("Add(Add(a, b), c) = Add(a, Add(b, c))", "Transpose[perm=[1, 0]](a) = Add(a, a)"):
        assert not minimiser.derivable(_equation(MATRICES, text)), text


def test_a_derivation_that_raises_the_cost_does_not_count() -> None:
    conv = "Conv[dilations=[1, 1], group=1, pads=[{0}, {0}, {0}, {0}], strides=[1, 1]]"
    small, large, pad = conv.format(0), conv.format(1), "Pad[pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0]"
    minimiser = Minimiser(Evaluator(0))
    minimiser.add(parse_rule(f"{small}(x, w) = {large}(x, {pad}(w))"))
    minimiser.add(parse_rule(f"Add({large}(x, w), {large}(x, u)) = {large}(x, Add(w, u))"))
    family = Family(
        "f",
        (
            Variable("x", (1, 2, 4, 4), "x"),
            Variable("w", (2, 2, 1, 1), "w", True),
            Variable("u", (2, 2, 3, 3), "u", True),
        ),
        (),
        1,
    )
    direct = _equation(family, f"Add({small}(x, w), {large}(x, u)) = {large}(x, Add({pad}(w), u))")
    assert not minimiser.derivable(direct)
    same = _equation(family, f"{large}(x, {pad}(w)) = {small}(x, w)")
    assert minimiser.derivable(same)


_SUM = "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]]"
_SIDE_BY_SIDE = Family(
    "f",
    (
        Variable("x", (1, 2, 2, 2), "x"),
        Variable("y", (1, 2, 2, 2), "x"),
        Variable("w", (2, 4, 3, 3), "w", True),
        Variable("b", (2,), "b", True),
    ),
    (),
    1,
    variation="conv",
)


def test_if_either_side_may_be_faster_each_is_found_from_the_other() -> None:
    merging = f"Add({_SUM}(x, w), {_SUM}(y, u, b)) = {_SUM}(Concat[axis=-3](x, y), Concat[axis=-3](w, u), b)"
    joined = "Concat[axis=i](Split[axis=i, split=n](x).0, Split[axis=i, split=n](x).1) = x"
    minimiser = Minimiser(Evaluator(0))
    for rule in (merging, joined):
        minimiser.add(parse_rule(rule))
    parts = "Split[axis=-3, split=[2, 2]](w)"
    rule = f"Add({_SUM}(x, {parts}.0), {_SUM}(y, {parts}.1, b)) = {_SUM}(Concat[axis=-3](x, y), w, b)"
    equation = _equation(_SIDE_BY_SIDE, rule)
    (apart, one), (back, _) = minimiser.directions(equation)
    assert back == one
    assert minimiser.is_found(apart, one, equation.weights)
    assert not minimiser.is_found(one, apart, equation.weights)
    assert not minimiser.derivable(equation)
    minimiser.add(parse_rule(rule.replace("[2, 2]](w)", "[x.shape[1], y.shape[1]]](w)")))
    assert minimiser.derivable(equation)


@pytest.mark.parametrize("whole", [True, False])
def test_each_form_of_a_function_is_found_in_one_step(whole: bool) -> None:
    """A search does not take apart what the runtime fuses, to make another form of it."""
    family = replace(MATRICES, targets=("a",), definitions=("a",) if whole else ())
    assert family.is_found_whole == whole
    minimiser = Minimiser(Evaluator(0))
    minimiser.add(parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))"))
    minimiser.add(parse_rule("Transpose[perm=p](Transpose[perm=p](a)) = a"))
    left, twice = "MatMul(MatMul(a, b), {})", "Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](c))"
    assert minimiser.derivable(_equation(family, f"{left.format(twice)} = {left.format('c')}"))
    assert minimiser.derivable(_equation(family, f"{left.format(twice)} = MatMul(a, MatMul(b, c))")) != whole


@pytest.mark.parametrize("defines", [True, False])
def test_a_definition_is_found_both_ways(defines: bool) -> None:
    rule = parse_rule("Log(Add(Exp(x), Ones[shape=[]])) = Softplus(x)")
    family = Family("f", (Variable("x", (2, 3), "x"),), (), 1, definitions=("Softplus(x)",) if defines else ())
    minimiser = Minimiser(Evaluator(0))
    minimiser.add(rule, one_way=True)
    assert minimiser.derivable(_equation(family, show_rule(rule))) != defines
    minimiser = Minimiser(Evaluator(0))
    minimiser.add(rule)
    assert minimiser.derivable(_equation(family, show_rule(rule)))


def test_a_large_rule_that_saves_products_is_derived_downhill_only() -> None:
    family = Family(
        "f",
        (
            Variable("x", (2, 6), "x"),
            Variable("w", (6, 6), "w", True),
            Variable("u", (6, 2), "u", True),
            Variable("t", (2, 6), "t", True),
            Variable("b", (6,), "b", True),
        ),
        (),
        1,
    )
    moved, low_rank = "Add(a, Add(b, c)) = Add(b, Add(a, c))", "Add(MatMul(x, w), MatMul(MatMul(x, u), t))"
    minimiser = Minimiser(Evaluator(0))
    minimiser.add(parse_rule(f"{low_rank} = MatMul(x, Add(w, MatMul(u, t)))"))
    minimiser.add(parse_rule(moved))
    beside = _equation(family, f"Add(b, {low_rank}) = Add(b, MatMul(x, Add(w, MatMul(u, t))))")
    assert minimiser.derivable(beside)
    between = "Add(Add(b, MatMul(x, w)), MatMul(MatMul(x, u), t)) = Add(b, MatMul(x, Add(w, MatMul(u, t))))"
    assert not minimiser.derivable(_equation(family, between))  # an operand must be moved first, which saves nothing
    minimiser.add(parse_rule(between))
    assert minimiser.derivable(_equation(family, between))


def test_another_form_of_a_known_result_is_dropped() -> None:
    parts = "Split[axis=-3, split=[2, 2]](w)"
    second = f"Add({_SUM}(x, {parts}.0), {_SUM}(y, {parts}.1, b)) = {_SUM}(Concat[axis=-3](x, y), w, b)"
    first = f"Add({_SUM}(x, {parts}.1), {_SUM}(y, {parts}.0, b)) = {_SUM}(Concat[axis=-3](y, x), w, b)"
    prover = ConjectureProver(Evaluator(0), 0)
    prover.prove_all(_equation(_SIDE_BY_SIDE, text) for text in (second, first))
    assert (prover.counts.proved, prover.counts.weak) == (1, 1)


def test_costs_count_operators_at_inference() -> None:
    types = {"x": tensor(2, 3), "w": tensor(3, 4), "u": tensor(3, 4)}
    (merged,) = parse_terms("MatMul(x, Add(w, u))", types)
    assert cost((merged,), frozenset("wu")) == EnumerationCost(2 * 4 * 3, 8.0 + 2 * 4)
    assert cost((merged,), frozenset()).other == cost((merged,), frozenset("wu")).other + 8.0 + 3 * 4


def test_large_rules_without_gain_are_weak() -> None:
    assert is_weak(_equation(MATRICES, "Add(a, Add(b, b)) = Add(b, Add(a, b))"))
    assert not is_weak(_equation(MATRICES, "Add(a, Add(b, c)) = Add(b, Add(a, c))"))
    assert not is_weak(_equation(MATRICES, "Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c))"))


def test_rules_that_match_unfolded_weights_only_are_not_usable() -> None:
    assert is_usable(parse_rule("MatMul(x, Transpose[perm=[1, 0]](w)) = MatMul(x, w)"), frozenset("w"))
    deep = "MatMul(x, Add(Transpose[perm=p](w), Transpose[perm=p](w))) = x"
    assert not is_usable(parse_rule(deep), frozenset("w"))


def test_rules_that_nothing_matches_are_not_usable() -> None:
    # The shape of a variable is known when it is bound, and no match waits for that.
    assert is_usable(parse_rule("Sub(a, a) = Zeros[shape=a.shape]"), frozenset())
    norm = "BatchNormalization[epsilon=e](a, Zeros[shape=t.shape], {}, m, v)"
    assert not is_usable(parse_rule(f"Add({norm.format('t')}, t) = {norm.format('Add(t, t)')}"), frozenset())


def test_runtime_functions_are_not_steps_between_standard_operators() -> None:
    minimiser = Minimiser(Evaluator(0))
    fused = "FusedMatMul[alpha=1.0, transA={}, transB={}]"
    minimiser.add(parse_rule(f"MatMul(Transpose[perm=p](a), b) = {fused.format(1, 0)}(a, b)"))
    minimiser.add(parse_rule(f"{fused.format(1, 0)}(a, Transpose[perm=p](b)) = {fused.format(1, 1)}(a, b)"))
    minimiser.add(parse_rule(f"Transpose[perm=p](MatMul(a, b)) = {fused.format(1, 1)}(b, a)"))
    turned = "MatMul(Transpose[perm=[1, 0]](b), Transpose[perm=[1, 0]](a))"
    assert not minimiser.derivable(_equation(MATRICES, f"{turned} = Transpose[perm=[1, 0]](MatMul(a, b))"))
    assert minimiser.derivable(_equation(MATRICES, f"{turned} = {fused.format(1, 1)}(b, a)"))


def test_a_sampling_check_finds_sizes_and_refutes_false_rules() -> None:
    check = SamplingCheck(Evaluator(0), 0)
    rule = parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_] | a[_] b[_,_] c[_]")
    assert [check.holds(rule, s) for s in rule.signatures] == [True, True]
    wrong = parse_rule("MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_] | a[] b[_,_]")
    assert [check.holds(wrong, s) for s in wrong.signatures] == [False, None]
    assert free_size_count(rule, rule.signatures[0]) == 4
    squeeze = parse_rule("Squeeze[axes=[-1]](a) = ReduceSum[axes=[-1], keepdims=0](a) @ a[_,_]")
    assert pinned(squeeze, squeeze.signatures[0]).shapes == (("a", (None, 1)),)


def test_a_tiny_grammar_gives_the_textbook_rules(tmp_path: Path) -> None:
    summary = generate(tmp_path, families=(MATRICES, LINEAR))
    rules = {show_rule(Rule(r.lhs, r.rhs)): r for r in parse_rules((tmp_path / "matrix.rules").read_text())}
    for text in (
        "MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))",
        "Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, c))",
        "Add(MatMul(a, b), MatMul(c, b)) = MatMul(Add(a, c), b)",
        "MatMul(Transpose[perm=p](a), Transpose[perm=p](b)) = Transpose[perm=p](MatMul(b, a))",
        "Transpose[perm=p](Transpose[perm=p](a)) = a",
        "Concat[axis=-1](MatMul(a, b), MatMul(a, c)) = MatMul(a, Concat[axis=-1](b, c))",
        "(MatMul(a, b), MatMul(a, c)) = "
        "(Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).0, "
        "Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).1)",
    ):
        assert text in rules, text
    ranks = {
        tuple(len(shape) for _, shape in s.shapes)
        for s in rules["MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))"].signatures
    }
    assert {(2, 2, 2), (3, 3, 3), (3, 2, 2)} <= ranks
    certificates = [one.rule for one in load_certificates(tmp_path / "certificates.jsonl")]
    assert set(certificates) == {r.id for r in rules.values()} | {
        r.id
        for r in parse_rules((tmp_path / "linear.rules").read_text() if (tmp_path / "linear.rules").exists() else "")
    }
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["total"]["rules"] == summary.total.rules == len(certificates)
    counts = written["families"]["matrix"]
    assert counts["conjectures"] == sum(
        counts[name] for name in ("derivable", "accidental", "weak", "again", "refuted", "unknown", "proved")
    )
    assert counts["rules"] == counts["proved"] - counts["redundant"] + counts["extended"]


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("first", "second"):
        generate(tmp_path / name, seed=5, families=(MATRICES,))
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("first", "second"))
    times = [json.loads(files.pop("times.json")) for files in (first, second)]
    assert first == second
    assert set(first) == {"matrix.rules", "certificates.jsonl", "refused.jsonl", "summary.json"}
    certified = {one.rule for one in load_certificates(tmp_path / "first" / "certificates.jsonl")}
    assert times[0].keys() == times[1].keys() == certified


def test_refused_rules_do_not_ship(tmp_path: Path) -> None:
    def sceptic(rule: Rule, signature: Signature) -> Verdict:
        ops = {t.op for side in (rule.lhs, rule.rhs) for t in _below(side)}
        return Refuted("I do not like Add") if "Add" in ops else decide(rule, signature)

    summary = generate(tmp_path, families=(MATRICES,), prover=sceptic)
    assert "Add" not in (tmp_path / "matrix.rules").read_text()
    refused = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert len(refused) == summary.total.refuted > 0
    assert {entry["verdict"] for entry in refused} == {"Refuted"}
    for entry in refused:
        parse_rule(f"{entry['rule']} @ {entry['signature']}")


def _below(terms: tuple[Term, ...]) -> list[Term]:
    found = list(terms)
    for term in found:
        found.extend(i for i in term.inputs if i is not None)
    return found


def test_progress_is_reported(tmp_path: Path) -> None:
    told: list[str] = []
    generate(tmp_path, progress=told.append, families=(LINEAR,))
    assert any("conjectures" in message for message in told)
