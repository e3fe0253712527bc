"""Elementwise scalar functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from superopt.ir.dim import Sizes
from superopt.ir.types import FLOAT_DTYPES
from superopt.ops.algebra import Algebra
from superopt.ops.definition import Definition, broadcast, difference, divide, negative, number
from superopt.ops.entry import composite, operator
from superopt.ops.typing import IllTyped, Need, floats, need_equal, numbers


def _literal(g: Algebra, value: int) -> Any:
    return g.constant(Fraction(value))


@operator("Div", 2, 2, dtype=numbers, ieee="division", integers="partial")
def _div(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """A / B; integers are rounded towards zero. Div-14.

    ONNX Runtime fails on an integer divisor of 0, and at some sizes on the least integer divided by -1.
    """
    left, right = (broadcast(x, i) for x in xs)
    return divide(g, left, right) if xs[0].real else g.apply("truncated_quotient", left, right)


def _remainder_type(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule of Mod. ONNX Runtime rounds 64-bit integers with `fmod`, and fails on reals without it."""
    dtype = numbers(dtypes, attrs, default)
    if dtype in FLOAT_DTYPES if not attrs["fmod"] else dtype in ("int64", "uint64"):
        raise IllTyped(f"Mod of {dtype} with fmod = {attrs['fmod']}")
    return dtype


@operator("Mod", 2, 2, "fmod=0", dtype=_remainder_type, integers="partial", in_range=True)
def _mod(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """The remainder r = x - q y: with `fmod`, q = x / y is rounded towards zero, and r has the sign of x; otherwise q
    is rounded down, and r has the sign of y. Mod-13. Fails where Div fails."""
    x, y = (broadcast(operand, i) for operand in xs)
    if xs[0].real:
        return g.apply("real_remainder", x, y)
    remainder = difference(g, x, g.multiply(y, g.apply("truncated_quotient", x, y)))
    if attrs["fmod"]:
        return remainder
    other_sign = g.add(remainder, y)
    below = g.choose(">", remainder, other_sign, remainder)
    return g.choose(">", y, g.choose(">", negative(g, remainder), other_sign, remainder), below)


_TRUTH_OR_TEXT = frozenset({"bool", "string"})


def _power(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """The type rule of Pow: the real type of the base; the exponent may have another type."""
    if dtypes[1] in _TRUTH_OR_TEXT:
        raise IllTyped(f"exponent of type {dtypes[1]}")
    return floats(dtypes[:1], attrs, default)


@operator("Pow", 2, 2, dtype=_power)
def _pow(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """X ^ Y. Pow-15."""
    return g.apply("power", *(broadcast(x, i) for x in xs))


def _minimum(g: Algebra, parts: Sequence[Any]) -> Any:
    """min(a, b, ...) = -max(-a, -b, ...)."""
    return negative(g, g.maximum([negative(g, part) for part in parts]))


# Max and Min have no IEEE operation: for zeros of different signs ONNX Runtime returns either one, depending on their
# place in the tensor.
@operator("Min", 1, None, dtype=numbers, commutative=True)
def _min(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """min(x0, x1, ...). Min-13."""
    return _minimum(g, [broadcast(x, i) for x in xs])


@operator("Max", 1, None, dtype=numbers, commutative=True)
def _max(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max(x0, x1, ...). Max-13."""
    return g.maximum([broadcast(x, i) for x in xs])


def _prelu_type(shapes: Sequence[Sizes], attrs: Mapping[str, Any], need: Need) -> tuple[Sizes, ...]:
    """The shape rule of PRelu: the slope broadcasts to x, never x to the slope."""
    x, slope = shapes
    if len(slope) > len(x):
        raise IllTyped("PRelu's slope has more axes than its input")
    for own, size in zip(slope, x[len(x) - len(slope) :], strict=True):
        if own != 1:
            need_equal(need, own, size)
    return (tuple(x),)


# Real numbers only: ONNX Runtime has no kernel for integers.
@operator("PRelu", 2, 2, shape=_prelu_type, elementwise=True, dtype=floats)
def _prelu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x for x >= 0, slope * x for x < 0. PRelu-16."""
    x, slope = xs[0].at(*i), broadcast(xs[1], i)
    return g.choose(">=", x, x, g.multiply(slope, x))


@operator("Abs", 1, 1, dtype=numbers, ieee="abs")
def _abs(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """max(x, -x). Abs-13."""
    x = xs[0].at(*i)
    return g.maximum([x, negative(g, x)])


@operator("Sign", 1, 1, dtype=numbers, in_range=True)
def _sign(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """[x > 0] - [-x > 0], where [] is 1 if true, else 0. Sign-13."""
    x, yes, no = xs[0].at(*i), _literal(g, 1), _literal(g, 0)
    return difference(g, g.choose(">", x, yes, no), g.choose(">", negative(g, x), yes, no))


@operator("Clip", 1, 1, "bound_high=inf bound_low=-inf", dtype=numbers)
def _clip(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """min(bound_high, max(x, bound_low)), in this order; an infinite bound is no bound. Clip-13."""
    x, low, high = xs[0].at(*i), attrs["bound_low"], attrs["bound_high"]
    if low != -math.inf:
        x = g.maximum([x, number(g, low)])
    return x if high == math.inf else _minimum(g, [x, number(g, high)])


def _function(name: str) -> Definition:
    """The definition by one function: Sqrt-13, Reciprocal-13, Exp-13, Log-13, Erf-13, Sin-22, Cos-22,
    Floor-13, Round-22."""
    return lambda g, xs, attrs, shape, i: g.apply(name, xs[0].at(*i))


operator("Sqrt", 1, 1, dtype=floats, ieee="squareRoot")(_function("sqrt"))
operator("Reciprocal", 1, 1, dtype=floats)(_function("reciprocal"))
operator("Exp", 1, 1, dtype=floats)(_function("exp"))
operator("Log", 1, 1, dtype=floats)(_function("log"))
operator("Erf", 1, 1, dtype=floats)(_function("erf"))
operator("Sin", 1, 1, dtype=floats)(_function("sin"))
operator("Cos", 1, 1, dtype=floats)(_function("cos"))

# Defaults are float32 numbers, written in full: those of 0.01, of 0.2, and of Selu's.
composite("HardSwish", 1, 1, "", "HardSwish(x) = Mul(x, HardSigmoid[alpha=1/6, beta=0.5](x))", dtype=floats)
composite("Softplus", 1, 1, "", "Softplus(x) = Log(Add(Exp(x), 1))", dtype=floats)
composite("Mish", 1, 1, "", "Mish(x) = Mul(x, Tanh(Softplus(x)))", dtype=floats)
composite("Softsign", 1, 1, "", "Softsign(x) = Div(x, Add(1, Abs(x)))", dtype=floats)
operator("Floor", 1, 1, dtype=floats)(_function("floor"))
composite("Ceil", 1, 1, "", "Ceil(x) = Neg(Floor(Neg(x)))", dtype=floats)
operator("Round", 1, 1, dtype=floats)(_function("round"))
composite("LeakyRelu", 1, 1, "alpha=0.009999999776482582", "LeakyRelu(x) = PRelu(x, alpha)", dtype=floats)
composite(
    "HardSigmoid", 1, 1, "alpha=0.20000000298023224 beta=0.5",
    "HardSigmoid(x) = Clip[bound_low=0.0, bound_high=1.0](Add(Mul(alpha, x), beta))",
    dtype=floats,
)  # fmt: skip
# The page of Gelu-20 has the numbers sqrt(2 / pi) and 0.044715; its function body has float32 numbers. These are the
# float32 numbers nearest to both, 0.7978845834732056 and 0.044714998453855515: exporters store them, and ONNX Runtime's
# kernels multiply by them.
composite(
    "Gelu", 1, 1, "approximate=none",
    'Gelu[approximate="none"](x) = Mul(Mul(0.5, x), Add(1, Erf(Div(x, Sqrt(2)))))',
    'Gelu[approximate="tanh"](x) = Mul(Mul(0.5, x), Add(1, Tanh(Mul(6693141/8388608, y))))'
    " where y = Add(x, Mul(12003091/268435456, Mul(x, Mul(x, x))))",
    dtype=floats,
)  # fmt: skip


# Operators defined in pieces by a condition on the values are primitive. Written with Where and Greater, they would be
# choices by a truth value that is a choice itself, and fewer of their equations could be proven term by term.
@operator("Elu", 1, 1, "alpha=1.0", dtype=floats)
def _elu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x for x >= 0, alpha * (exp(x) - 1) for x < 0. Elu-22."""
    x = xs[0].at(*i)
    below = g.multiply(number(g, attrs["alpha"]), difference(g, g.apply("exp", x), _literal(g, 1)))
    return g.choose(">=", x, x, below)


composite(
    "Selu", 1, 1, "alpha=1.6732631921768188 gamma=1.0507010221481323",
    "Selu(x) = Mul(gamma, Elu[alpha=alpha](x))",
    dtype=floats,
)  # fmt: skip
composite(
    "Celu", 1, 1, "alpha=1.0",
    "Celu(x) = Add(Max(x, 0), Min(Mul(alpha, Sub(Exp(Div(x, alpha)), 1)), 0))",
    dtype=floats,
)  # fmt: skip


@operator("ThresholdedRelu", 1, 1, "alpha=1.0", dtype=floats)
def _thresholded_relu(g: Algebra, xs: list[Any], attrs: Mapping[str, Any], shape: Sizes, i: Sizes) -> Any:
    """x for x > alpha, else 0. ThresholdedRelu-22."""
    x = xs[0].at(*i)
    return g.choose(">", difference(g, x, number(g, attrs["alpha"])), x, _literal(g, 0))
