"""The grammar of comparisons, choices between truth values, and converted values that are compared, chosen between
or joined. Graphs are compared at real numbers. Data only.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Family, Use, Variable, binary, concat, inputs, number, ones, unary, zeros

__all__ = ["TRUTH"]

_SHAPE = (4, 6)
_COMPARISONS = "Equal Less Greater LessOrEqual GreaterOrEqual"
_COMPARED = _COMPARISONS.replace(" ", "|")
_TRUTH, _REAL = inputs("c d e", _SHAPE, dtype="bool"), inputs("x y z", _SHAPE)


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2, **kinds: Any) -> Family:
    return Family("truth", variables, uses, runtime, **{"variation": "pointwise", "reals": True, **kinds})


def _where(*slots: str) -> Use:
    return Use("Where", {}, (3,), slots)


def _cast(to: str, slots: str) -> Use:
    return Use("Cast", {"to": to}, (1,), (slots,))


TRUTH: tuple[Family, ...] = (
    # Two comparisons of the same numbers.
    _family(
        inputs("a b", _SHAPE),
        *binary(_COMPARISONS, slots=("a", "b")),
        *binary(_COMPARISONS, slots=("b", "a")),
        *binary("And Or Xor", slots=(_COMPARED, _COMPARED)),
        *unary("Not", slots=(_COMPARED,)),
        runtime=3,
    ),
    # Comparisons of the larger or smaller one of two numbers.
    *(
        _family(
            _REAL,
            *binary("Max Min", slots=("x|y", "x|y")),
            *binary(names, slots=("x|y|Max|Min", "z")),
            *binary(names, slots=("z", "x|y|Max|Min")),
            *binary("And Or", slots=(names.replace(" ", "|"), names.replace(" ", "|"))),
            runtime=3,
        )
        for names in ("Less LessOrEqual", "Greater GreaterOrEqual")
    ),
    # Comparisons and extrema of multiples.
    *(
        _family(
            inputs("a b", _SHAPE),
            *binary("Mul", slots=("a|b|Max|Min", "ConstantOfShape")),
            *binary(names, slots=("a", "b")),
            *binary(names, slots=("Mul", "Mul")),
            runtime=3,
            constants=(number(factor),),
        )
        for factor in (2.0, -2.0)
        for names in ("Max Min", _COMPARISONS)
    ),
    # Choices between truth values.
    _family(
        _TRUTH,
        _where("c|Not", "d|Zeros|Ones|Not", "e|d|Zeros|Ones|Not"),
        *unary("Not", slots=("c|d",)),
        *binary("And Or Xor Equal", slots=("c|d|Not", "c|d|e|Not")),
        constants=(zeros(), ones()),
    ),
    *(
        # Converted values that are compared, chosen between or joined.
        _family(
            (*inputs("x y", _SHAPE, dtype=dtype), *_TRUTH[:1]),
            _cast(to, "x|y|Concat|Where|Max|Min"),
            *concat(-1, slots=("x|y|Cast", "x|y|Cast")),
            _where("c", "x|y|Cast", "x|y|Cast"),
            *(binary(f"{_COMPARISONS} Max Min", slots=("x|y|Cast", "x|y|Cast")) if dtype != "bool" else ()),
            runtime=3,
            elements=48,
        )
        for dtype, to in (
            ("int32", "int64"), ("int64", "int32"), ("int32", "float"), ("int64", "float"), ("float", "double"),
            ("float", "float16"), ("double", "float"), ("bool", "float"), ("bool", "int64"), ("float", "int64"),
        )
    ),
    # Truth values as numbers, and back.
    _family(
        (*_TRUTH[:1], *_REAL[:2]),
        _cast("float", "c|Not|Equal|Greater"),
        _cast("bool", "x|Cast"),
        *unary("Not", slots=("c|Equal|Cast",)),
        *binary("Sub", slots=("Ones", "Cast")),
        *binary("Equal Greater", slots=("Cast|x", "Zeros|Ones")),
        _where("c|Not|Equal|Cast", "x|y", "x|y"),
        runtime=3,
        constants=(zeros(), ones()),
    ),
    # Functions of negatives.
    _family(
        _REAL[:1],
        *unary("Neg Abs", slots=("x|Sin|Cos|Round|Erf|Tanh|Sign",)),
        *unary("Sin Cos Round Erf Tanh Sign", slots=("x|Neg|Abs",)),
    ),
)  # fmt: skip
