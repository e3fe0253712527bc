"""Generalisation of attributes: the most general rule is found, and no false one."""

from __future__ import annotations

import pytest

from superopt.generate.conjectures.ground_equation import GroundEquation
from superopt.generate.enumeration.fingerprints import Evaluator
from superopt.generate.generalise.equation_to_rule import generalise
from superopt.generate.generalise.sampling_check import SamplingCheck
from superopt.generate.grammar import Family, Variable
from superopt.ir.notation import parse_terms, show_rule
from superopt.ir.types import tensor

ONE = "dilations=[1, 1], group=1"
STILL = "strides=[1, 1]"
CONV = "Conv[dilations=dl, group=g"
# Left side, right side, shapes of the variables (those of weights in capitals), and the rule.
CASES = {
    "strides of a Conv and of a Conv on it are two variables, of a 1 x 1 Conv before it one": (
        f"Conv[{ONE}, pads=[0, 0, 0, 0], strides=[2, 2]](Conv[{ONE}, pads=[1, 1, 1, 1], {STILL}](x, W), U)",
        f"Conv[{ONE}, pads=[0, 0, 0, 0], {STILL}](Conv[{ONE}, pads=[1, 1, 1, 1], strides=[2, 2]](x, W), U)",
        {"x": (1, 2, 4, 4), "W": (2, 2, 3, 3), "U": (2, 2, 1, 1)},
        f"Conv[dilations=dl2, group=g, pads=[0, 0, 0, 0], strides=st2]({CONV}, pads=p, strides=st](x, W), U) = "
        f"Conv[dilations=dl2, group=g, pads=[0, 0, 0, 0], strides=st]({CONV}, pads=p, strides=st2](x, W), U)",
    ),
    "a smaller kernel is padded by what its Conv is padded less": (
        f"Add(Conv[{ONE}, pads=[0, 0, 0, 0], {STILL}](x, U), Conv[{ONE}, pads=[1, 1, 1, 1], {STILL}](x, W))",
        f"Conv[{ONE}, pads=[1, 1, 1, 1], {STILL}](x, Add(W, Pad[pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0](U)))",
        {"x": (1, 2, 4, 4), "W": (2, 2, 3, 3), "U": (2, 2, 1, 1)},
        "Add(Conv[dilations=[1, 1], group=g, pads=p, strides=st](x, U), "
        "Conv[dilations=[1, 1], group=g, pads=q, strides=st](x, W)) = "
        "Conv[dilations=[1, 1], group=g, pads=q, strides=st](x, Add(W, "
        "Pad[pads=[0, 0, -p[0] + q[0], -p[1] + q[1], 0, 0, -p[2] + q[2], -p[3] + q[3]], value=0.0](U)))",
    ),
    "what a Pad adds is added to the pads": (
        f"Conv[{ONE}, pads=[0, 0, 0, 0], {STILL}](Pad[pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0](x), W)",
        f"Conv[{ONE}, pads=[1, 1, 1, 1], {STILL}](x, W)",
        {"x": (1, 2, 4, 4), "W": (2, 2, 3, 3)},
        f"{CONV}, pads=p, strides=st](Pad[pads=[0, 0, a0, a1, 0, 0, a2, a3], value=0.0](x), W) = "
        f"{CONV}, pads=[a0 + p[0], a1 + p[1], a2 + p[2], a3 + p[3]], strides=st](x, W)",
    ),
    "a Pad of any amounts moves over a function": (
        "Relu(Pad[pads=[0, 1, 0, 2], value=0.0](x))",
        "Pad[pads=[0, 1, 0, 2], value=0.0](Relu(x))",
        {"x": (4, 6)},
        "Relu(Pad[pads=p, value=0.0](x)) = Pad[pads=p, value=0.0](Relu(x))",
    ),
    "axes that are not padded stay so": (
        "Gather[axis=-1, indices=[2, 0]](Pad[pads=[0, 0, 0, 2], value=0.0](x))",
        "Gather[axis=-1, indices=[2, 0]](x)",
        {"x": (4, 6)},
        "Gather[axis=-1, indices=j](Pad[pads=[0, 0, 0, a0], value=0.0](x)) = Gather[axis=-1, indices=j](x)",
    ),
    "the number of heads is an axis, if heads are split already": (
        "Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=[0, 2, 1, 3]](MatMul(Softmax[axis=-1](MatMul(q, "
        "Transpose[perm=[0, 1, 3, 2]](k))), v)))",
        "MultiHeadAttention[num_heads=3, scale=1.0](Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=[0, 2, 1, 3]]"
        "(q)), Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=[0, 2, 1, 3]](k)), Reshape[allowzero=0, "
        "shape=[0, 0, -1]](Transpose[perm=[0, 2, 1, 3]](v)))",
        {"q": (2, 3, 5, 4), "k": (2, 3, 5, 4), "v": (2, 3, 5, 4)},
        "Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=p2](MatMul(Softmax[axis=-1](MatMul(q, "
        "Transpose[perm=p](k))), v))) = MultiHeadAttention[num_heads=q.shape[-3], scale=1.0]("
        "Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=p2](q)), "
        "Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=p2](k)), "
        "Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=p2](v)))",
    ),
    "a Conv of single points is left of any window, but its own pads are none": (
        f"AveragePool[count_include_pad=0, dilations=[1, 1], kernel_shape=[2, 2], pads=[0, 0, 0, 0], strides=[2, 2]]"
        f"(Conv[{ONE}, pads=[0, 0, 0, 0], {STILL}](x, U))",
        f"Conv[{ONE}, pads=[0, 0, 0, 0], {STILL}](AveragePool[count_include_pad=0, dilations=[1, 1], "
        "kernel_shape=[2, 2], pads=[0, 0, 0, 0], strides=[2, 2]](x), U)",
        {"x": (1, 2, 4, 4), "U": (2, 2, 1, 1)},
        "AveragePool[count_include_pad=c, dilations=dl2, kernel_shape=k, pads=p, strides=st]"
        "(Conv[dilations=dl, group=g, pads=[0, 0, 0, 0], strides=[1, 1]](x, U)) = "
        "Conv[dilations=dl, group=g, pads=[0, 0, 0, 0], strides=[1, 1]]"
        "(AveragePool[count_include_pad=c, dilations=dl2, kernel_shape=k, pads=p, strides=st](x), U)",
    ),
    "an axis that only one place can have is no variable": (
        "Split[axis=-1, split=[2, 4]](MatMul(x, W)).0",
        "MatMul(x, Split[axis=-1, split=[2, 4]](W).0)",
        {"x": (3, 5), "W": (5, 6)},
        "Split[axis=-1, split=n](MatMul(x, W)).0 = MatMul(x, Split[axis=-1, split=n](W).0)",
    ),
    "a function's parameter is that of the fused operator, by another name": (
        f"LeakyRelu[alpha=0.25](Conv[{ONE}, pads=[1, 1, 1, 1], {STILL}](x, W))",
        f'FusedConv[activation="LeakyRelu", activation_alpha=0.25, {ONE}, pads=[1, 1, 1, 1], {STILL}](x, W)',
        {"x": (1, 2, 4, 4), "W": (2, 2, 3, 3)},
        f"LeakyRelu[alpha=alpha]({CONV}, pads=p, strides=st](x, W)) = "
        'FusedConv[activation="LeakyRelu", activation_alpha=alpha, activation_beta=0.0, dilations=dl, group=g, '
        "pads=p, strides=st](x, W)",
    ),
    "a shape that is written down: sizes of variables, or else a variable": (
        "Relu(Reshape[shape=[6, 5]](x))",
        "Reshape[shape=[6, 5]](Relu(x))",
        {"x": (2, 3, 5)},
        "Relu(Reshape[allowzero=0, shape=z](x)) = Reshape[allowzero=0, shape=z](Relu(x))",
    ),
    "and where it is determined, sizes": (
        "Reshape[shape=[2, 3, 7]](MatMul(Reshape[shape=[6, 5]](x), W))",
        "MatMul(x, W)",
        {"x": (2, 3, 5), "W": (5, 7)},
        "Reshape[allowzero=0, shape=[x.shape[-3], x.shape[-2], W.shape[-1]]]"
        "(MatMul(Reshape[allowzero=0, shape=[x.shape[-2]*x.shape[-3], x.shape[-1]]](x), W)) = MatMul(x, W)",
    ),
    "a Slice reads a whole axis from its end, also where another start would fit": (
        "ReduceMax[axes=[-1], keepdims=1](Slice[axes=[-1], ends=[-1], starts=[4], steps=[-1]](x))",
        "ReduceMax[axes=[-1], keepdims=1](x)",
        {"x": (3, 5)},
        "ReduceMax[axes=[-1], keepdims=k](Slice[axes=[-1], ends=[-1], starts=[x.shape[-1] - 1], steps=[-1]](x)) "
        "= ReduceMax[axes=[-1], keepdims=k](x)",
    ),
    "and any element from there, if each start fits": (
        "Neg(Slice[axes=[-1], ends=[-1], starts=[4], steps=[-1]](x))",
        "Slice[axes=[-1], ends=[-1], starts=[4], steps=[-1]](Neg(x))",
        {"x": (3, 5)},
        "Neg(Slice[axes=[i], ends=[-1], starts=from, steps=[-1]](x)) "
        "= Slice[axes=[i], ends=[-1], starts=from, steps=[-1]](Neg(x))",
    ),
    "a Slice ends where the part of a Split ends": (
        "Split[axis=-1, split=[2, 4]](x).0",
        "Slice[axes=[-1], ends=[2], starts=[0], steps=[1]](x)",
        {"x": (3, 6)},
        "Split[axis=i, split=n](x).0 = Slice[axes=[i], ends=[n[0]], starts=[0], steps=[1]](x)",
    ),
    "a part of a part is one of three parts": (
        "Split[axis=-1, split=[5, 7]](Split[axis=-1, split=[12, 11]](x).0).1",
        "Split[axis=-1, split=[5, 7, 11]](x).1",
        {"x": (2, 23)},
        "Split[axis=i, split=n2](Split[axis=i, split=n](x).0).1 = Split[axis=i, split=[n2[0], n2[1], n[1]]](x).1",
    ),
    "a Slice of a Slice begins and ends further on": (
        "Slice[axes=[-1], ends=[14], starts=[3], steps=[2]](Slice[axes=[-1], ends=[20], starts=[2], steps=[1]](x))",
        "Slice[axes=[-1], ends=[16], starts=[5], steps=[2]](x)",
        {"x": (7, 24)},
        "Slice[axes=[i], ends=to2, starts=from2, steps=by](Slice[axes=[i], ends=to, starts=from, steps=[1]](x)) "
        "= Slice[axes=[i], ends=[from[0] + to2[0]], starts=[from2[0] + from[0]], steps=by](x)",
    ),
    "a border around a border is as wide as both": (
        "Pad[pads=[6, 8, 11, 13], value=0.0](Pad[pads=[1, 2, 3, 4], value=0.0](x))",
        "Pad[pads=[7, 10, 14, 17], value=0.0](x)",
        {"x": (5, 7)},
        "Pad[pads=[a4, a5, a6, a7], value=0.0](Pad[pads=[a0, a1, a2, a3], value=0.0](x)) "
        "= Pad[pads=[a0 + a4, a1 + a5, a2 + a6, a3 + a7], value=0.0](x)",
    ),
    "amounts move with their axes": (
        "Pad[pads=[0, 1, 2, 0, 0, 3, 4, 0], value=0.0](Transpose[perm=[0, 2, 3, 1]](x))",
        "Transpose[perm=[0, 2, 3, 1]](Pad[pads=[0, 0, 1, 2, 0, 0, 3, 4], value=0.0](x))",
        {"x": (2, 3, 4, 5)},
        "Pad[pads=[0, a0, a1, 0, 0, a2, a3, 0], value=0.0](Transpose[perm=p](x)) "
        "= Transpose[perm=p](Pad[pads=[0, 0, a0, a1, 0, 0, a2, a3], value=0.0](x))",
    ),
    "parts without elements are no instances: a Slice without channels may have any number of groups": (
        "Slice[axes=[-3], ends=[14], starts=[7], steps=[1]]"
        "(Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]](x, W))",
        "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]]"
        "(x, Slice[axes=[-4], ends=[14], starts=[7], steps=[1]](W))",
        {"x": (2, 5, 4, 6), "W": (14, 5, 3, 3)},
        "Slice[axes=[-3], ends=to, starts=from, steps=by](Conv[dilations=dl, group=1, pads=p, strides=st](x, W)) "
        "= Conv[dilations=dl, group=1, pads=p, strides=st](x, Slice[axes=[-4], ends=to, starts=from, steps=by](W))",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    left, right, shapes, rule = CASES[name]
    types = {variable: tensor(*shape) for variable, shape in shapes.items()}
    variables = tuple(Variable(v, shape, v, v.isupper()) for v, shape in shapes.items())
    family = Family("x", variables, (), 2, variation="conv" if len(shapes.get("x", ())) == 4 else "")
    evaluator = Evaluator(0)
    equation = GroundEquation(parse_terms(left, types), parse_terms(right, types), family)
    found = generalise(equation, SamplingCheck(evaluator, 0))
    assert found is not None
    assert show_rule(found.rule) == rule


def test_numbers_beside_a_window_have_elements() -> None:
    """The attributes of a target become variables also if the other side has a tensor without axes."""
    scale = "ConstantOfShape[shape=[], value=2.0]"
    conv = f"Conv[{ONE}, pads=[1, 1, 1, 1], {STILL}]"
    left, right = f"Mul({conv}(x, w), {scale})", f"{conv}(x, Mul(w, {scale}))"
    variables = (Variable("x", (2, 3, 9, 8), "x"), Variable("w", (6, 3, 3, 3), "w", True))
    types = {v.name: tensor(*v.shape) for v in variables}
    family = Family("x", variables, (), 1, targets=(left,))
    equation = GroundEquation(parse_terms(left, types), parse_terms(right, types), family)
    found = generalise(equation, SamplingCheck(Evaluator(0), 0))
    assert found is not None
    conv = "Conv[dilations=dl, group=g, pads=p, strides=st]"
    assert show_rule(found.rule).startswith(f"Mul({conv}(x, w), ConstantOfShape")
