"""Pairs of terms with equal values, and pairs without, over the variables of `modular_cases`."""

from __future__ import annotations

from tests.support.modular_cases import IMAGE, PADDED, Shapes

__all__ = ["LAWS", "NO_LAWS"]

_PLAIN_CONV = "Conv[dilations=[1, 1], group=1, pads=[0, 0, 0, 0], strides=[1, 1]]"
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
    (f"MaxPool[{PADDED}](Relu(x))", f"Relu(MaxPool[{PADDED}](x))", {"x": (2, 2, 4, 5)}),
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
    (_FUSED_CONV.format('"Relu"') + "(x, w)", f"Relu({_PLAIN_CONV}(x, w))", IMAGE),
    (
        _FUSED_CONV.format('"LeakyRelu", activation_alpha=0.5') + "(x, w, b, z)",
        f"LeakyRelu[alpha=0.5](Add({_PLAIN_CONV}(x, w, b), z))",
        {**IMAGE, "z": (2, 4, 4, 4)},
    ),
    (
        _FUSED_CONV.format('"Clip", activation_alpha=-1.0, activation_beta=6.0') + "(x, w, _, z)",
        f"Clip[bound_high=6.0, bound_low=-1.0](Add({_PLAIN_CONV}(x, w), z))",
        {**IMAGE, "z": (2, 4, 4, 4)},
    ),
    (
        'FusedGemm[activation="HardSigmoid", activation_alpha=0.5, activation_beta=0.25, alpha=2.0](a, b, c)',
        "HardSigmoid[alpha=0.5, beta=0.25](Gemm[alpha=2.0](a, b, c))",
        _SQUARES,
    ),
    ('FusedGemm[activation="Tanh", transB=1](a, b)', "Tanh(Gemm[transB=1](a, b))", _SQUARES),
    ("MultiHeadAttention[num_heads=2, scale=0.5](q, k, v)", _WEIGHTED, _SEQUENCES),
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
