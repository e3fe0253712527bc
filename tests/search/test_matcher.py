"""The matches of rules in graphs, and the rules that are not applied."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from superopt.ir.dim import Size, floor_div, symbol
from superopt.ir.infer import make
from superopt.ir.notation import parse_rule, parse_terms
from superopt.ir.pattern import Bindings, instantiate
from superopt.ir.rule import Rule, Signature
from superopt.ir.term import Term, var
from superopt.ir.types import TensorType, tensor
from superopt.search.match import occurrence
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.occurrence import Match
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.signature_check import CheckCache
from tests.support.search_rules import believe

TYPES = {"x": tensor(2, 3), "z": tensor(2, 3), "s": tensor(2, 4)}
TYPES |= {"w": tensor(3, 4), "u": tensor(4, 5), "v": tensor(3, 6)}
MERGE = parse_rule(
    "(MatMul(a, b), MatMul(a, c)) = "
    "(Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).0,"
    " Split[axis=-1, split=[b.shape[-1], c.shape[-1]]](MatMul(a, Concat[axis=-1](b, c))).1)"
)


def found(text: str, *rules: str | Rule, types: dict[str, TensorType] | None = None) -> list[Match]:
    """Return all matches of `rules` in a graph."""
    parsed = [rule if isinstance(rule, Rule) else parse_rule(rule) for rule in rules]
    outputs = parse_terms(text, types or TYPES)
    return list(Matcher(RuleIndex(parsed)).matches(GraphIndex(outputs)))


def results(text: str, *rules: str | Rule) -> list[tuple[Term, ...]]:
    return [match.results for match in found(text, *rules)]


def test_both_directions_are_used() -> None:
    rule = "MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))"
    left, right = parse_terms("MatMul(MatMul(x, w), u)", TYPES), parse_terms("MatMul(x, MatMul(w, u))", TYPES)
    assert results("MatMul(MatMul(x, w), u)", rule) == [right]
    assert results("MatMul(x, MatMul(w, u))", rule) == [left]


def test_operands_of_commutative_operators_match_in_every_order() -> None:
    rule = "Add(MatMul(a, b), c) = Gemm[alpha=1.0, beta=1.0, transA=0, transB=0](a, b, c)"
    assert results("Add(s, MatMul(x, w))", rule) == results("Add(MatMul(x, w), s)", rule) != []


def test_a_direction_that_cannot_be_instantiated_is_not_used() -> None:
    rules = RuleIndex([parse_rule("Add(x, Zeros[shape=s]) = x")])
    (zeros,) = parse_terms("Zeros[shape=[2, 3]]", TYPES)
    assert not rules.candidates(zeros)
    for text in ("Add(x, Zeros[shape=[2, 3]])", "Add(Zeros[shape=[2, 3]], x)"):
        (term,) = parse_terms(text, TYPES)
        assert len(rules.candidates(term)) == 1  # one direction


def test_equal_rules_are_compiled_once() -> None:
    rule = parse_rule("Relu(Relu(x)) = Relu(x)")
    several = RuleIndex([rule, rule, parse_rule("Relu(Relu(y)) = Relu(y)")])
    (term,) = parse_terms("Relu(Relu(x))", TYPES)
    assert len(several.candidates(term)) == len(RuleIndex([rule]).candidates(term)) > 0


def test_two_roots_that_share_an_input_are_found_through_it_and_only_once() -> None:
    matches = found("(MatMul(x, w), MatMul(x, v))", MERGE)
    assert len(matches) == 1  # exchanging the roots would be the same rule again
    assert [root.op for root in matches[0].roots] == ["MatMul", "MatMul"]
    assert [result.op for result in matches[0].results] == ["Out", "Out"]


def test_roots_are_distinct() -> None:
    assert found("Relu(MatMul(x, w))", MERGE) == []


def test_roots_that_do_not_share_the_variable_do_not_match() -> None:
    assert found("(MatMul(x, w), MatMul(z, v))", MERGE) == []


def test_a_root_that_depends_on_the_other_would_make_a_cycle() -> None:
    types = {"x": tensor(3, 3), "w": tensor(3, 3)}
    # x.(Relu(x.w)) needs x.w, so the two products cannot become one.
    assert found("MatMul(x, Relu(MatMul(x, w)))", MERGE, types=types) == []
    assert len(found("Add(MatMul(x, Relu(w)), MatMul(x, w))", MERGE, types=types)) == 1


def test_an_output_of_a_multi_output_operator_can_be_a_root() -> None:
    rule = "Split[axis=-1, split=[1, 2]](x).0 = Slice[axes=[-1], ends=[1], starts=[0], steps=[1]](x)"
    text = "Relu(Split[axis=-1, split=[1, 2]](x).0)"
    assert [match.roots[0].op for match in found(text, rule)] == ["Out"]


def test_roots_without_a_shared_variable_are_paired_by_operator() -> None:
    rule = "(Relu(a), Relu(b)) = (Relu(Relu(a)), Relu(Relu(b)))"
    matches = found("(Relu(x), Relu(z))", parse_rule(rule).reversed())
    assert matches == []  # the reversed left side is nowhere, and the rule itself only adds work
    rule = "(Sigmoid(a), Sigmoid(b)) = (Tanh(a), Tanh(b))"
    assert len(found("(Sigmoid(x), Sigmoid(z))", rule)) == 1


def test_only_equal_types_are_exchanged() -> None:
    types = {"x": tensor(2, 3), "b": tensor(2, 3)}
    rule = "Add(x, Zeros[shape=s]) = x"
    assert len(found("Relu(Add(x, Zeros[shape=[3]]))", rule, types=types)) == 1
    assert found("Relu(Add(x, Zeros[shape=[5, 2, 3]]))", rule, types=types) == []  # x would be broadcast


def test_a_mismatch_is_not_tried_again_at_the_same_types(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def recording(patterns: Iterable[Term], bindings: Bindings, dtype: str) -> tuple[Term, ...]:
        tried.append(bindings)
        return instantiate(patterns, bindings, dtype)

    monkeypatch.setattr(occurrence, "instantiate", recording)
    types = {"x": tensor(2, 3), "y": tensor(2, 3), "z": tensor(4, 3)}
    text = "(" + ", ".join(f"Add({name}, Zeros[shape=[5, {types[name].shape[0]}, 3]])" for name in "xyz") + ")"
    assert found(text, "Add(v, Zeros[shape=s]) = v", types=types) == []
    assert len(tried) == 2  # y is as x, z is not
    tried.clear()
    fitting = "(Add(x, Zeros[shape=[3]]), Add(y, Zeros[shape=[3]]))"
    assert len(found(fitting, "Add(v, Zeros[shape=s]) = v", types=types)) == len(tried) == 2


def test_rules_apply_to_one_real_type_only() -> None:
    rule = "Add(Add(a, b), c) = Add(a, Add(b, c))"
    names = "xyz"
    assert found("Add(Add(x, y), z)", rule, types={n: tensor(2) for n in names})
    assert found("Add(Add(x, y), z)", rule, types={n: tensor(2, dtype="float16") for n in names})
    assert found("Add(Add(x, y), z)", rule, types={n: tensor(2, dtype="int64") for n in names})  # if proven for them
    assert not found("Add(Add(x, y), z)", rule, types={n: TensorType("float", None) for n in names})
    rule, types = "(Sigmoid(a), Sigmoid(b)) = (Tanh(a), Tanh(b))", {"x": tensor(2), "z": tensor(2, dtype="double")}
    assert not found("(Sigmoid(x), Sigmoid(z))", rule, types=types)


def test_constant_expressions_are_not_rewritten() -> None:
    weight = Term.of("Const", (), {"hash": "w"}, (tensor(3, 3),))
    graph = make("MatMul", (var("x", tensor(3, 3)), make("Relu", (make("Relu", (weight,)),))))
    assert list(Matcher(RuleIndex([parse_rule("Relu(Relu(a)) = Relu(a)")])).matches(GraphIndex([graph]))) == []


def test_a_rule_that_only_adds_work_is_not_applied_in_that_direction() -> None:
    assert found("Relu(x)", "Relu(Relu(a)) = Relu(a)") == []


def test_a_match_knows_what_it_covers() -> None:
    (match,) = found("MatMul(MatMul(x, w), u)", "MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))")
    assert sorted(t.op for t in match.covered) == ["MatMul", "MatMul"]
    assert {str(t.attr("name")) for t in match.touched - match.covered} == {"x", "w", "u"}
    assert sorted(t.op for t in match.created) == ["MatMul", "MatMul"]


def test_matches_near_some_terms_are_those_that_touch_them() -> None:
    texts = ["MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))", "Relu(Relu(x)) = Relu(x)"]
    rules = [*map(parse_rule, texts), MERGE]
    matcher = Matcher(RuleIndex(rules))
    graph = parse_terms("(MatMul(MatMul(x, w), u), Relu(Relu(MatMul(x, v))))", TYPES)
    index = GraphIndex(graph)
    everything = list(matcher.matches(index))
    assert {match.compiled.rule_id for match in everything} == {rule.id for rule in rules}
    for term in index.position:
        near = [match for match in everything if term in match.touched]
        assert list(matcher.matches(index, frozenset({term}))) == near
    one = everything[0].compiled
    assert list(matcher.matches(index, wanted=lambda compiled: compiled is one)) == everything[:1]


def test_checks_are_asked_once_for_each_rule_and_signature() -> None:
    asked: list[Rule] = []

    def check(rule: Rule, bindings: Bindings) -> Signature | None:
        asked.append(rule)
        return believe(rule, bindings)

    cache = CheckCache(check)
    rule = "MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))"
    for name in "xz":  # other terms, same sizes
        (match,) = found(f"MatMul(MatMul({name}, w), u)", rule)
        assert cache(match.compiled.rule, match.bindings) is not None
    assert len(asked) == 1
    (match,) = found("MatMul(MatMul(x, w), u)", rule, types={n: tensor(3, 3, dtype="int64") for n in "xwu"})
    assert cache(match.compiled.rule, match.bindings) is not None
    assert len(asked) == 2


def test_rules_that_add_unbounded_exponentials_are_not_applied() -> None:
    """e^89 is no float32: the sides are equal over the reals, and one of them may be NaN in floating point."""
    softmax = "Div(Exp(a), ReduceSum[axes=[1], keepdims=1](Exp(a))) = Softmax[axis=1](a)"
    assert len(results("Div(Exp(x), ReduceSum[axes=[1], keepdims=1](Exp(x)))", softmax)) == 1
    assert not results("Softmax[axis=1](x)", softmax)
    product = "Mul(Exp(x), Exp(y)) = Exp(Add(x, y))"
    assert results("Mul(Exp(x), Exp(z))", product)
    assert not results("Exp(Add(x, z))", product)


@pytest.mark.parametrize(
    ("exponent", "safe"),
    [
        ("Sub(a, ReduceMax[axes=[1], keepdims=1](a))", True),
        ("Sub(a, Sub(ReduceMax[axes=[1], keepdims=1](a), Constant[shape=[], value_floats=[44.0]]))", True),
        ("Sub(a, Sub(ReduceMax[axes=[1], keepdims=1](a), Constant[shape=[], value_floats=[45.0]]))", False),
        ("Sub(a, Sub(ReduceMax[axes=[1], keepdims=1](a), b))", False),
        ("Sub(a, Add(ReduceMax[axes=[1], keepdims=1](a), Constant[shape=[], value_floats=[1.0]]))", False),
        ("Sub(a, ReduceMax[axes=[1], keepdims=1](b))", False),
        ("Sub(a, ReduceMax[axes=[1], keepdims=0](a))", False),
        ("Sub(a, ReduceMin[axes=[1], keepdims=1](a))", False),
        ("Sub(ReduceMax[axes=[1], keepdims=1](a), a)", False),
    ],
)
def test_a_difference_from_the_largest_may_be_exponentiated(exponent: str, safe: bool) -> None:
    types = {"x": tensor(2, 2), "z": tensor(2, 2)}
    matches = found("Sub(Softmax[axis=1](x), z)", f"Sub(Softmax[axis=1](a), b) = Sub(Exp({exponent}), b)", types=types)
    assert bool(matches) is safe and all(match.compiled.is_denormal_rule for match in matches)


@pytest.mark.parametrize(
    ("before", "rule"),
    [
        ("MatMul(Mul(x, h), w)", "MatMul(Mul(a, s), b) = Mul(MatMul(a, b), s)"),
        ("Mul(MatMul(x, w), h)", "Mul(MatMul(a, b), s) = MatMul(Mul(a, s), b)"),
        (
            "MatMul(Transpose[perm=[1, 0]](Div(t, h)), w)",
            "MatMul(Transpose[perm=p](Div(a, s)), b) = Div(MatMul(Transpose[perm=p](a), b), s)",
        ),
        (
            "ReduceSum[axes=[1], keepdims=1](Mul(x, h))",
            "ReduceSum[axes=i, keepdims=1](Mul(a, s)) = Mul(ReduceSum[axes=i, keepdims=1](a), s)",
        ),
        (  # Expand was missing in a list of operators that only move data
            "MatMul(Expand[shape=[2, 3]](Mul(v, h)), w)",
            "MatMul(Expand[shape=n](Mul(a, s)), b) = Mul(MatMul(Expand[shape=n](a), b), s)",
        ),
        (  # CumSum was missing in a list of sums
            "CumSum[axis=1, exclusive=0, reverse=0](Mul(x, h))",
            "CumSum[axis=i, exclusive=0, reverse=0](Mul(a, s)) = Mul(CumSum[axis=i, exclusive=0, reverse=0](a), s)",
        ),
    ],
)
def test_in_float16_factors_stay_on_their_side_of_sums(before: str, rule: str) -> None:
    """The largest float16 is 65504: q k may overflow where (q s) k does not."""
    shapes = {"x": (2, 3), "t": (3, 2), "v": (1, 3), "w": (3, 4), "h": ()}
    for dtype, count in (("float16", 0), ("bfloat16", 1), ("float", 1)):
        types = {name: TensorType(dtype, shape) for name, shape in shapes.items()}
        assert len(found(before, rule, types=types)) == count


def test_in_float16_factors_of_weights_and_beside_sums_move() -> None:
    """The largest value of a constant is known when it is folded."""
    x, y = (var(name, TensorType("float16", shape)) for name, shape in (("x", (2, 3)), ("y", (2, 4))))
    weight, scale = (
        Term.of("Const", (), {"hash": name}, (TensorType("float16", shape),))
        for name, shape in (("w", (3, 4)), ("s", ()))
    )
    folded = parse_rule("Mul(MatMul(a, b), s) = MatMul(a, Mul(b, s))")
    moved = parse_rule("Mul(Mul(a, s), b) = Mul(a, Mul(s, b))")
    for graph, rule in (
        (make("Mul", (make("MatMul", (x, weight)), scale)), folded),
        (make("Mul", (make("Mul", (y, scale)), y)), moved),
    ):
        assert list(Matcher(RuleIndex([rule])).matches(GraphIndex((graph,))))


def test_a_root_that_stays_is_a_condition() -> None:
    """(f(x), h(x)) = (f(x), g(f(x))) applies where f(x) is there, and f(x) = g(f(x)) does not."""
    inner, whole, outer = (
        f"MaxPool[dilations=[1, 1], kernel_shape={kernel}, pads=[0, 0, 0, 0], strides=[1, 1]]"
        for kernel in ("k", "l", "[l[0] - k[0] + 1, l[1] - k[1] + 1]")
    )
    rule = f"({inner}(x), {whole}(x)) = ({inner}(x), {outer}({inner}(x)))"
    types = {"x": tensor(1, 2, 9, 9)}

    def pool(size: int, operand: str = "x") -> str:
        return f"MaxPool[dilations=[1, 1], kernel_shape=[{size}, {size}], pads=[0, 0, 0, 0], strides=[1, 1]]({operand})"

    expected = parse_terms(f"({pool(2)}, {pool(4, pool(2))})", types)
    graph = f"({pool(5)}, {pool(2)})"
    assert expected in [match.results for match in found(graph, rule, types=types)]
    assert found(f"Relu({pool(5)})", rule, types=types) == []
    assert found(f"Relu({pool(5)})", f"{inner}(x) = {outer}({inner}(x))", types=types) == []


@pytest.mark.parametrize(
    ("size", "count"),
    [(symbol("H"), 1), (floor_div(symbol("H") - 1, 2) + 1, 1), (symbol("H") - 1, 0), (symbol("unk__0"), 0)],
)
def test_no_window_slides_over_an_image_that_may_be_empty(size: Size, count: int) -> None:
    """ONNX Runtime runs a Mul of no rows, and refuses a Conv of none."""
    rule = "Mul(c, x) = Conv[dilations=[1, 1], group=x.shape[1], pads=[0, 0, 0, 0], strides=[1, 1]]"
    rule += "(x, Unsqueeze[axes=[-3]](c))"
    types = {"c": tensor(3, 1, 1), "x": tensor(symbol("N"), 3, size, 5)}
    assert len(found("Mul(c, x)", rule, types=types)) == count
    empty_batch = {"c": tensor(3, 1, 1), "x": tensor(symbol("unk__0"), 3, 4, 5)}
    assert len(found("Mul(c, x)", rule, types=empty_batch)) == 1


@pytest.mark.parametrize(("batch", "count"), [(2, 1), (symbol("n"), 1), (symbol("unk__0"), 0)])
def test_no_batch_that_may_be_empty_is_rotated(batch: Size, count: int) -> None:
    angles = tensor(batch, 7, 4)
    types = {"x": tensor(batch, 3, 7, 8), "c": angles, "s": angles}
    written = (
        "Concat[axis=-1](Sub(Mul(Unsqueeze[axes=[-3]](c), Split[axis=-1, split=[4, 4]](x).0),"
        " Mul(Unsqueeze[axes=[-3]](s), Split[axis=-1, split=[4, 4]](x).1)),"
        " Add(Mul(Unsqueeze[axes=[-3]](c), Split[axis=-1, split=[4, 4]](x).1),"
        " Mul(Unsqueeze[axes=[-3]](s), Split[axis=-1, split=[4, 4]](x).0)))"
    )
    rule = f"{written} = RotaryEmbedding[interleaved=0, num_heads=0](x, c, s)"
    assert len(found(written, rule, types=types)) == count


@pytest.mark.parametrize(("size", "count"), [(symbol("N"), 1), (symbol("N") - 1, 0), (symbol("unk__0"), 0)])
def test_no_reshape_works_out_a_size_of_a_tensor_that_may_be_empty(size: Size, count: int) -> None:
    """Beside a size of 0, the size that -1 stands for could be any number, and ONNX Runtime refuses it."""
    types = {"x": tensor(size, 3, 5)}
    assert len(found("Flatten[axis=1](x)", "Flatten[axis=1](x) = Reshape[shape=[0, -1]](x)", types=types)) == count
    merged = "Reshape[shape=[0, -1]](Relu(x)) = Relu(Reshape[shape=[0, -1]](x))"
    assert len(found("Reshape[shape=[0, -1]](Relu(x))", merged, types=types)) == 1


def test_a_window_may_slide_where_another_one_did() -> None:
    pool = "MaxPool[dilations=[1, 1], kernel_shape=[1, 1], pads=[0, 0, 0, 0], strides=[1, 1]]"
    types = {"c": tensor(3, 1, 1), "x": tensor(2, 3, symbol("unk__0"), 5)}
    rule = "Relu(MaxPool[dilations=d, kernel_shape=k, pads=p, strides=s](x)) = "
    rule += "MaxPool[dilations=d, kernel_shape=k, pads=p, strides=s](Relu(x))"
    assert len(found(f"Relu({pool}(x))", rule, types=types)) == 1
    smaller = "MaxPool[dilations=d, kernel_shape=k, pads=p, strides=s](Tile[repeats=[1, 1, 2, 1]](x)) = "
    smaller += "Tile[repeats=[1, 1, 2, 1]](MaxPool[dilations=d, kernel_shape=k, pads=p, strides=s](x))"
    assert len(found(f"{pool}(Tile[repeats=[1, 1, 2, 1]](x))", smaller, types=types)) == 1


def test_a_window_may_slide_over_the_result_of_another_one() -> None:
    rule = "Mul(c, x) = Conv[dilations=[1, 1], group=x.shape[1], pads=[0, 0, 0, 0], strides=[1, 1]]"
    rule += "(x, Unsqueeze[axes=[-3]](c))"
    types = {"c": tensor(3, 1, 1), "x": tensor(2, 3, symbol("unk__0"), 5)}
    pool = "MaxPool[dilations=[1, 1], kernel_shape=[1, 1], pads=[0, 0, 0, 0], strides=[1, 1]]"
    assert len(found(f"Mul(c, Relu({pool}(x)))", rule, types=types)) == 1
    assert not found("Mul(c, Relu(x))", rule, types=types)


@pytest.mark.parametrize(("batch", "count"), [(symbol("b"), 0), (5, 1)])
def test_no_weight_of_a_free_size_is_made(batch: Size, count: int) -> None:
    """It would be made in every run, as no file can hold it, and seem to cost nothing."""
    weight = Term.of("Const", (), {"hash": "w"}, (tensor(3, 4),))
    product = make("MatMul", (var("x", tensor(batch, 2, 3)), weight))
    rule = parse_rule("MatMul(q, v) = MatMul(q, Expand[shape=[q.shape[-3], q.shape[-1], v.shape[-1]]](v))")
    assert len(list(Matcher(RuleIndex([rule])).matches(GraphIndex([product])))) == count
