"""Terms over all operators, with the shapes of their variables, for the reading modulo P.

Variables are integers from -9 to 9 but for those called `t` and `u`, which are truth values, and `n`, which is never 0.
The types of `i` and `j` are int64 and uint8; other variables are real.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from superopt.ir.notation import parse_terms
from superopt.ir.term import Term
from superopt.ir.types import TensorType

__all__ = ["EXACT", "LAWS", "NO_LAWS", "TRUTHS", "Shapes", "typed"]

Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
TRUTHS = ("t", "u")
_DTYPES = {**dict.fromkeys(TRUTHS, "bool"), "i": "int64", "j": "uint8"}

_CONV = "Conv[dilations=[1, 2], group={group}, pads=[1, 0, 2, 1], strides=[2, 1]]"
_PLAIN_CONV = "Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]]"
_TURNED_CONV = (
    "ConvTranspose[dilations=[1, 2], group={group}, output_padding=[1, 0], pads=[1, 0, 0, 1], strides=[2, 1]]"
)
_POOL = "dilations={d}, kernel_shape=[2, 3], pads={pads}, strides=[1, 2]"
_PADDED = _POOL.format(d="[1, 1]", pads="[1, 1, 0, 2]")
_DILATED = _POOL.format(d="[2, 1]", pads="[0, 0, 0, 0]")
_MATRICES: Shapes = {"a": (2, 3), "b": (3, 4)}
_IMAGE: Shapes = {"x": (2, 3, 5, 6), "w": (4, 3, 2, 3), "b": (4,)}
_A: Shapes = {"a": (2, 3)}
_AN: Shapes = {"a": (2, 3), "n": (3,)}
_AB: Shapes = {"a": (2, 3), "b": (3,)}
_TU: Shapes = {"t": (2, 3), "u": (3,)}
_STEPS: Shapes = {
    "v": (1, 2, 3), "x": (2, 2, 3), "w": (1, 8, 3), "r": (1, 8, 2), "b": (1, 16), "h": (1, 2, 2), "c": (1, 2, 2)
}  # fmt: skip
_BOTH_STEPS = "LSTM(Concat[axis=0](v, x), w, r, b, h, c)"
_GRU_STEPS: Shapes = {**_STEPS, "w": (1, 6, 3), "r": (1, 6, 2), "b": (1, 12)}
_GRU = "GRU[linear_before_reset={l}]({x}, w, r, b, {h})"
_GRU_STEP = _GRU.format(l="{l}", x="v", h="h")
_BOTH_GRU_STEPS = _GRU.format(l="{l}", x="Concat[axis=0](v, x)", h="h")


def _gru_cell(after: int) -> str:
    """A step of it, written out: n + z (h - n)."""
    x, h, w, r = (f"Squeeze[axes=[0]]({name})" for name in "vhwr")
    bias = [f"Split[axis=0, split=[6, 6]](Squeeze[axes=[0]](b)).{k}" for k in (0, 1)]

    def thirds(x: str, w: str, b: str) -> list[str]:
        return [f"Split[axis=1, split=[2, 2, 2]](Gemm[transB=1]({x}, {w}, {b})).{k}" for k in range(3)]

    read, kept = thirds(x, w, bias[0]), thirds(h, r, bias[1])
    z, reset = (f"Sigmoid(Add({read[k]}, {kept[k]}))" for k in (0, 1))
    left = f"Mul({reset}, {kept[2]})" if after else thirds(f"Mul({reset}, {h})", r, bias[1])[2]
    n = f"Tanh(Add({read[2]}, {left}))"
    return f"Add({n}, Mul({z}, Sub({h}, {n})))"


def typed(text: str, shapes: Shapes) -> tuple[Term, ...]:
    """The terms of a text, over variables of these shapes."""
    types = {name: TensorType(_DTYPES.get(name, "float"), shape) for name, shape in shapes.items()}
    return parse_terms(text, types)


# On integers, `superopt.evaluate` computes integers or simple fractions: the values here are their residues.
EXACT: Mapping[str, Shapes] = {
    "MatMul(a, b)": _MATRICES,
    "MatMul(a, c)": {"a": (5, 1, 2, 3), "c": (4, 3, 2)},
    "MatMul(v, b)": {"v": (3,), "b": (3, 4)},
    "MatMul(b, w)": {"b": (3, 4), "w": (4,)},
    "MatMul(v, v)": {"v": (3,)},
    "Gemm[alpha=3.0, beta=2.0, transA=1, transB=1](a, b, c)": {"a": (3, 2), "b": (4, 3), "c": (4,)},
    "Gemm[alpha=0.5, beta=0.25](a, b, c)": {**_MATRICES, "c": ()},
    "Gemm(a, b)": _MATRICES,
    'Einsum[equation="abc,cbd->ad"](a, b)': {"a": (2, 3, 4), "b": (4, 3, 5)},
    'Einsum[equation="aab,bc,c->ab"](a, b, c)': {"a": (2, 2, 3), "b": (3, 4), "c": (4,)},
    'Einsum[equation="ab->ba"](a)': _A,
    'Einsum[equation="ab,ab->"](a, b)': {"a": (2, 3), "b": (2, 3)},
    "Add(a, b)": {"a": (2, 3), "b": (2, 1, 3)},
    "Sub(a, b)": {"a": (2, 3), "b": ()},
    "Mul(a, b)": {"a": (2, 1), "b": (3,)},
    "Sum(a, b, a)": _AB,
    "Neg(a)": _A,
    "Identity(a)": _A,
    "Relu(a)": _A,
    "Concat[axis=-2](a, b)": {"a": (2, 3), "b": (4, 3)},
    "Split[axis=-1, split=[1, 2, 3]](a).1": {"a": (2, 6)},
    "Slice[axes=[-2, -1], ends=[3, 6], starts=[1, 0], steps=[1, 2]](a)": {"a": (3, 6)},
    "Slice[axes=[-2, -1], ends=[-1, 0], starts=[2, 5], steps=[-1, -2]](a)": {"a": (3, 6)},
    "Transpose[perm=[2, 0, 1]](a)": {"a": (2, 3, 4)},
    "Pad[pads=[1, 0, 2, -1], value=5.0](a)": _A,
    "Pad[pads=[1, 2, 0, -1]](a)": _A,
    "Unsqueeze[axes=[-3, -1]](a)": _A,
    "Squeeze[axes=[-2]](a)": {"a": (2, 1, 3)},
    "Reshape[shape=[0, -1, 2]](a)": {"a": (2, 3, 4)},
    "Flatten[axis=2](a)": {"a": (2, 3, 4)},
    "Expand[shape=[4, 1, 3]](a)": {"a": (2, 1)},
    "Tile[repeats=[2, 1, 3]](a)": {"a": (1, 2, 3)},
    "DepthToSpace[blocksize=2](a)": {"a": (2, 8, 2, 3)},
    'DepthToSpace[blocksize=2, mode="CRD"](a)': {"a": (2, 8, 2, 3)},
    "SpaceToDepth[blocksize=2](a)": {"a": (2, 3, 4, 2)},
    "Gather[axis=-2, indices=[2, 0, 2, -1]](a)": {"a": (2, 3, 4)},
    "Gather[axis=-1, indices=1](a)": _A,
    "Trilu[k=1, upper=0](a)": {"a": (2, 3, 4)},
    "Trilu(a)": _A,
    "OneHot[depth=3](i, b)": {"i": (2, 3), "b": (2,)},
    'PadCopy[mode="edge", pads=[1, 0, 2, 3]](a)': _A,
    'PadCopy[mode="reflect", pads=[1, 0, 0, 2]](a)': _A,
    'PadCopy[mode="wrap", pads=[0, 1, 2, 3]](a)': _A,
    "DequantizeLinear[axis=-1](j, a)": {"j": (2, 3), "a": ()},
    "Resize[scales=[2, 3]](a)": {"a": (2, 1, 2)},
    'Resize[coordinate_transformation_mode="asymmetric", nearest_mode="ceil", scales=[1.5]](a)': {"a": (2, 4)},
    "ResizeLinear[scales=[2, 4]](a)": {"a": (2, 3, 2)},
    'ResizeLinear[coordinate_transformation_mode="align_corners", scales=[0.5]](a)': {"a": (2, 4)},
    "CumSum[axis=-1](a)": {"a": (2, 4)},
    "CumSum[axis=-2, exclusive=1](a)": {"a": (4, 2)},
    "CumSum[axis=-1, exclusive=1, reverse=1](a)": {"a": (2, 4)},
    "ReduceSum[axes=[-2]](a)": _A,
    "ReduceSum[axes=[-3, -1], keepdims=0](a)": {"a": (2, 3, 4)},
    "ReduceMean[axes=[-1], keepdims=0](a)": _A,
    "ReduceMean[axes=[-2, -1]](a)": _A,
    "ReduceProd[axes=[-1]](a)": {"a": (2, 4)},
    "ReduceProd[axes=[-2, -1], keepdims=0](a)": {"a": (3, 2, 2)},
    "ReduceMax[axes=[-1], keepdims=0](a)": _A,
    "ReduceMin[axes=[-2, -1]](a)": _A,
    "ReduceL1[axes=[-1]](a)": _A,
    "ReduceSumSquare[axes=[-2], keepdims=0](a)": _A,
    _CONV.format(group=1) + "(x, w, b)": _IMAGE,
    _CONV.format(group=2) + "(x, w)": {"x": (1, 4, 5, 6), "w": (6, 2, 3, 2)},
    "Conv[dilations=[2], group=3, pads=[1, 1], strides=[1]](x, w)": {"x": (2, 3, 7), "w": (3, 1, 3)},
    _TURNED_CONV.format(group=1) + "(x, w, b)": {"x": (2, 3, 2, 3), "w": (3, 4, 2, 3), "b": (4,)},
    _TURNED_CONV.format(group=2) + "(x, w)": {"x": (1, 4, 2, 3), "w": (4, 3, 3, 2)},
    f"MaxPool[{_PADDED}](x)": {"x": (2, 2, 4, 5)},
    f"MaxPool[{_DILATED}](x)": {"x": (2, 2, 4, 5)},
    f"AveragePool[count_include_pad=0, {_PADDED}](x)": {"x": (2, 2, 4, 5)},
    f"AveragePool[count_include_pad=1, {_PADDED}](x)": {"x": (2, 2, 4, 5)},
    f"AveragePool[count_include_pad=0, {_DILATED}](x)": {"x": (2, 2, 4, 5)},
    "GlobalMaxPool(x)": {"x": (2, 3, 2, 2)},
    "GlobalAveragePool(x)": {"x": (2, 3, 2, 2)},
    "ArgMax[axis=-1](a)": {"a": (2, 5)},
    "ArgMin[axis=-2, keepdims=0, select_last_index=1](a)": {"a": (5, 2)},
    "Div(a, n)": _AN,
    "Reciprocal(n)": _AN,
    "Pow(a, ConstantOfShape[shape=[], value=3.0])": _A,
    "Pow(n, Range[delta=1.0, n=3, start=-1.0])": _AN,
    "Max(a, b, a)": _AB,
    "Min(a, b)": {"a": (2, 1), "b": (3,)},
    "Min(a)": _A,
    "Clip[bound_high=6.0, bound_low=-2.0](a)": _A,
    "Clip[bound_low=1.0](a)": _A,
    "Clip[bound_high=3.0](a)": _A,
    "Abs(a)": _A,
    "Sign(a)": _A,
    "LeakyRelu[alpha=0.25](a)": _A,
    "PRelu(a, b)": _AB,
    "ThresholdedRelu[alpha=2.0](a)": _A,
    "Softsign(a)": _A,
    "LpNormalization[axis=-1, p=1](a)": _A,
    "Where(t, a, b)": {"t": (2, 1), **_AB},
    "Not(t)": _TU,
    "And(t, u)": _TU,
    "Or(t, u)": _TU,
    "Xor(t, u)": _TU,
    "Equal(a, b)": _AB,
    "Less(a, b)": _AB,
    "LessOrEqual(a, b)": _AB,
    "Greater(a, b)": _AB,
    "GreaterOrEqual(a, b)": _AB,
    "FusedMatMul[alpha=0.5, transA=1, transB=1](a, b)": {"a": (2, 3, 2), "b": (4, 3)},
    "MatMul(a, Eye[n=3])": _A,
    "Add(a, Ones[shape=[2, 3]])": _A,
    "Mul(a, Zeros[shape=[]])": _A,
    "Add(a, ConstantOfShape[shape=[2, 3], value=-4.0])": _A,
    "Mul(a, Constant[shape=[3], value_floats=[1.0, -2.0, 4.0]])": _A,
    "Mul(a, Range[delta=-2.0, n=3, start=3.0])": _A,
    "Conv[dilations=[1, 1], group=2, pads=[1, 1, 1, 1], strides=[1, 1]](x, Dirac[group=2, shape=[4, 2, 3, 3]])": {
        "x": (1, 4, 3, 3)
    },
}

_INCREASING = ("Sigmoid", "Tanh", "Erf", "Floor", "Ceil", "Round", "HardSigmoid[alpha=1.0, beta=0.0]")
_ONE = "Ones[shape=[]]"
_HALF = "ConstantOfShape[shape=[], value=0.5]"
_SQUARES: Shapes = dict.fromkeys("abc", (2, 2))
_CHANNELS: Shapes = {"x": (2, 4, 3), **dict.fromkeys("sobmv", (4,))}
_ROWS: Shapes = {"x": (2, 3, 4), "y": (2, 3, 4), "k": (3, 4), **dict.fromkeys("sob", (4,))}
_SEQUENCES: Shapes = {"q": (2, 3, 8), "k": (2, 5, 8), "v": (2, 5, 4), "w": (8, 12), "b": (12,), "x": (2, 3, 8)}
_HEAD = "Transpose[perm=[0, 2, 1, 3]](Reshape[shape=[2, {n}, 2, {d}]]({x}))"
_SCORES = f"MatMul({_HEAD.format(n=3, d=4, x='q')}, Transpose[perm=[0, 1, 3, 2]]({_HEAD.format(n=5, d=4, x='k')}))"
_WEIGHTED = (
    "Reshape[shape=[2, 3, 4]](Transpose[perm=[0, 2, 1, 3]]"
    f"(MatMul(Softmax(Mul({_SCORES}, {_HALF})), {_HEAD.format(n=5, d=2, x='v')})))"
)
_JOINED = "Split[axis=-1, split=[4, 4, 4]](Add(MatMul(x, w), b))"
_FUSED_CONV = _PLAIN_CONV.replace("Conv[", "FusedConv[activation={}, ")
_UP = "Unsqueeze[axes=[-1]]"
_EPSILON = "ConstantOfShape[shape=[], value=0.001]"


def _centred(x: str, axes: str) -> str:
    return f"Sub({x}, ReduceMean[axes={axes}]({x}))"


def _standardised(x: str, axes: str) -> str:
    centred = _centred(x, axes)
    variance = f"ReduceMean[axes={axes}](Mul({centred}, {centred}))"
    return f"Div({centred}, Sqrt(Add({variance}, {_EPSILON})))"


# Equations that hold of the operators, on small residues.
LAWS: list[tuple[str, str, Shapes]] = [
    # Order.
    (
        "Mod[fmod=1](Concat[axis=-1](a, b), c)",
        "Concat[axis=-1](Mod[fmod=1](a, c), Mod[fmod=1](b, c))",
        {**_SQUARES, "c": (2, 1)},
    ),
    (
        "QuantizeLinear[axis=-1](Transpose[perm=[1, 0]](a), s)",
        "Transpose[perm=[1, 0]](QuantizeLinear[axis=-1](a, s))",
        {"a": (2, 3), "s": ()},
    ),
    ("Relu(Relu(a))", "Relu(a)", _SQUARES),
    ("Relu(Concat[axis=-1](a, b))", "Concat[axis=-1](Relu(a), Relu(b))", _SQUARES),
    ("Sub(Relu(a), Relu(Neg(a)))", "a", _SQUARES),
    ("Max(Add(a, c), Add(b, c))", "Add(Max(a, b), c)", _SQUARES),
    ("Max(a, Max(b, c))", "Max(b, a, c)", _SQUARES),
    ("Max(Relu(a), Relu(b))", "Relu(Max(a, b))", _SQUARES),
    ("Min(a, b)", "Neg(Max(Neg(a), Neg(b)))", _SQUARES),
    ("Add(Max(a, b), Min(a, b))", "Add(a, b)", _SQUARES),
    ("ReduceMax[axes=[-1]](Relu(a))", "Relu(ReduceMax[axes=[-1]](a))", _SQUARES),
    ("Abs(a)", "Max(a, Neg(a))", _SQUARES),
    ("Mul(Sign(a), Abs(a))", "a", _SQUARES),
    ("Clip[bound_low=0.0](a)", "Relu(a)", _SQUARES),
    (f"MaxPool[{_PADDED}](Relu(x))", f"Relu(MaxPool[{_PADDED}](x))", {"x": (2, 2, 4, 5)}),
    ("LeakyRelu[alpha=0.25](Relu(a))", "Relu(a)", _SQUARES),
    ("PRelu(Relu(a), b)", "Relu(a)", _SQUARES),
    # Increasing functions.
    ("Sigmoid(Transpose[perm=[1, 0]](a))", "Transpose[perm=[1, 0]](Sigmoid(a))", _SQUARES),
    *((f"{f}(Max(a, b))", f"Max({f}(a), {f}(b))", _SQUARES) for f in ("Sigmoid", "Tanh", "Erf")),
    *(
        (f"{f}(Max(a, b))", f"Max({f}(a), {f}(b))", _SQUARES)
        for f in ("Floor", "Ceil", "Round", "HardSigmoid[alpha=1.0, beta=0.0]")
    ),
    *((f"{f}(Neg(a))", f"Neg({f}(a))", _SQUARES) for f in ("Tanh", "Erf", "Sin", "Round", "Sign", "Softsign")),
    ("Cos(Add(a, b))", "Cos(Add(b, a))", _SQUARES),
    ("Sigmoid(Neg(a))", f"Sub({_ONE}, Sigmoid(a))", _SQUARES),
    ("Relu(Tanh(a))", "Tanh(Relu(a))", _SQUARES),
    ("Relu(HardSigmoid(a))", "HardSigmoid(a)", _SQUARES),
    ("Sigmoid(Zeros[shape=[2]])", "ConstantOfShape[shape=[2], value=0.5]", {}),
    ("Floor(Ceil(a))", "Ceil(a)", _SQUARES),
    ("Ceil(a)", "Neg(Floor(Neg(a)))", _SQUARES),
    ("Floor(Add(a, Floor(b)))", "Add(Floor(a), Floor(b))", _SQUARES),
    # Exponents, logarithms, roots, inverses.
    ("Exp(Add(a, b))", "Mul(Exp(a), Exp(b))", _SQUARES),
    ("Exp(Sub(a, b))", "Div(Exp(a), Exp(b))", _SQUARES),
    ("Exp(Neg(a))", "Reciprocal(Exp(a))", _SQUARES),
    ("Log(Exp(a))", "a", _SQUARES),
    ("Exp(Log(a))", "a", _SQUARES),
    ("Log(Reciprocal(a))", "Neg(Log(a))", _SQUARES),
    ("Softplus(a)", f"Log(Add(Exp(a), {_ONE}))", _SQUARES),
    ("Mish(a)", "Mul(a, Tanh(Softplus(a)))", _SQUARES),
    ("Sqrt(Mul(a, b))", "Mul(Sqrt(a), Sqrt(b))", _SQUARES),
    ("Sqrt(Reciprocal(a))", "Reciprocal(Sqrt(a))", _SQUARES),
    ("Mul(Sqrt(Mul(a, a)), Sqrt(Mul(a, a)))", "Mul(a, a)", _SQUARES),
    ("Reciprocal(Reciprocal(a))", "a", _SQUARES),
    ("Div(Mul(a, b), b)", "a", _SQUARES),
    ("Div(a, b)", "Mul(a, Reciprocal(b))", _SQUARES),
    ("Pow(Mul(a, b), c)", "Mul(Pow(a, c), Pow(b, c))", _SQUARES),
    ("Pow(a, Add(b, c))", "Mul(Pow(a, b), Pow(a, c))", _SQUARES),
    (f"Pow(a, {_HALF})", "Sqrt(a)", _SQUARES),
    ("Pow(a, ConstantOfShape[shape=[], value=-1.5])", "Reciprocal(Mul(a, Sqrt(a)))", _SQUARES),
    # Activations.
    ("HardSwish(a)", "Mul(a, HardSigmoid[alpha=0.16666666666666666](a))", _SQUARES),
    ("HardSwish(a)", "Mul(a, HardSigmoid[alpha=0.1666666716337204](a))", _SQUARES),
    ("HardSigmoid[alpha=0.5, beta=0.25](a)", f"HardSigmoid[alpha=1.0, beta=0.25](Mul(a, {_HALF}))", _SQUARES),
    (
        "Gelu(a)",
        f"Mul(Mul(a, {_HALF}), Add(Erf(Mul(a, ConstantOfShape[shape=[], value=0.7071067811865476])), {_ONE}))",
        _SQUARES,
    ),
    ("QuickGelu[alpha=1.0](a)", "Mul(a, Sigmoid(a))", _SQUARES),
    ("QuickGelu(a)", "Mul(a, Sigmoid(Mul(a, ConstantOfShape[shape=[], value=1.702])))", _SQUARES),
    ("BiasGelu(x, b)", "Gelu(Add(x, b))", _ROWS),
    ("FastGelu(x, b)", 'Gelu[approximate="tanh"](Add(x, b))', _ROWS),
    ("FastGelu(x)", 'Gelu[approximate="tanh"](x)', _ROWS),
    ("Elu(Relu(a))", "Relu(a)", _SQUARES),
    ("Relu(Elu(a))", "Relu(a)", _SQUARES),
    ("Celu(a)", "Elu(a)", _SQUARES),
    ("Celu[alpha=2.0](Relu(a))", "Relu(a)", _SQUARES),
    ("Selu[alpha=2.0, gamma=0.5](a)", f"Mul(Elu[alpha=2.0](a), {_HALF})", _SQUARES),
    # Reductions.
    ("ReduceL2[axes=[-1]](a)", "Sqrt(ReduceSumSquare[axes=[-1]](a))", _SQUARES),
    ("ReduceLogSum[axes=[-1]](a)", "Log(ReduceSum[axes=[-1]](a))", _SQUARES),
    ("ReduceLogSumExp[axes=[-1], keepdims=0](a)", "ReduceLogSum[axes=[-1], keepdims=0](Exp(a))", _SQUARES),
    # Normalisation.
    ("Softmax[axis=-2](a)", "Div(Exp(a), ReduceSum[axes=[-2]](Exp(a)))", _SQUARES),
    ("Softmax(Sub(a, ReduceMax[axes=[-1]](a)))", "Softmax(a)", _SQUARES),
    ("LogSoftmax(a)", "Log(Softmax(a))", _SQUARES),
    ("Exp(LogSoftmax[axis=-2](a))", "Softmax[axis=-2](a)", _SQUARES),
    ("LpNormalization(a)", "Div(a, ReduceL2[axes=[-1]](a))", _SQUARES),
    (
        "MeanVarianceNormalization[axes=[-1]](Neg(a))",
        "Neg(MeanVarianceNormalization[axes=[-1]](a))",
        _SQUARES,
    ),
    (
        "BatchNormalization[epsilon=0.001](x, s, o, m, v)",
        f"Add(Mul(Sub(x, {_UP}(m)), {_UP}(Div(s, Sqrt(Add(v, {_EPSILON}))))), {_UP}(o))",
        _CHANNELS,
    ),
    (
        "InstanceNormalization[epsilon=0.001](x, s, o)",
        f"Add(Mul({_standardised('x', '[-1]')}, Unsqueeze[axes=[-1]](s)), Unsqueeze[axes=[-1]](o))",
        _CHANNELS,
    ),
    (
        "GroupNormalization[epsilon=0.001, num_groups=2](x, s, o)",
        "Add(Mul(Reshape[shape=[2, 4, 3]]({}), Unsqueeze[axes=[-1]](s)), Unsqueeze[axes=[-1]](o))".format(
            _standardised("Reshape[shape=[2, 2, 6]](x)", "[-1]")
        ),
        _CHANNELS,
    ),
    ("LayerNormalization[epsilon=0.001](x, s, o)", f"Add(Mul({_standardised('x', '[-1]')}, s), o)", _ROWS),
    ("LayerNormalization[axis=-2, epsilon=0.001](x, s)", f"Mul({_standardised('x', '[-2, -1]')}, s)", _ROWS),
    (
        "RMSNormalization[epsilon=0.001](x, s)",
        f"Mul(Div(x, Sqrt(Add(ReduceMean[axes=[-1]](Mul(x, x)), {_EPSILON}))), s)",
        _ROWS,
    ),
    (
        "LRN[alpha=0.5, beta=2.0, bias=1.0, size=1](x)",
        f"Div(x, Mul(Add(Mul(Mul(x, x), {_HALF}), {_ONE}), Add(Mul(Mul(x, x), {_HALF}), {_ONE})))",
        {"x": (2, 3, 2, 2)},
    ),
    (
        "RotaryEmbedding(x, y, z)",
        "Concat[axis=-1](Sub(Mul({c}, {p}), Mul({s}, {q})), Add(Mul({s}, {p}), Mul({c}, {q})))".format(
            c="Unsqueeze[axes=[-3]](y)",
            s="Unsqueeze[axes=[-3]](z)",
            p="Split[axis=-1, split=[2, 2]](x).0",
            q="Split[axis=-1, split=[2, 2]](x).1",
        ),
        {"x": (2, 3, 5, 4), "y": (2, 5, 2), "z": (2, 5, 2)},
    ),
    # Fused operators.
    ("SimplifiedLayerNormalization(x, s)", "RMSNormalization[epsilon=1e-05](x, s)", _ROWS),
    ("SkipLayerNormalization[epsilon=0.5](x, y, s)", "LayerNormalization[epsilon=0.5](Add(x, y), s)", _ROWS),
    (
        "SkipLayerNormalization[epsilon=0.5](x, k, s, o, b)",
        "LayerNormalization[epsilon=0.5](Sum(x, k, b), s, o)",
        _ROWS,
    ),
    (
        "SkipSimplifiedLayerNormalization[epsilon=0.5](x, k, s, b)",
        "RMSNormalization[epsilon=0.5](Sum(x, k, b), s)",
        _ROWS,
    ),
    (_FUSED_CONV.format('"Relu"') + "(x, w)", f"Relu({_PLAIN_CONV}(x, w))", _IMAGE),
    (
        _FUSED_CONV.format('"LeakyRelu", activation_alpha=0.5') + "(x, w, b, z)",
        f"LeakyRelu[alpha=0.5](Add({_PLAIN_CONV}(x, w, b), z))",
        {**_IMAGE, "z": (2, 4, 4, 4)},
    ),
    (
        _FUSED_CONV.format('"Clip", activation_alpha=-1.0, activation_beta=6.0') + "(x, w, _, z)",
        f"Clip[bound_high=6.0, bound_low=-1.0](Add({_PLAIN_CONV}(x, w), z))",
        {**_IMAGE, "z": (2, 4, 4, 4)},
    ),
    (
        'FusedGemm[activation="HardSigmoid", activation_alpha=0.5, activation_beta=0.25, alpha=2.0](a, b, c)',
        "HardSigmoid[alpha=0.5, beta=0.25](Gemm[alpha=2.0](a, b, c))",
        _SQUARES,
    ),
    ('FusedGemm[activation="Tanh", transB=1](a, b)', "Tanh(Gemm[transB=1](a, b))", _SQUARES),
    ("MultiHeadAttention[num_heads=2, scale=0.5](q, k, v)", _WEIGHTED, _SEQUENCES),
    ("MultiHeadAttention[num_heads=2](q, k, v)", "MultiHeadAttention[num_heads=2, scale=0.5](q, k, v)", _SEQUENCES),
    (
        "Attention[num_heads=2](x, w, b)",
        f"MultiHeadAttention[num_heads=2]({_JOINED}.0, {_JOINED}.1, {_JOINED}.2)",
        _SEQUENCES,
    ),
    (
        "LSTM(x, w, r, b, LSTM(v, w, r, b, h, c).1, LSTM(v, w, r, b, h, c).2).1",
        f"{_BOTH_STEPS}.1",
        _STEPS,
    ),
    ("LSTM(v, w, r, b, h, c).0", f"Split[axis=0, split=[1, 2]]({_BOTH_STEPS}.0).0", _STEPS),
    ("LSTM(v, w, r, b, h, c).1", "Squeeze[axes=[0]](LSTM(v, w, r, b, h, c).0)", _STEPS),
    *(
        (left.format(l=after), right.format(l=after), _GRU_STEPS)
        for after in (0, 1)
        for left, right in (
            (f"{_GRU.format(l='{l}', x='x', h=f'{_GRU_STEP}.1')}.1", f"{_BOTH_GRU_STEPS}.1"),
            (f"{_GRU_STEP}.0", f"Split[axis=0, split=[1, 2]]({_BOTH_GRU_STEPS}.0).0"),
            (f"{_GRU_STEP}.1", f"Squeeze[axes=[0]]({_GRU_STEP}.0)"),
            (f"Squeeze[axes=[0]]({_GRU_STEP}.1)", _gru_cell(after)),
        )
    ),
    # Sums of products.
    ("MatMul(MatMul(a, b), a)", "MatMul(a, MatMul(b, a))", _SQUARES),
    ("MatMul(a, Add(b, c))", "Add(MatMul(a, b), MatMul(a, c))", _SQUARES),
    ("ReduceMean[axes=[-1]](Sub(a, ReduceMean[axes=[-1]](a)))", "Zeros[shape=[2, 1]]", _SQUARES),
]

NO_LAWS: list[tuple[str, str, Shapes]] = [
    (left, right, _SQUARES)
    for left, right in (
        ("MatMul(a, b)", "MatMul(b, a)"),
        ("Sub(a, b)", "Sub(b, a)"),
        ("Relu(Add(a, b))", "Add(Relu(a), Relu(b))"),
        ("Sigmoid(a)", "Tanh(a)"),
        ("Tanh(a)", "Erf(a)"),
        ("Sin(a)", "Cos(a)"),
        ("Sigmoid(Neg(a))", "Neg(Sigmoid(a))"),
        ("Sigmoid(Add(a, b))", "Add(Sigmoid(a), Sigmoid(b))"),
        (f"Sigmoid(Add(a, {_ONE}))", "Sigmoid(a)"),
        ("Gelu(a)", 'Gelu[approximate="tanh"](a)'),
        ("Elu(a)", "Elu[alpha=2.0](a)"),
        ("HardSigmoid(a)", "HardSigmoid[alpha=0.25](a)"),
        ("Floor(a)", "a"),
        ("Floor(a)", "Round(a)"),
        ("Exp(Mul(a, b))", "Mul(Exp(a), Exp(b))"),
        ("MatMul(a, Mul(b, c))", "Mul(MatMul(a, b), c)"),
        ("Concat[axis=-1](a, b)", "Concat[axis=-1](b, a)"),
        ("LayerNormalization[epsilon=0.5](a, b)", "LayerNormalization[epsilon=0.25](a, b)"),
    )
] + [(f"{_GRU_STEP.format(l=0)}.1", f"{_GRU_STEP.format(l=1)}.1", _GRU_STEPS)]
