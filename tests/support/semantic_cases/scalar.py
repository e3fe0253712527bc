"""Scalar functions, element by element."""

from __future__ import annotations

import dataclasses
import random

import numpy as np

from tests.support.semantic_cases.case import Case, Maker, broadcast_to, shape_of, values

__all__ = ["CASES"]

_INTEGERS = ("int32", "int64")


def _pair(rng: random.Random) -> list[tuple[int, ...]]:
    full = shape_of(rng, 0, 5)
    shapes = [full, broadcast_to(rng, full)]
    rng.shuffle(shapes)
    return shapes


def _unary(
    low: float = -3, high: float = 3, dtypes: tuple[str, ...] = ("float32",), opsets: tuple[int, ...] = (13, 17, 22)
) -> Maker:
    def make(rng: random.Random) -> Case:
        x = values(rng, shape_of(rng, 0, 5), rng.choice(dtypes), low, high)
        return Case({}, [x], opset=rng.choice(opsets))

    return make


def _parametric(maker: Maker, **attrs: list[float]) -> Maker:
    def make(rng: random.Random) -> Case:
        chosen = {name: float(np.float32(rng.choice(choices))) for name, choices in attrs.items()}
        return dataclasses.replace(maker(rng), attrs=chosen)

    return make


def _div(rng: random.Random) -> Case:
    dtype = rng.choice(("float32", "float64", *_INTEGERS))
    a, b = _pair(rng)
    divisor = values(rng, b, dtype, 1, 4) * values(rng, b, "int32", 0, 1).astype(dtype)
    divisor = np.where(divisor == 0, np.array(-3, dtype), divisor)
    return Case({}, [values(rng, a, dtype, -9, 9), divisor], opset=rng.choice((13, 14, 17)))


def _pow(rng: random.Random) -> Case:
    a, b = _pair(rng)
    x, y = values(rng, a, low=0.2, high=3), values(rng, b, rng.choice(("float32", *_INTEGERS)))
    if rng.random() < 0.4:  # of negative numbers only whole powers are real
        x, y = values(rng, a, low=-3, high=-0.2), np.asarray(np.rint(y)).astype(y.dtype)
    return Case({}, [x, y], opset=rng.choice((12, 13, 17)))


def _extremum(rng: random.Random) -> Case:
    full, dtype = shape_of(rng, 0, 5), rng.choice(("float32", "float64", *_INTEGERS))
    arrays = [values(rng, broadcast_to(rng, full), dtype, -5, 5) for _ in range(rng.randint(1, 4))]
    return Case({}, arrays, opset=rng.choice((12, 13, 17)))


def _clip(rng: random.Random) -> Case:
    """The lower bound may be above the upper one, which then decides."""
    dtype = rng.choice(("float32", "float32", *_INTEGERS))
    draws = (values(rng, (), dtype, -2, 2).item() for _ in range(2))
    low, high = (float(bound) for bound in draws)
    attrs = {
        "bound_low": low if rng.random() < 0.7 else -np.inf,
        "bound_high": high if rng.random() < 0.7 else np.inf,
    }
    return Case(attrs, [values(rng, shape_of(rng, 0, 5), dtype, -4, 4)], opset=rng.choice((12, 13, 17)))


def _prelu(rng: random.Random) -> Case:
    full = shape_of(rng, 0, 5)
    return Case({}, [values(rng, full), values(rng, broadcast_to(rng, full))], opset=rng.choice((9, 16, 17)))


def _gelu(rng: random.Random) -> Case:
    x = values(rng, shape_of(rng, 0, 5), low=-4, high=4)
    return Case({"approximate": rng.choice(("none", "tanh"))}, [x], opset=rng.choice((20, 22)))


def _halves(*dtypes: str) -> Maker:
    """Half of the values lie halfway between two integers, or on one."""

    def make(rng: random.Random) -> Case:
        x = values(rng, shape_of(rng, 0, 5), rng.choice(dtypes), -4, 4)
        x = np.where(values(rng, x.shape, "bool"), np.rint(x * 2) / 2, x).astype(x.dtype)
        return Case({}, [x], opset=rng.choice((13, 17, 22)))

    return make


def _softsign(rng: random.Random) -> Case:
    case = _unary()(rng)
    (x,) = case.arrays
    # onnx.reference cannot compute it of a scalar: NumPy's out= takes no number.
    return dataclasses.replace(case, oracles=("onnxruntime",)) if x is not None and x.ndim == 0 else case


def _mod(rng: random.Random) -> Case:
    full = shape_of(rng)
    shapes = broadcast_to(rng, full), broadcast_to(rng, full)
    fmod = rng.randint(0, 1)
    dtype = rng.choice(["float32", "float64", "int8", "int32", "uint8"] if fmod else list(_INTEGERS))
    x, y = (
        values(rng, shape, dtype, max(low, 0 if dtype[0] == "u" else low), 60)
        for shape, low in zip(shapes, (-60, -7), strict=True)
    )
    return Case({"fmod": fmod}, [x, np.where(y == 0, np.ones_like(y), y)], opset=rng.choice([10, 13, 17]))


CASES: dict[str, Maker] = {
    "Div": _div,
    "Mod": _mod,
    "Pow": _pow,
    "Min": _extremum,
    "Max": _extremum,
    "Sqrt": _unary(0.01, 9),
    "Reciprocal": _unary(0.1, 5),
    "Exp": _unary(),
    "Log": _unary(0.01, 9),
    "Erf": _unary(),
    "Sin": _unary(-20, 20, opsets=(7, 17, 22)),
    "Cos": _unary(-20, 20, opsets=(7, 17, 22)),
    "Abs": _unary(dtypes=("float32", "float64", *_INTEGERS)),
    "Sign": _unary(dtypes=("float32", "float64", *_INTEGERS)),
    "Floor": _halves("float32", "float64"),
    "Ceil": _halves("float32", "float64"),
    "Round": _halves("float32", "float64"),
    "Clip": _clip,
    "PRelu": _prelu,
    "Gelu": _gelu,
    "HardSwish": _unary(-5, 5, opsets=(14, 17, 22)),
    "Softplus": _unary(),
    "Mish": _unary(opsets=(18, 20, 22)),
    "Softsign": _softsign,
    "LeakyRelu": _parametric(_unary(), alpha=[0.01, 0.3, 1.5, -0.5]),
    "HardSigmoid": _parametric(_unary(-5, 5), alpha=[0.2, 1 / 6, -0.5], beta=[0.5, 0.0, 0.75]),
    "Elu": _parametric(_unary(), alpha=[1.0, 0.25, 2.0]),
    "Selu": _parametric(_unary(), alpha=[1.67326319, 0.5], gamma=[1.05070102, 2.0]),
    "Celu": _parametric(_unary(opsets=(12, 17, 22)), alpha=[1.0, 0.25, 2.0]),
    "ThresholdedRelu": _parametric(_halves("float32"), alpha=[1.0, 0.0, -0.5]),
}
