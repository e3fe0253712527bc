"""Rules tested in numbers at a match, before anything is proven."""

from __future__ import annotations

import pytest

from superopt.ir.notation import parse_rule
from superopt.ir.pattern import Bindings
from superopt.ir.term import Attr, var
from superopt.ir.types import tensor
from superopt.optimizer.example_check import fails_at_example

CONVS = (
    "Add(Conv[dilations=[1, 1], group=g, pads=p, strides=st](x, w), Conv[dilations=[1, 1], group=g, pads=q, strides=st]"
    "(x, u)) = Conv[dilations=[1, 1], group=g, pads=q, strides=st](x, Add(u, Pad[pads=[0, 0, -p[0] + q[0], -p[1] +"
    " q[1], 0, 0, -p[2] + q[2], -p[3] + q[3]], value=0.0](w)))"
)


def fails(text: str, attrs: dict[str, Attr] | None = None, **shapes: tuple[int, ...]) -> bool:
    terms = {name: var(name, tensor(*shape)) for name, shape in shapes.items()}
    return fails_at_example(parse_rule(text), Bindings(terms, dict(attrs or {})))


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("Add(x, y) = Add(y, x)", False),
        ("Sub(x, y) = Sub(y, x)", True),
        ("Mul(x, y) = Sum(x, y)", True),
        ("Relu(Relu(x)) = Relu(x)", False),
        ("Sqrt(Mul(x, x)) = x", True),  # of negative numbers
        ("Mul(Sqrt(x), Sqrt(x)) = x", False),  # the left side is undefined for negative ones
        ("x = Mul(Sqrt(x), Sqrt(x))", True),
    ],
)
def test_a_wrong_rule_fails_and_a_right_one_does_not(rule: str, wrong: bool) -> None:
    used = {name: (3, 64) for name in "xy" if name in rule}
    assert fails(rule, **used) is wrong


@pytest.mark.parametrize(("inner", "outer", "wrong"), [(0, 1, False), (1, 0, True)])
def test_kernels_and_pads_stay_and_large_sizes_become_small(inner: int, outer: int, wrong: bool) -> None:
    """A 1 x 1 kernel is padded to a 3 x 3 one, and not the other way round."""
    sizes = {0: (64, 64, 1, 1), 1: (64, 64, 3, 3)}
    attrs = {"g": 1, "p": (inner,) * 4, "q": (outer,) * 4, "st": (1, 1)}
    assert fails(CONVS, attrs, x=(8, 64, 112, 112), w=sizes[inner], u=sizes[outer]) is wrong


@pytest.mark.parametrize(("second", "wrong"), [("y, x", True), ("x, y", False)])
def test_sizes_that_add_up_stay_where_small_ones_do_not_fit(second: str, wrong: bool) -> None:
    """5 and 6 are one axis of 11; as small sizes they would not fit the weights."""
    rule = f"MatMul(Concat[axis=-1](x, y), w) = MatMul(Concat[axis=-1]({second}), w)"
    assert fails(rule, x=(3, 50), y=(3, 60), w=(110, 4)) is wrong


def test_nothing_is_said_where_no_small_example_is_typed() -> None:
    """Small sizes make another number of elements, and the real ones are too large to try."""
    rule = "Reshape[allowzero=0, shape=[512, 8192]](x) = Reshape[allowzero=0, shape=[8192, 512]](x)"
    assert not fails(rule, x=(2048, 2048))
    assert not fails("Relu(x) = x")  # a variable without a type


CONV = "Conv[dilations=[1, 1], group=64, pads=[0, 0, 0, 0], strides=[1, 1]]"


@pytest.mark.parametrize(("right", "wrong"), [("{conv}(x, w)", False), ("Neg({conv}(x, w))", True)])
def test_sizes_that_the_rule_states_stay(right: str, wrong: bool) -> None:
    """A Conv of 64 groups has 64 channels; other large sizes become small, or the example would be too large."""
    rule = f"{CONV}(Neg(x), Neg(w)) = {right.format(conv=CONV)}"
    assert fails(rule, x=(8, 64, 224, 224), w=(64, 1, 3, 3)) is wrong


NORMALIZED = "BatchNormalization[epsilon=1e-05](x, s, o, m, v)"


@pytest.mark.parametrize(("right", "wrong"), [(f"Relu({NORMALIZED})", True), (NORMALIZED, False)])
def test_a_variance_is_not_negative(right: str, wrong: bool) -> None:
    """With numbers of both signs for v, the root and all that reads it are no numbers in some channel."""
    total = "ReduceSum[axes=[1, 2, 3], keepdims=0]"
    rule = f"{total}(Neg({NORMALIZED})) = {total}(Neg({right}))"
    assert fails(rule, x=(2, 64, 4, 4), s=(64,), o=(64,), m=(64,), v=(64,)) is wrong
