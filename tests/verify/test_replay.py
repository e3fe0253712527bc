"""Replay accepts a trace of proven steps and nothing else."""

from __future__ import annotations

from dataclasses import replace as altered

import pytest

from superopt.ir.dim import Size, floor_div, symbol
from superopt.ir.infer import make, replace
from superopt.ir.notation import parse_rule, parse_terms
from superopt.ir.pattern import Bindings, instantiate, match
from superopt.ir.rule import Condition, Rule
from superopt.ir.term import Term, var
from superopt.ir.trace import Application, Rewrite, Step, Trace
from superopt.ir.types import tensor
from verify.proof_book import ProofBook
from verify.replay import ReplayError, replay, with_general_sizes

TYPES = {"x": tensor(2, 3), "w": tensor(3, 4), "u": tensor(4, 5), "y": tensor(2, 3)}
ASSOCIATE = parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]")


def _region() -> tuple[Term, ...]:
    return parse_terms("MatMul(MatMul(x, w), u)", TYPES)


def _rewrite(rule: Rule = ASSOCIATE) -> Rewrite:
    before = _region()
    bindings = match(rule.lhs, before)
    assert bindings is not None
    return Rewrite(before, (Step(rule, rule.signatures[0], before),), instantiate(rule.rhs, bindings, "float"))


def _application(rewrite: Rewrite, **leaves: str) -> Application:
    named = {"x": "x", "w": "w", "u": "u", **leaves}
    pairs = ((parse_terms(a, TYPES)[0], parse_terms(b, TYPES)[0]) for a, b in named.items())
    return Application(rewrite, tuple(pairs))


def test_a_proven_step_is_replayed_everywhere_it_is_applied() -> None:
    graph = parse_terms("(Relu(MatMul(MatMul(x, w), u)), Neg(MatMul(MatMul(Relu(y), w), u)))", TYPES)
    trace = Trace((_application(_rewrite()), _application(_rewrite(), x="Relu(y)")))
    expected = parse_terms("(Relu(MatMul(x, MatMul(w, u))), Neg(MatMul(Relu(y), MatMul(w, u))))", TYPES)
    assert replay(graph, trace, ProofBook()) == expected


def test_applications_may_build_on_each_other() -> None:
    types = {**TYPES, "w": tensor(3, 3), "u": tensor(3, 3)}
    before = parse_terms("MatMul(MatMul(x, w), u)", types)
    after = parse_terms("MatMul(x, MatMul(w, u))", types)
    rewrite = Rewrite(before, (Step(ASSOCIATE, ASSOCIATE.signatures[0], before),), after)
    leaf = {name: parse_terms(name, types)[0] for name in "xwu"}
    inner = Application(rewrite, tuple((leaf[n], leaf[n]) for n in "xwu"))
    middle = parse_terms("Relu(MatMul(MatMul(x, w), u))", types)[0]
    outer = Application(rewrite, ((leaf["x"], middle), (leaf["w"], leaf["w"]), (leaf["u"], leaf["u"])))
    graph = parse_terms("MatMul(MatMul(Relu(MatMul(MatMul(x, w), u)), w), u)", types)
    expected = parse_terms("MatMul(Relu(MatMul(x, MatMul(w, u))), MatMul(w, u))", types)
    assert replay(graph, Trace((inner, outer)), ProofBook()) == expected


def test_a_false_rule_is_refused() -> None:
    types = {"x": tensor(3, 3), "w": tensor(3, 3)}
    rule = parse_rule("MatMul(a, b) = MatMul(b, a) @ a[_,_] b[_,_]")
    before, after = parse_terms("MatMul(x, w)", types), parse_terms("MatMul(w, x)", types)
    leaves = tuple((leaf, leaf) for leaf in before[0].inputs if leaf is not None)
    trace = Trace((Application(Rewrite(before, (Step(rule, rule.signatures[0], before),), after), leaves),))
    with pytest.raises(ReplayError, match="not proven"):
        replay(before, trace, ProofBook())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: altered(r, after=parse_terms("MatMul(x, MatMul(w, Neg(u)))", TYPES)), "do not end"),
        (lambda r: altered(r, steps=()), "do not end"),
        (lambda r: altered(r, before=parse_terms("Neg(MatMul(MatMul(x, w), Neg(u)))", TYPES)), "not in the graph"),
        (lambda r: altered(r, steps=r.steps * 2), "not in the graph"),
        (lambda r: altered(r, steps=(altered(r.steps[0], rule=ASSOCIATE.reversed()),)), "does not match"),
    ],
)
def test_a_tampered_trace_is_refused(change, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ReplayError, match=message):
        replay(_region(), Trace((_application(change(_rewrite())),)), ProofBook())


def test_a_leaf_must_have_the_type_of_what_it_stands_for() -> None:
    wrong = parse_terms("z", {"z": tensor(7, 3)})[0]
    pairs = [(a, wrong if a.attrs[0][1] == "x" else b) for a, b in _application(_rewrite()).leaves]
    with pytest.raises(ReplayError, match="type"):
        replay(_region(), Trace((Application(_rewrite(), tuple(pairs)),)), ProofBook())


def test_a_region_that_is_not_in_the_graph_is_refused() -> None:
    with pytest.raises(ReplayError, match="not in the graph"):
        replay(_region(), Trace((_application(_rewrite(), x="Neg(y)"),)), ProofBook())


def test_the_same_place_cannot_be_rewritten_twice() -> None:
    with pytest.raises(ReplayError, match="twice"):
        replay(_region(), Trace((_application(_rewrite()), _application(_rewrite()))), ProofBook())


@pytest.mark.parametrize(("source", "joined"), [("float", False), ("int32", True)])
def test_casts_that_the_runtime_would_merge_are_not_joined(source: str, joined: bool) -> None:
    """ONNX Runtime casts 3e9 to int32 at once, where int64 is in between and would wrap."""
    rule = parse_rule("Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](a)) = a @ a:int64[_,_]")
    x, y = var("x", tensor(2, 3, dtype=source)), var("y", tensor(2, 3, dtype="int64"))
    twice = parse_terms("Transpose[perm=[1, 0]](Transpose[perm=[1, 0]](y))", {"y": tensor(2, 3, dtype="int64")})
    wide = make("Cast", (x,), {"to": "int64"})
    graph = make("Cast", replace(twice, {y: wide}), {"to": "int32"})
    rewrite = Rewrite(twice, (Step(rule, rule.signatures[0], twice),), (y,))
    trace = Trace((Application(rewrite, ((y, wide),)),))
    if joined:
        assert replay((graph,), trace, ProofBook()) == (make("Cast", (wide,), {"to": "int32"}),)
    else:
        with pytest.raises(ReplayError, match="merge"):
            replay((graph,), trace, ProofBook())


def test_a_leaf_has_no_meaning_of_its_own() -> None:
    """Else zeros, of which a rule may be proven, could stand for any value."""
    zeros = parse_terms("Zeros[shape=[2, 3]]")[0]
    rewrite = _rewrite()
    changed = replace(rewrite.before, {parse_terms("x", TYPES)[0]: zeros})
    pairs = [(zeros if a.attrs[0][1] == "x" else a, b) for a, b in _application(rewrite).leaves]
    trace = Trace((Application(Rewrite(changed, (), changed), tuple(pairs)),))
    with pytest.raises(ReplayError, match="a meaning of its own"):
        replay(_region(), trace, ProofBook())


N, M = symbol("n"), symbol("m")
HALF = floor_div(N - 1, 2) + 1  # sizes of a Conv with strides of 2, of pads 1 and a kernel of 3


@pytest.mark.parametrize(
    ("size", "relation", "holds"),
    [
        (HALF - 1, "<=", True),
        (floor_div(HALF - 1, 2), "<=", True),
        (floor_div(N - 2, 2), "<=", False),  # -1 at n = 1
        (floor_div(N, 2) - 1, "<=", False),
        (floor_div(N, 2) * M, "<=", True),
        (floor_div(N - M, 2), "<=", False),
        (HALF - floor_div(N - 1, 2) - 1, "==", True),
        (HALF - floor_div(M - 1, 2) - 1, "==", False),
    ],
)
def test_conditions_on_quotients_hold_if_they_hold_for_all_of_them(size: Size, relation: str, holds: bool) -> None:
    bindings = with_general_sizes(Bindings({"x": var("x", tensor(symbol("q0"), size))}))
    condition = Condition(relation, 0, symbol("x.shape[1]"))
    assert condition.holds(bindings.shape_env()) == holds


def test_equal_quotients_are_one_size_and_others_are_not() -> None:
    given = Bindings({"x": var("x", tensor(symbol("q0"), HALF, HALF))}, {"shape": (HALF, floor_div(M, 2), 3)})
    found = with_general_sizes(given)
    type = found.terms["x"].type
    assert type is not None and type.shape is not None
    first, one, other = type.shape
    shape = found.attrs["shape"]
    assert isinstance(shape, tuple)
    assert first == symbol("q0") != one == other == shape[0] != shape[1] != symbol("q0") - 1
    assert shape[2] == 3 and given.terms["x"].type == tensor(symbol("q0"), HALF, HALF)


def test_a_rule_is_proven_at_an_axis_of_strides() -> None:
    rule = parse_rule(
        "Relu(MaxPool[dilations=[1, 1], kernel_shape=[1, 1], pads=[0, 0, 0, 0], strides=[1, 1]](x)) ="
        " MaxPool[dilations=[1, 1], kernel_shape=[1, 1], pads=[0, 0, 0, 0], strides=[1, 1]](Relu(x)) @ x[_,_,_,_]"
    )
    bindings = Bindings({"x": var("x", tensor(1, 8, HALF, HALF))})
    assert ProofBook().check(rule, bindings) is None
    assert ProofBook().check(rule, with_general_sizes(bindings)) is not None
    bindings = Bindings({"x": var("x", tensor(1, 8, floor_div(N - 2, 2) + 1, HALF))})  # of no elements at n = 1
    assert ProofBook().check(rule, with_general_sizes(bindings)) is None


def test_what_is_known_of_sizes_counts() -> None:
    """A window of 2 fits, so there is one at least. One of 3 fits, so one of 2 does."""
    half, longer = floor_div(N, 2), floor_div(N - 3, 2) + 1
    given = Bindings({"x": var("x", tensor(half, longer))})
    for known, holds in (((), [False, False]), ((N - 2,), [True, False]), ((N - 3,), [True, True])):
        env = with_general_sizes(given, known).shape_env()
        assert [Condition("<=", 1, symbol(f"x.shape[{k}]")).holds(env) for k in range(2)] == holds


def test_a_quotient_that_is_known_not_to_be_negative() -> None:
    third = floor_div(N - 2, 3)
    given = Bindings({"x": var("x", tensor(third + 1))})
    for known, holds in (((), False), ((third,), True), ((floor_div(N - 2, 4),), False)):
        env = with_general_sizes(given, known).shape_env()
        assert Condition("<=", 1, symbol("x.shape[0]")).holds(env) is holds


def test_a_size_is_at_least_what_a_window_needs() -> None:
    given = Bindings({"x": var("x", tensor(N, 3))}, {"k": N})
    for known, least in (((), 1), ((N - 4, N - 2), 4), ((N - 1,), 1), ((2 * N - 8, symbol("m") - 5), 1)):
        found = with_general_sizes(given, known)
        env = found.shape_env()
        assert [Condition("<=", k, symbol("x.shape[0]")).holds(env) for k in (least, least + 1)] == [True, False]
        assert found.attrs["k"] == env["x.shape[0]"]
