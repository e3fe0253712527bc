"""The grammar of functions as exporters write them out, which is longer than a window of a model. Data only.

With y = x - mean(x), older exporters write y / sqrt(mean(y^2) + e) * g + h: with Pow or a product for the square, a
quotient or the product with a reciprocal, and with or without g and h. Gelu by tanh is x/2 * (1 + tanh(a (x + b x^3)))
with its numbers in several places, HardSwish is x min(max(x / 6 + 1/2, 0), 1), LeakyRelu max(x, a x) with its usual
slopes a, and Tanh a quotient of exponentials. Each form is one rule (see `conjectures.written_functions`).
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Variable, inputs

__all__ = ["WRITTEN"]

_ROWS, _EPSILON = inputs("x", (2, 4, 6)), 0.125
_SCALE, _BIAS = inputs("g", (6,), "g", True), inputs("h", (6,), "h", True)
_WAVE = 7  # with the functions that windows write out
_VALUES = inputs("x", (2, 4))
_SIX = "ConstantOfShape[shape=[], value=6.0]"
# Half, a and b of Gelu: sqrt(2 / pi) and 0.044715 in float32.
_HALF, _OUTER, _CUBIC = (
    f"ConstantOfShape[shape=[], value={value}]" for value in (0.5, 0.7978845834732056, 0.044714998453855515)
)

# Slopes of LeakyRelu that frameworks have by default, in float32.
_SLOPES = (0.009999999776482582, 0.10000000149011612, 0.20000000298023224, 0.30000001192092896)


def _mean(x: str) -> str:
    return f"ReduceMean[axes=[-1], keepdims=1]({x})"


def _root(square: str) -> str:
    return f"Sqrt(Add({_mean(square)}, ConstantOfShape[shape=[], value={_EPSILON}]))"


def _squares(y: str) -> tuple[str, ...]:
    return f"Pow({y}, ConstantOfShape[shape=[], value=2.0])", f"Mul({y}, {y})"


def _quotients(y: str) -> tuple[str, ...]:
    """Return y / sqrt(mean(y^2) + e) in each form."""
    return tuple(
        form
        for square in _squares(y)
        for form in (
            f"Div({y}, {_root(square)})",
            f"Mul({y}, Div(Ones[shape=[]], {_root(square)}))",
            f"Mul({y}, Reciprocal({_root(square)}))",
        )
    )


def _family(target: str, function: str, *variables: Variable, reals: bool = False) -> Family:
    return Family(
        "written", variables, (), 1, variation="function", wave=_WAVE, targets=(target,),
        definitions=(function,), reals=reals,
    )  # fmt: skip


def _layer(quotient: str) -> tuple[Family, Family]:
    function = f"LayerNormalization[axis=-1, epsilon={_EPSILON}]"
    return (
        _family(f"Mul({quotient}, g)", f"{function}(x, g)", *_ROWS, *_SCALE),
        _family(f"Add(Mul({quotient}, g), h)", f"{function}(x, g, h)", *_ROWS, *_SCALE, *_BIAS),
    )


def _root_mean_square(quotient: str) -> Family:
    return _family(f"Mul({quotient}, g)", f"RMSNormalization[axis=-1, epsilon={_EPSILON}](x, g)", *_ROWS, *_SCALE)


def _tanh_gates() -> tuple[str, ...]:
    """Return 1 + tanh(a (x + b x^3)) in each form."""
    cubes = "Pow(x, ConstantOfShape[shape=[], value=3.0])", "Mul(x, Mul(x, x))"
    arguments = (
        *(f"Mul({_OUTER}, Add(x, Mul({_CUBIC}, {cube})))" for cube in cubes),
        f"Mul(Mul({_OUTER}, x), Add(Ones[shape=[]], Mul(Mul({_CUBIC}, x), x)))",
    )
    return tuple(f"Add(Ones[shape=[]], Tanh({argument}))" for argument in arguments)


def _tanh_gelu(gate: str) -> tuple[Family, ...]:
    products = f"Mul(Mul({_HALF}, x), {gate})", f"Mul({_HALF}, Mul(x, {gate}))", f"Mul(x, Mul({_HALF}, {gate}))"
    return tuple(_family(product, 'Gelu[approximate="tanh"](x)', *_VALUES) for product in products)


WRITTEN: tuple[Family, ...] = (
    *(family for quotient in _quotients(f"Sub(x, {_mean('x')})") for family in _layer(quotient)),
    *map(_root_mean_square, _quotients("x")),
    *(family for gate in _tanh_gates() for family in _tanh_gelu(gate)),
    # x min(max(x + 3, 0), 6) / 6 is less accurate near -3 than its other form.
    _family(
        f"Mul(x, Clip[bound_high=1.0, bound_low=0.0](Add(Div(x, {_SIX}), {_HALF})))",
        "HardSwish(x)",
        *_VALUES,
        reals=True,
    ),
    # Limits other than 0 and 1, which have names of their own.
    _family(
        "Min(Max(x, ConstantOfShape[shape=[], value=0.25]), ConstantOfShape[shape=[], value=3.5])",
        "Clip[bound_high=3.5, bound_low=0.25](x)",
        *_VALUES,
        reals=True,
    ),
    _family(
        f"Min(Relu(x), {_SIX})",
        "Clip[bound_high=6.0, bound_low=0.0](x)",
        *_VALUES,
        reals=True,
    ),
    *(
        _family(
            f"Max(x, Mul(x, ConstantOfShape[shape=[], value={slope}]))",
            f"LeakyRelu[alpha={slope}](x)",
            *_VALUES,
            reals=True,
        )
        for slope in _SLOPES
    ),
    _family(
        "Div(Sub(Exp(x), Exp(Neg(x))), Add(Exp(x), Exp(Neg(x))))",
        "Tanh(x)",
        *_VALUES,
        reals=True,
    ),
)
