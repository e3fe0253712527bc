"""Instances of rules: the sizes and attributes at which derivations are looked for."""

from __future__ import annotations

import pytest

from superopt.generate.derive import instances
from superopt.ir.notation import parse_rule


def test_instances_have_different_sizes_if_possible() -> None:
    rule = parse_rule("MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c)) @ a[_,_] b[_,_] c[_,_]")
    one, other = instances(rule, rule.signatures[0])
    for made in (one, other):
        assert made.sizes["a.shape[1]"] == made.sizes["b.shape[0]"]
        sizes = [made.sizes[name] for name in ("a.shape[0]", "a.shape[1]", "b.shape[1]", "c.shape[1]")]
        assert len(set(sizes)) == 4 and min(sizes) > 1
    assert not any(one.sizes[name] == other.sizes[name] for name in one.sizes)
    assert instances(rule, rule.signatures[0]) == [one, other]


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ("Relu(Relu(x)) = Relu(x) @ x[1,2]", 1),  # nothing to choose
        ("Transpose[perm=[1, 0]](x) = x @ x[_,_]", 2),
        ("Concat[axis=-1](x, y) = Concat[axis=-2](x, y) @ x[_,_] y[_,_]", 0),
        ("Cast[to=\"float\"](x) = Cast[to=\"float\"](x) @ x:int64[_]", 2),
        (
            "Conv[dilations=d, group=g, pads=p, strides=s](x, w) = Conv[dilations=d, group=g, pads=p, strides=s](x, w)"
            " @ x[_,_,_,_] w[_,_,_,_] d=[_,_] g=_ p=[_,_,_,_] s=[_,_]",
            2,
        ),
    ],
)  # fmt: skip
def test_number_of_instances(rule: str, count: int) -> None:
    parsed = parse_rule(rule)
    made = instances(parsed, parsed.signatures[0])
    assert len(made) == count
    for one in made:
        assert all(a.types == b.types for a, b in zip(one.lhs, one.rhs, strict=True))
