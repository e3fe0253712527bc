"""Elements that are computed alike: the same operations on the same numbers, wherever data moves."""

from __future__ import annotations

import pytest

from superopt.ir.notation import parse_rule
from verify.prove.outputs import output_place
from verify.stability.computation import computes_alike

_SUM = "ReduceSum[axes=[-1], keepdims=0]"


def _alike(line: str) -> bool:
    rule = parse_rule(line)
    (left,), (right,) = rule.instantiate(rule.signatures[0])
    return computes_alike(left, right, output_place(left))


@pytest.mark.parametrize(
    "line",
    [
        "Gather[axis=-2, indices=j](LayerNormalization[axis=-1, epsilon=e](a, g, h)) = "
        "LayerNormalization[axis=-1, epsilon=e](Gather[axis=-2, indices=j](a), g, h) @ a[_,_,_] g[_] h[_] e=* j=_",
        "Transpose[perm=[1, 0, 2]](Softmax[axis=-1](x)) = Softmax[axis=-1](Transpose[perm=[1, 0, 2]](x)) @ x[_,_,_]",
        "Unsqueeze[axes=[0]](MatMul(x, w)) = MatMul(Unsqueeze[axes=[0]](x), Unsqueeze[axes=[0]](w)) @ x[_,_] w[_,_]",
        f"{_SUM}({_SUM}(x)) = {_SUM}({_SUM}(Identity(x))) @ x[_,_]",
        "Transpose[perm=[1, 0]](Sub(Exp(x), Exp(x))) = Sub(Exp(Transpose[perm=[1, 0]](x)), "
        "Exp(Transpose[perm=[1, 0]](x))) @ x[_,_]",
    ],
)
def test_moved_data_is_computed_alike(line: str) -> None:
    assert _alike(line)


@pytest.mark.parametrize(
    "line",
    [
        "Add(Add(x, y), z) = Add(x, Add(y, z)) @ x[_] y[_] z[_]",
        "Mul(x, y) = Mul(y, x) @ x[_] y[_]",
        # One sum over both axes is rounded as one, a sum of sums twice.
        f"ReduceSum[axes=[-2, -1], keepdims=0](x) = {_SUM}({_SUM}(x)) @ x[_,_]",
        # Twice the same number is subtracted exactly; two numbers that are computed alike need not be the same.
        "Sub(Exp(Transpose[perm=[1, 0]](x)), Exp(Transpose[perm=[1, 0]](x))) = "
        "Sub(Transpose[perm=[1, 0]](Exp(x)), Exp(Transpose[perm=[1, 0]](x))) @ x[_,_]",
        "Gather[axis=-2, indices=0](Softmax[axis=-1](x)) = Gather[axis=-2, indices=1](Softmax[axis=-1](x)) @ x[3,_]",
        # Trees do not show types, so that operands of several types are left to the analysis.
        'Cast[to="float16"](Identity(x)) = Identity(Cast[to="float16"](x)) @ x[_]',
    ],
)
def test_other_computations(line: str) -> None:
    assert not _alike(line)
