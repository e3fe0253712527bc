"""Rules that split an attribute take its parts from values that the graph computes anyway."""

from __future__ import annotations

import pytest

from superopt.ir.notation import parse_rule, parse_terms
from superopt.ir.types import tensor
from superopt.search.match.graph_index import GraphIndex
from superopt.search.match.matcher import Matcher
from superopt.search.match.occurrence import Match
from superopt.search.match.rule_index import RuleIndex
from superopt.search.match.split_rule import can_apply, split_attributes
from verify.proof_book import ProofBook

TYPES = {"x": tensor(1, 2, 20, 20), "y": tensor(1, 2, 20, 20)}
LISTS = (
    "MaxPool[dilations=[1, 1], kernel_shape=k, pads=p, strides=st]("
    "MaxPool[dilations=[1, 1], kernel_shape=l, pads=q, strides=[1, 1]](x)) = "
    "MaxPool[dilations=[1, 1], kernel_shape=[k[0] + l[0] - 1, k[1] + l[1] - 1], "
    "pads=[p[0] + q[0], p[1] + q[1], p[2] + q[2], p[3] + q[3]], strides=st](x)"
)
NUMBERS = (
    "MaxPool[dilations=[1, 1], kernel_shape=[a, c], pads=[p, r, p, r], strides=[1, 1]]("
    "MaxPool[dilations=[1, 1], kernel_shape=[b, d], pads=[q, s, q, s], strides=[1, 1]](x)) = "
    "MaxPool[dilations=[1, 1], kernel_shape=[a + b - 1, c + d - 1], pads=[p + q, r + s, p + q, r + s], "
    "strides=[1, 1]](x)"
)


def pool(kernel: tuple[int, int], of: str = "x", stride: int = 1, extra: int = 0) -> str:
    pads = [kernel[0] // 2 + extra, kernel[1] // 2, kernel[0] // 2, kernel[1] // 2]
    return f"MaxPool[dilations=[1, 1], kernel_shape={list(kernel)}, pads={pads}, strides=[{stride}, {stride}]]({of})"


def found(*outputs: str, rule: str = LISTS) -> list[Match]:
    graph = GraphIndex(parse_terms(f"({', '.join(outputs)})", TYPES))
    return list(Matcher(RuleIndex([parse_rule(rule)])).matches(graph))


@pytest.mark.parametrize(("rule", "stride"), [(LISTS, 1), (LISTS, 2), (NUMBERS, 1)])
def test_a_pool_is_computed_from_a_smaller_one_of_the_same_value(rule: str, stride: int) -> None:
    large, small = pool((13, 7), stride=stride), pool((9, 5))
    matches = found(large, small, rule=rule)
    assert [match.roots for match in matches] == [parse_terms(large, TYPES)]
    assert [match.results for match in matches] == [parse_terms(pool((5, 3), small, stride), TYPES)]
    assert ProofBook().check(matches[0].compiled.rule, matches[0].bindings) is not None
    assert matches[0].compiled.rule_id == parse_rule(rule).id


def test_each_smaller_pool_is_an_alternative() -> None:
    matches = found(pool((13, 13)), pool((9, 9)), pool((5, 5)))
    by_root = {root: [m for m in matches if m.roots == (root,)] for m in matches for root in m.roots}
    assert sorted(map(len, by_root.values())) == [1, 2]


def test_there_is_no_match_without_a_smaller_pool_of_the_same_value() -> None:
    assert not found(pool((13, 13)))
    assert not found(pool((13, 13)), pool((9, 9), "y"))


def test_parts_that_do_not_exist_are_not_proven() -> None:
    for match in found(pool((13, 13)), pool((9, 9), extra=3)):  # the rest of the padding would be negative
        assert ProofBook().check(match.compiled.rule, match.bindings) is None


def test_attributes_that_the_left_side_determines_are_not_split() -> None:
    assert split_attributes(parse_rule(LISTS)) == frozenset()
    assert split_attributes(parse_rule(LISTS).reversed()) == {"k", "l", "p", "q"}
    assert split_attributes(parse_rule(NUMBERS).reversed()) == set("abcdpqrs")
    slices = "Slice[axes=[0, 1], ends=[a, a + b], starts=[0, 0], steps=[1, 1]](Relu(x))"
    rule = parse_rule(f"{slices} = {slices.replace('Relu', 'Abs')}")
    assert split_attributes(rule) == frozenset()  # a is known, so b is


def test_a_rule_can_be_applied_if_the_graph_gives_what_it_splits() -> None:
    backwards = parse_rule(LISTS).reversed()
    assert not backwards.applicable and can_apply(backwards)
    assert not can_apply(parse_rule("Expand[shape=[z[1], 2]](x) = Squeeze[axes=[0]](Expand[shape=z](x))"))
