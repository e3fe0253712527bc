"""The second opinion: scripts that stand by themselves, and cvc5's own word on them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable

import pytest
import z3

from superopt.ir.dim import floor_div, symbol
from superopt.ir.notation import parse_rule, show_rule
from superopt.ir.rule import Rule, Signature
from superopt.ops.algebra import Guard, at_least
from superopt.rulebook.loading import load_rules
from tests.support.sampling import Sampled
from verify.diagnose.decide import decide
from verify.diagnose.second_opinion import Opinion, SecondSolverMissing, ask_cvc5, cvc5_version, script, second_opinion
from verify.prove.facts import Facts, Query, Shared
from verify.verdict import Proved

a, b, c = (symbol(f"{name}.shape[0]") for name in "abc")
POSITIVE = (at_least(a, 1), at_least(b, 1), at_least(c, 1))


def _heard(rule: str) -> list[Query]:
    """The queries behind the proof of `rule` at its signature."""
    parsed, heard = parse_rule(rule), list[Query]()
    assert isinstance(decide(parsed, parsed.signatures[0], heard.append), Proved)
    return heard


def test_unsatisfiable_answers_are_heard_and_no_others() -> None:
    heard: list[Query] = []
    facts = Facts((*POSITIVE, Guard("<=", b - a), Guard("<=", c - b)), Shared(heard.append))
    assert not facts.entails(Guard("<=", a - b))
    assert heard == []
    assert facts.extended([Guard("<=", c - 5)]).entails(Guard("<=", c - a))
    assert [query.goal for query in heard] == [Guard("<=", c - a)]
    assert heard[0].facts[-1] == Guard("<=", c - 5)


def test_observing_changes_nothing() -> None:
    for rule in load_rules()[::96]:
        assert decide(rule, rule.signatures[0], lambda query: None) == decide(rule, rule.signatures[0])


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (Query(POSITIVE, Guard("<=", a * b - 1), True), "unsat"),
        (Query(POSITIVE, Guard("<=", a * b - 1), False), "sat"),  # the product is an unknown of its own
        (Query(POSITIVE, Guard("<=", a - b), True), "sat"),
        (Query(POSITIVE, Guard("<=", a - floor_div(a, b)), True), "unsat"),
        (Query((*POSITIVE, Guard("==", a)), None, True), "unsat"),
        (Query(POSITIVE, None, True), "sat"),
        (Query((), Guard("==", a - b), True), "sat"),
    ],
)
def test_scripts_mean_the_query(query: Query, answer: str) -> None:
    """To both solvers, cvc5 and Z3's own reader; every name that is used is declared."""
    text = script(query)
    solver = z3.Solver(ctx=z3.Context())
    solver.from_string(text)
    assert str(solver.check()) == answer
    assert ask_cvc5(text) == answer
    used = set(re.findall(r"\|[^|]*\|", text))
    assert used <= set(re.findall(r"declare-fun (\|[^|]*\|)", text))
    assert any("product" in name for name in used) == (not query.exact)


def test_scripts_hold_the_question_not_the_answer() -> None:
    """Z3 simplifies what it is given while it solves; a script taken from it then says `false`."""
    heard = _heard("Concat[axis=-1](Concat[axis=-1](x, y), z) = Concat[axis=-1](x, y, z) @ x[_,_] y[_,_] z[_,_]")
    assert heard
    for query in heard:
        assert "false" not in script(query)
        assert script(query).count("(assert") == len(query.facts) + (query.goal is not None)


@pytest.mark.slow
def test_cvc5_agrees_on_a_sample_of_the_shipped_rules() -> None:
    """It agrees on every query that it decides fast: not on products of three sizes, nor on windows of windows."""
    queries: list[Query] = []
    for rule in load_rules()[1::12]:
        if not re.search("dilations=dl2|Resize", show_rule(rule)):
            decide(rule, rule.signatures[0], queries.append)
    easy = [query for query in queries if "(* (* (*" not in script(query)]
    assert len(easy) > len(queries) * 0.9 > 200
    opinion = second_opinion(easy)
    assert opinion == Opinion(opinion.queries, opinion.queries, 0)


def _assert_not_contradicted(rule: Rule, signatures: Iterable[Signature]) -> None:
    queries: list[Query] = []
    for signature in signatures:
        decide(rule, signature, queries.append)
    assert second_opinion(queries).contradicted == (), show_rule(rule)


@pytest.mark.slow
def test_cvc5_contradicts_none_of_many_shipped_rules(sampled: Sampled) -> None:
    rules = sampled(load_rules(), 32)
    assert len(rules) > 90
    for rule in rules:
        _assert_not_contradicted(rule, rule.signatures[:1])


@pytest.mark.long
def test_cvc5_agrees_on_all_shipped_rules() -> None:
    for rule in load_rules():
        _assert_not_contradicted(rule, rule.signatures)


def test_quotients_of_equal_sizes_need_more_than_one_strategy() -> None:
    conv = "Conv[dilations=dl, group=g, pads=p, strides=st]"
    heard = _heard(
        f"Add({conv}(x, w), {conv}(x, u)) = {conv}(x, Add(w, u))"
        " @ u[_,_,_,_] w[_,_,_,_] x[_,_,_,_] dl=[_,_] g=_ p=[_,_,_,_] st=[_,_]"
    )
    opinion = second_opinion(heard)
    assert opinion.agreed == opinion.queries > 0


def test_contradiction_and_silence_are_no_agreement() -> None:
    queries = [Query(POSITIVE, Guard("<=", x * y - 1), True) for x, y in ((a, b), (b, c), (a, c), (a, b))]
    answers = iter(["unsat", "sat", "unknown"])
    opinion = second_opinion(queries, lambda script: next(answers))
    assert opinion == Opinion(3, 1, 1, (script(queries[1]),))


def test_a_script_that_cannot_be_read_is_no_answer() -> None:
    with pytest.raises(RuntimeError):
        ask_cvc5("(set-logic QF_NIA)\n(assert (> x 1))\n(check-sat)\n")


def test_cvc5_is_named_or_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"cvc5 \d+\.\d+.*", cvc5_version())
    monkeypatch.setitem(sys.modules, "cvc5", None)
    with pytest.raises(SecondSolverMissing, match="not installed"):
        cvc5_version()
