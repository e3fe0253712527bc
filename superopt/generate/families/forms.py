"""The grammar of activations as models write them out: each function, in each combination of the ways to write its
parts. Data only.

PRelu is max(x, 0) + s * min(x, 0), LeakyRelu with a slope s of at most 1 is max(x, s * x), and Sigmoid is
tanh(x / 2) / 2 + 1 / 2. Each form is one rule (see `conjectures.written_functions`).
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Variable, inputs

__all__ = ["FORMS"]

_X, _SLOPES = inputs("x", (2, 4, 6)), inputs("s", (6,), "s", True)
_WAVE = 7  # with the functions that windows write out
# The float32 numbers nearest to 0.01, 0.1, 0.2 and 0.3.
_SLOPES_OF_MODELS = (0.009999999776482582, 0.10000000149011612, 0.20000000298023224, 0.30000001192092896)
_ZERO = "Zeros[shape=[]]"  # as a model's number 0 is read


def _number(value: float) -> str:
    return f"ConstantOfShape[shape=[], value={value}]"


def _family(target: str, function: str, *variables: Variable) -> Family:
    return Family(
        "forms",
        variables,
        (),
        1,
        variation="function",
        reals=True,
        wave=_WAVE,
        targets=(target,),
        definitions=(function,),
    )


_POSITIVE = ("Relu(x)", f"Max(x, {_ZERO})")
_NEGATIVE = (f"Min(x, {_ZERO})", f"Mul(Sub(x, Abs(x)), {_number(0.5)})", "Neg(Relu(Neg(x)))")
_HALF = _number(0.5)

FORMS: tuple[Family, ...] = (
    *(
        _family(f"Add({positive}, Mul({negative}, s))", "PRelu(x, s)", *_X, *_SLOPES)
        for positive in _POSITIVE
        for negative in _NEGATIVE
    ),
    *(
        _family(f"{op}({_POSITIVE[0]}, Mul(Relu(Neg(x)), {slope}))", "PRelu(x, s)", *_X, *_SLOPES)
        for op, slope in (("Sub", "s"), ("Add", "Neg(s)"))
    ),
    # The larger of two multiples. That holds up to a slope of 1, so slopes are literals: those that models have.
    *(_family(f"Max(x, Mul(x, {_number(slope)}))", f"LeakyRelu[alpha={slope}](x)", *_X) for slope in _SLOPES_OF_MODELS),
    # A choice by the sign.
    *(
        _family(form, "PRelu(x, s)", *_X, *_SLOPES)
        for form in (
            f"Where(Less(x, {_ZERO}), Mul(x, s), x)",
            f"Where(Greater(x, {_ZERO}), x, Mul(x, s))",
            f"Where(GreaterOrEqual(x, {_ZERO}), x, Mul(x, s))",
        )
    ),
    _family(f"Add(Mul(Tanh(Mul(x, {_HALF})), {_HALF}), {_HALF})", "Sigmoid(x)", *_X),
    # Limits, one after the other.
    *(
        _family(form, f"Clip[bound_high={high}, bound_low={low}](x)", *_X)
        for form, low, high in (
            (f"Min(Relu(x), {_number(6.0)})", 0.0, 6.0),
            (f"Max(Min(x, {_number(6.0)}), {_ZERO})", 0.0, 6.0),
            (f"Relu(Min(x, {_number(6.0)}))", 0.0, 6.0),
            (f"Min(Max(x, {_number(-2.0)}), {_number(3.0)})", -2.0, 3.0),
            (f"Max(Min(x, {_number(3.0)}), {_number(-2.0)})", -2.0, 3.0),
        )
    ),
    # A slope for all channels.
    _family(f"PRelu(x, {_number(0.25)})", "LeakyRelu[alpha=0.25](x)", *_X),
)
