"""Cutting a model into regions, and applying results wherever a region occurs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from superopt.ir.dim import symbol
from superopt.ir.infer import make, remake, replace
from superopt.ir.term import Term, topological, var
from superopt.ir.trace import Application, Rewrite, Trace
from superopt.ir.types import TensorType, tensor
from superopt.search.apply import AppliedTrace
from superopt.search.region import Region, canonical, operators_in_order
from superopt.search.strategy.cuts import cut_into_regions, cut_positions
from tests.support.search_graphs import Graphs, image, operators

ALL = frozenset({"Conv", "BatchNormalization", "Add", "Relu", "MatMul", "Mul", "Split", "Concat", "Sub"})


def regions_of(*outputs: Term, position: dict[Term, int] | None = None) -> list[Region]:
    return cut_into_regions(outputs, operators_in_order(outputs, position or {}), ALL)[0]


def network(blocks: int) -> Term:
    graphs = Graphs()
    x = image()
    for _ in range(blocks):
        x = graphs.mobileone(x, 8, 3, 8, 3, True)
    return x


def test_equal_blocks_are_one_region() -> None:
    found = regions_of(network(5))
    assert len(found) == 5
    assert len({region.outputs for region in found}) == 1


def test_regions_end_where_one_value_is_live_and_not_before_an_activation() -> None:
    for region in regions_of(network(3)):
        assert len(region.outputs) == 1 and region.outputs[0].op == "Relu"
        assert [leaf.op for leaf, _ in region.leaves].count("Var") == 1


def test_a_later_pass_knows_where_an_earlier_one_has_cut() -> None:
    graph = network(4)
    order = operators_in_order((graph,), {})
    first, cuts = cut_into_regions((graph,), order, ALL)
    assert not any(region.seams for region in first)
    later, _ = cut_into_regions((graph,), order, ALL, cuts)
    for region in later:
        assert region.seams <= set(topological(region.outputs)) - {term for term, _ in region.leaves}
        # A region of the first pass ends with a Relu: what reads one, or is read by one, is at a seam.
        inside = [t for t in topological(region.outputs) if t.op == "Relu" and t not in region.outputs]
        assert inside and region.seams.issuperset(inside)
        assert {t for relu in inside for t in relu.inputs if t and t.op != "Var"} <= region.seams
        assert not any(seam.is_constant for seam in region.seams)


def test_weights_become_placeholders_and_closed_forms_stay() -> None:
    graphs = Graphs()
    x = image()
    zero = make("Zeros", (), {"shape": (8, 1, 1)})
    (region,) = regions_of(make("Add", (graphs.conv(x, 3, 8), zero)))
    consts = [t for t in topological(region.outputs) if t.is_constant]
    assert {t.op for t in consts} == {"Const", "Zeros"}
    assert [str(t.attr("hash")) for t in consts if t.op == "Const"] == ["weight:0"]


def test_a_weight_computed_from_weights_is_a_weight() -> None:
    """Two exports of one model, with the Transpose of a weight folded or not, are the same region."""
    graphs = Graphs()
    x = var("x", tensor(2, 3))
    weights = [
        graphs.const(3, 4),
        make("Transpose", (graphs.const(4, 3),), {"perm": (1, 0)}),
        Term.of("Reciprocal", (graphs.const(3, 4),), {}, (tensor(3, 4),)),
    ]
    found = [regions_of(make("MatMul", (x, weight)))[0] for weight in weights]
    assert len({region.outputs for region in found}) == 1
    for region in found:
        assert replace(region.outputs, dict(region.leaves)) == region.originals


def test_what_is_computed_from_closed_forms_stays_visible() -> None:
    zeros = make("Transpose", (make("Zeros", (), {"shape": (4, 3)}),), {"perm": (1, 0)})
    (region,) = regions_of(make("Add", (var("x", tensor(3, 4)), zeros)))
    assert [t.op for t in topological(region.outputs) if t.is_constant] == ["Zeros", "Transpose"]


def test_the_order_is_the_models_own() -> None:
    x, y = var("x", tensor(2, 2)), var("y", tensor(2, 2))
    first, second = make("Relu", (y,)), make("Relu", (x,))
    last = make("Add", (second, first))
    assert operators_in_order([last], {first: 0, second: 1, last: 2}) == [first, second, last]
    assert operators_in_order([last], {first: 1, second: 0, last: 2}) == [second, first, last]


def test_a_new_operator_comes_just_before_its_first_user() -> None:
    x, y = var("x", tensor(2, 2)), var("y", tensor(2, 2))
    early, new = make("Relu", (x,)), make("Tanh", (y,))
    user = make("Add", (new, early))
    after = make("Relu", (user,))
    middle = make("Sigmoid", (early,))
    outputs = [after, middle]
    order = operators_in_order(outputs, {early: 0, middle: 1, user: 2, after: 3})
    assert order == [early, middle, new, user, after]


def test_outputs_of_an_operator_belong_to_it() -> None:
    x = var("x", tensor(4, 6))
    split = make("Split", (x,), {"axis": -1, "split": (2, 4)})
    outputs = (make("Relu", (split.out(0),)), make("Relu", (split.out(1),)))
    assert operators_in_order(outputs, {}) == [split, *outputs]
    (region,) = regions_of(*outputs)
    assert len(region.outputs) == 2


def test_regions_without_an_operator_of_a_rule_are_skipped() -> None:
    x = var("x", tensor(2, 2))
    opaque = Term.of("Hardmax", (x,), {"axis": -1}, (tensor(2, 2),))
    assert regions_of(opaque) == []


def test_random_operators_are_carried_but_never_shared() -> None:
    x = var("x", tensor(2, 2))
    noise = [Term.of("RandomNormalLike", (x,), {"node": k}, (tensor(2, 2),)) for k in range(2)]
    found = regions_of(make("Add", (noise[0], noise[1])))
    assert operators(found[0].outputs).count("RandomNormalLike") == 2


def test_a_type_that_the_file_knows_better_survives() -> None:
    """Type inference here takes two sizes to be equal that may be broadcast. The file's type stays."""
    n, m, k = symbol("n"), symbol("m"), symbol("k")
    x, y = var("x", TensorType("float", (n, 4))), var("y", TensorType("float", (m, 4)))
    total = Term.of("Add", (x, y), {}, (TensorType("float", (k, 4)),))
    last = make("Relu", (total,))
    (region,) = regions_of(last)
    assert replace(region.outputs, dict(region.leaves)) == (last,)
    assert remake(total, (make("Identity", (x,)), y)).type == total.type


def test_a_result_is_its_own_canonical_form() -> None:
    (region,) = regions_of(network(1))
    assert canonical(region.outputs) == region.outputs


def test_a_trace_is_applied_everywhere_and_the_terms_above_are_remade() -> None:
    outputs = (network(3),)
    found = regions_of(*outputs)
    region = found[0].outputs
    (leaf,) = [leaf for leaf, _ in found[0].leaves if leaf.op == "Var"]
    rewrite = Rewrite(region, (), (make("Relu", (make("Sigmoid", (leaf,)),)),))
    trace = Trace(tuple(Application(rewrite, r.leaves) for r in found))
    assert operators(AppliedTrace(outputs, trace, {}).outputs) == ["Sigmoid", "Relu"] * 3
    some = Trace((trace.applications[1],))
    assert operators(AppliedTrace(outputs, some, {}).outputs).count("Sigmoid") == 1


def test_cuts_prefer_narrow_places() -> None:
    live = [0, 2, 3, 3, 1, 3, 3, 3, 1, 2, 2, 0]
    assert cut_positions(live, target=4) == [4, 8, 11]
    assert cut_positions(live, target=4, penalty={4: 9.0})[0] != 4


def test_no_piece_is_larger_than_allowed() -> None:
    ends = cut_positions([0] + [5] * 199 + [0], target=100, largest=40)
    assert max(b - a for a, b in zip([0, *ends], ends, strict=False)) <= 40 and ends[-1] == 200


STEPS = st.tuples(st.sampled_from(["Add", "Mul", "Relu", "Sub"]), st.integers(0, 30), st.integers(0, 30))


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=60))
def test_regions_are_convex_and_give_the_model_back(choices: list[tuple[str, int, int]]) -> None:
    values = [var("x", tensor(2, 2)), Term.of("Const", (), {"hash": "c"}, (tensor(2, 2),))]
    for op, a, b in choices:
        left, right = values[-1 - a % len(values)], values[-1 - b % len(values)]
        values.append(make(op, (left,) if op == "Relu" else (left, right)))
    outputs = tuple(values[-2:])
    order = operators_in_order(outputs, {})
    assert sorted(order) == sorted(t for t in topological(outputs) if not t.is_constant and t.op != "Var")
    found, _ = cut_into_regions(outputs, order, ALL)
    place = {term: k for k, term in enumerate(order)}
    for region in found:
        assert replace(region.outputs, dict(region.leaves)) == region.originals
        # Convex and in order: what a region reads was made before everything that it makes.
        read = [place[term] for _, term in region.leaves if term in place]
        inside = {t for t in topological(region.originals) if t in place} - {
            t for t in topological([term for _, term in region.leaves]) if t in place
        }
        assert not read or max(read) < min(place[t] for t in inside)
    trace = Trace(tuple(Application(Rewrite(r.outputs, (), r.outputs), r.leaves) for r in found))
    assert AppliedTrace(outputs, trace, {}).outputs == outputs
