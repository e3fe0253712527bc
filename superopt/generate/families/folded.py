"""The grammar of scales and shifts of channels that become weights of the product before them, written out. Data only.

Rules of other families have a BatchNormalization of the weights in their place. Both are folded, but other compilers
write the quotient g / sqrt(v + e).
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Variable, inputs

__all__ = ["FOLDED_SCALES"]

_CONV = "Conv[dilations=[1, 1], group=1, pads=[1, 1, 1, 1], strides=[1, 1]]"
_TRANSPOSED = "ConvTranspose[dilations=[1, 1], group=1, output_padding=[0, 0], pads=[1, 1, 1, 1], strides=[2, 2]]"
_GEMM = "Gemm[alpha=1.0, beta=1.0, transA=0, transB={}]"
_EPSILON = 0.0009765625
_NORM = f"BatchNormalization[epsilon={_EPSILON}]"
_SCALE = f"Div(g, Sqrt(Add(v, ConstantOfShape[shape=[], value={_EPSILON}])))"
_SHIFT, _SHIFT_OF_BIAS = f"Sub(o, Mul(m, {_SCALE}))", f"Add(Mul(Sub(b, m), {_SCALE}), o)"
_IMAGE, _ROWS = inputs("x", (2, 3, 9, 8)), inputs("x", (2, 3))
_PARAMETERS = (*inputs("g o m", (6,), "g", True), *inputs("v", (6,), "v", True))
_BIAS, _FACTORS = inputs("b", (6,), "b", True), inputs("c d", (6,), "c", True)
_OF_CHANNELS = "Unsqueeze[axes=[-2, -1]]"


def _family(target: str, folded: str, *variables: Variable) -> Family:
    return Family(
        "folded", variables, (), 1, variation="function", reals=True, targets=(target,), definitions=(folded,)
    )


def _weight(*shape: int) -> tuple[Variable, ...]:
    return inputs("w", shape, "w", True)


_CONVS = (
    (_CONV, "Unsqueeze[axes=[-3, -2, -1]]", _weight(6, 3, 3, 3)),
    (_TRANSPOSED, _OF_CHANNELS, _weight(3, 6, 3, 3)),
)

FOLDED_SCALES: tuple[Family, ...] = (
    # BatchNormalization after a Conv, a MatMul or a Gemm.
    *(
        _family(
            f"{_NORM}({op}(x, w{bias}), g, o, m, v)",
            f"{op}(x, Mul(w, {wide}({_SCALE})), {shift})",
            *(*_IMAGE, *weight, *(_BIAS if bias else ()), *_PARAMETERS),
        )
        for op, wide, weight in _CONVS
        for bias, shift in (("", _SHIFT), (", b", _SHIFT_OF_BIAS))
    ),
    _family(
        f"{_NORM}(MatMul(x, w), g, o, m, v)",
        f"Add(MatMul(x, Mul(w, {_SCALE})), {_SHIFT})",
        *(*_ROWS, *_weight(3, 6), *_PARAMETERS),
    ),
    *(
        _family(
            f"{_NORM}({_GEMM.format(transposed)}(x, w, b), g, o, m, v)",
            f"{_GEMM.format(transposed)}(x, Mul(w, {scale}), {_SHIFT_OF_BIAS})",
            *(*_ROWS, *weight, *_BIAS, *_PARAMETERS),
        )
        for transposed, scale, weight in (
            (0, _SCALE, _weight(3, 6)),
            (1, f"Unsqueeze[axes=[-1]]({_SCALE})", _weight(6, 3)),
        )
    ),
    # A factor for each channel, and a bias, after a Conv or a BatchNormalization.
    *(
        _family(
            f"{by}({op}(x, w{bias}), {_OF_CHANNELS}(c))",
            f"{op}(x, {by}(w, {wide}(c)){folded})",
            *(*_IMAGE, *weight, *(_BIAS if bias else ()), *_FACTORS[:1]),
        )
        for op, wide, weight in _CONVS
        for by in ("Mul", "Div")
        for bias, folded in (("", ""), (", b", f", {by}(b, c)"))
    ),
    *(
        _family(
            f"Add(Mul({op}(x, w{bias}), {_OF_CHANNELS}(c)), {_OF_CHANNELS}(d))",
            f"{op}(x, Mul(w, {wide}(c)), {folded})",
            *(*_IMAGE, *weight, *(_BIAS if bias else ()), *_FACTORS),
        )
        for op, wide, weight in _CONVS
        for bias, folded in (("", "d"), (", b", "Add(Mul(b, c), d)"))
    ),
    *(
        _family(
            f"{by}({_NORM}(x, g, o, m, v), {_OF_CHANNELS}(c))",
            folded,
            *(*inputs("x", (2, 6, 4, 5)), *_PARAMETERS, *_FACTORS[:1]),
        )
        for by, folded in (
            ("Mul", f"{_NORM}(x, Mul(g, c), Mul(o, c), m, v)"),
            ("Div", f"{_NORM}(x, Div(g, c), Div(o, c), m, v)"),
            ("Add", f"{_NORM}(x, g, Add(o, c), m, v)"),
            ("Sub", f"{_NORM}(x, g, Sub(o, c), m, v)"),
        )
    ),
    # The same written out, and a shift of each channel before it.
    _family(
        f"{_NORM}(x, g, o, m, v)",
        f"Add(Mul(x, {_OF_CHANNELS}({_SCALE})), {_OF_CHANNELS}({_SHIFT}))",
        *(*inputs("x", (2, 6, 4, 5)), *_PARAMETERS),
    ),
    *(
        _family(
            f"{_NORM}({by}(x, {_OF_CHANNELS}(c)), g, o, m, v)",
            f"{_NORM}(x, g, o, {back}(m, c), v)",
            *(*inputs("x", (2, 6, 4, 5)), *_PARAMETERS, *_FACTORS[:1]),
        )
        for by, back in (("Add", "Sub"), ("Sub", "Add"))
    ),
    # A shift of each channel after a Conv.
    *(
        _family(
            f"{by}({op}(x, w{bias}), {_OF_CHANNELS}(c))",
            f"{op}(x, w, {folded})",
            *(*_IMAGE, *weight, *(_BIAS if bias else ()), *_FACTORS[:1]),
        )
        for op, _, weight in _CONVS
        for by, bias, folded in (("Sub", "", "Neg(c)"), ("Sub", ", b", "Sub(b, c)"), ("Add", ", b", "Add(b, c)"))
    ),
    # A factor for each channel before a Conv.
    _family(
        f"{_CONV}(Mul(x, {_OF_CHANNELS}(c)), w)",
        f"{_CONV}(x, Mul(w, {_OF_CHANNELS}(c)))",
        *(*_IMAGE, *_weight(6, 3, 3, 3), *inputs("c", (3,), "c", True)),
    ),
)
