"""The grammar of elementwise functions, comparisons, choices, truth values and conversions, compared at real numbers.

Two operators of any kind on each side, with the constants that models have. Data only.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Family, Use, Variable, binary, inputs, number, ones, unary, zeros

__all__ = ["POINTWISE"]

_SHAPE = (4, 6)
_FUNCTIONS = "Neg Abs Reciprocal Sqrt Exp Log Relu"
_ACTIVATIONS = "Sigmoid Tanh"
_ROUNDED = "Floor Ceil Round Sign"
_COMPARISONS = "Equal Less Greater LessOrEqual GreaterOrEqual"
_SMALL = "Zeros|Ones|ConstantOfShape"
_TRUE, _CHOSEN = "c|d|Not|And|Or", "x|y|z|Where|Neg|Abs|Relu|Add|Mul|Max"
_APPLIED, _COMBINED = "x|y|Neg|Abs|Reciprocal|Sqrt|Exp|Log|Relu", "x|y|Add|Sub|Mul|Div|Max|Min"

_SIGNED, _LOGIC = "x|Sign|Abs|Relu|Neg", "c|d|Not|And|Or|Xor"


def _clip(low: float, high: float) -> Use:
    return Use("Clip", {"bound_low": low, "bound_high": high}, (1,))


def _cast(*types: str, slots: tuple[str, ...] = ("*",)) -> tuple[Use, ...]:
    return tuple(Use("Cast", {"to": to}, (1,), slots) for to in types)


def _family(variables: tuple[Variable, ...], uses: tuple[Use, ...], runtime: int = 2, **kinds: Any) -> Family:
    return Family("pointwise", variables, uses, runtime, **{"variation": "pointwise", "reals": True, **kinds})


_REAL = inputs("x y z", _SHAPE)
_TRUTH = inputs("c d e", _SHAPE, dtype="bool")

POINTWISE: tuple[Family, ...] = (
    # Arithmetic, roots, exponentials and extrema: signs, quotients, powers.
    _family(_REAL, (*unary(_FUNCTIONS), *binary("Add Sub Mul Div Max Min"))),
    # Functions of one number before and after functions of two: Log(x) + Log(y) = Log(x y).
    _family(
        _REAL[:2],
        (
            *unary(_FUNCTIONS, slots=(_COMBINED,)),
            *binary("Add Sub Mul Div Max Min", slots=(_APPLIED, _APPLIED)),
        ),
        runtime=3,
    ),
    # Extrema and sums: both distribute.
    _family(_REAL, binary("Add Max Min"), runtime=3),
    # Multiples that differ by one.
    _family(_REAL[:2], binary("Add Sub Mul"), constants=(ones(),)),
    # Functions of one number after each other.
    _family(
        inputs("x", _SHAPE),
        (*unary(f"{_FUNCTIONS} {_ACTIVATIONS} {_ROUNDED}"), _clip(0.0, 6.0), _clip(-1.0, 1.0), _clip(0.0, 1.0)),
    ),
    # Functions of one number and the constants that models have.
    _family(
        inputs("x", _SHAPE),
        (
            *unary("Exp Sqrt Abs Relu Sigmoid", slots=("x",)),
            *unary("Neg Reciprocal"),
            *binary("Add Mul Max Min Sub Div", slots=("x|Exp|Sqrt|Abs|Relu|Sigmoid", _SMALL)),
            *binary("Sub Div", slots=(_SMALL, "x")),
            *binary("Add Mul", slots=("x", "x")),
            Use("Pow", slots=("x|Exp|Sqrt|Abs", _SMALL)),
        ),
        constants=(zeros(), ones(), number(2.0), number(0.5), number(-1.0)),
    ),
    # Powers as products.
    _family(
        inputs("x", _SHAPE),
        (
            *unary("Sqrt Reciprocal"),
            *binary("Mul", slots=("x|Mul|Sqrt", "x|Mul|Sqrt")),
            Use("Pow", slots=("x", _SMALL)),
        ),
        constants=(number(2.0), number(3.0), number(4.0), number(-2.0), number(-0.5), number(1.5)),
        runtime=3,
    ),
    # Logic.
    _family(_TRUTH, (*unary("Not"), *binary("And Or Xor Equal"))),
    _family(_TRUTH, (*unary("Not", slots=("c|d|e|And|Or",)), *binary("And Or")), runtime=3),
    # Logic with constants.
    _family(_TRUTH[:2], (*unary("Not"), *binary("And Or Xor Equal")), constants=(zeros(), ones())),
    # Comparisons, and their negations.
    _family(
        _REAL,
        (*unary("Not Neg"), *binary(_COMPARISONS), *binary("And Or"), *binary("Add Sub", slots=("x|y|z",))),
    ),
    _family(
        inputs("x", _SHAPE),
        (*unary("Not Neg Abs Exp Relu"), *binary(_COMPARISONS), *binary("And Or")),
        constants=(zeros(), ones()),
    ),
    # Choices.
    _family(
        (*_TRUTH[:2], *_REAL),
        (
            *unary("Not", slots=("c|d",)),
            *binary("And Or", slots=("c|d",)),
            Use("Where", arities=(3,), slots=(_TRUE, _CHOSEN, _CHOSEN)),
            *unary("Neg Abs Relu", slots=("x|y|Where",)),
            *binary("Add Mul Max", slots=("x|y|z|Where",)),
        ),
    ),
    # Choices between functions of two numbers.
    _family(
        (*_TRUTH[:1], *_REAL),
        (
            Use("Where", arities=(3,), slots=("c", "x|y|z|Add|Mul|Neg", "x|y|z|Add|Mul|Neg")),
            *unary("Neg", slots=("x|y|z|Where",)),
            *binary("Add Mul", slots=("x|y|z|Where", "x|y|z")),
        ),
        runtime=3,
    ),
    # Choices by a comparison: extrema, absolute values, Relu.
    _family(
        inputs("x y", _SHAPE),
        (
            *binary(_COMPARISONS, slots=("x|y|Zeros", "x|y|Zeros")),
            Use("Where", arities=(3,), slots=("*", "x|y|Zeros|Neg", "x|y|Zeros|Neg")),
            *unary("Abs Relu"),
            *unary("Neg", slots=("x|y",)),
            *binary("Max Min", slots=("x|y|Zeros",)),
        ),
        runtime=3,
        constants=(zeros(),),
    ),
    # Conversions between element types.
    _family(
        (*inputs("x", _SHAPE), *inputs("n", _SHAPE, dtype="int32"), *inputs("c", _SHAPE, dtype="bool")),
        (
            *_cast("float", "double", "int32", "int64", "bool"),
            *unary("Neg Abs Relu Sign Not Floor Identity"),
        ),
    ),
    # Two conversions, one after the other, of short integers and short real numbers.
    *(
        _family(
            inputs("x", _SHAPE, dtype=dtype),
            (*_cast("float", "float16", "double", "int32", "int64"), *_cast(dtype, slots=("Cast",))),
        )
        for dtype in ("uint8", "int8", "float16", "int64")
    ),
    _family(
        (*_TRUTH[:2], *inputs("x y", _SHAPE)),
        (
            *_cast("float", slots=("c|d|And|Or|Not|Where",)),
            *unary("Not", slots=("c|d",)),
            *binary("And Or Xor", slots=("c|d",)),
            *binary("Mul Sub Max Min", slots=("x|Cast|Ones",)),
            Use("Where", arities=(3,), slots=("c|d", "x|y|Zeros|Ones", "x|y|Zeros|Ones")),
        ),
        constants=(zeros(), ones()),
        runtime=3,
    ),
    # Clip as extrema.
    _family(
        inputs("x", _SHAPE),
        (
            _clip(-1.0, 1.0),
            *unary("Neg", slots=("x|Clip",)),
            *binary("Max Min", slots=("x|Max|Min|Neg|Clip", "ConstantOfShape|Ones")),
        ),
        constants=(number(-1.0), ones()),
    ),
    # Powers, roots and multiples of exponentials and logarithms.
    _family(
        inputs("x", _SHAPE),
        (
            *unary("Exp Log Sqrt Reciprocal Neg", slots=("x|Mul|Pow|Exp|Log|Sqrt",)),
            *binary("Mul Pow", slots=("x|Exp|Log|Sqrt|Reciprocal|Pow", "ConstantOfShape")),
        ),
        constants=(number(0.5), number(3.0), number(2.0), number(-0.5)),
    ),
    # Two numbers by their extrema, sum, difference and product.
    _family(
        inputs("x y", _SHAPE),
        (
            *unary("Abs", slots=("Sub|x|y",)),
            *binary("Max Min", slots=("x|y|Mul", "x|y|Mul")),
            *binary("Add Sub Mul", slots=("x|y|Max|Min|Abs|Add", "x|y|Max|Min|Abs|Add")),
            Use("Mul", slots=("Add|Sub|Abs", "ConstantOfShape")),
        ),
        runtime=3,
        constants=(number(0.5),),
    ),
    # A number by its sign and its absolute value.
    _family(
        inputs("x", _SHAPE),
        (*unary("Sign Abs Relu Neg", slots=("x|Neg",)), *binary("Add Sub Mul Div", slots=(_SIGNED, _SIGNED))),
        runtime=3,
    ),
    # Signs of products and quotients.
    _family(
        inputs("x y", _SHAPE),
        (
            *unary("Sign Abs Exp Relu Sqrt Neg", slots=("x|y|Mul|Div|Exp|Abs",)),
            *binary("Mul Div", slots=("x|y|Sign|Abs|Exp|Relu|Neg", "x|y|Sign|Abs|Exp|Relu|Neg")),
        ),
        runtime=3,
    ),
    # Comparisons of sums, differences and negatives, and with a number.
    _family(
        inputs("x y z", _SHAPE),
        (
            *binary("Add Sub", slots=("x|y|z", "x|y|z|ConstantOfShape")),
            *unary("Neg", slots=("x|y|z",)),
            *binary(_COMPARISONS, slots=("x|y|z|Add|Sub|Neg", "x|y|z|Add|Sub|Neg|Zeros|ConstantOfShape")),
        ),
        constants=(zeros(), number(1.5)),
    ),
    _family(
        inputs("x y z", _SHAPE),
        (*binary("Add Sub", slots=("x|y", "z")), *binary(_COMPARISONS, slots=("x|y|z|Add|Sub", "x|y|z|Add|Sub"))),
        runtime=3,
    ),
    # Choices between functions of two numbers each.
    _family(
        (*_TRUTH[:1], *inputs("x y z w", _SHAPE)),
        (
            Use("Where", arities=(3,), slots=("c", "x|y|Sum", "z|w|Sum")),
            *binary("Add Mul", slots=("x|y", "z|w"), made="Sum"),
            *binary("Add Mul", slots=("Where", "Where")),
        ),
        runtime=3,
    ),
    # Functions of choices.
    _family(
        (*_TRUTH[:1], *_REAL[:2]),
        (
            *unary("Exp Log Sqrt Tanh Sigmoid Neg Abs Relu", slots=("x|y",), made="Mapped"),
            *unary("Exp Log Sqrt Tanh Sigmoid Neg Abs Relu", slots=("Where",)),
            Use("Where", arities=(3,), slots=("c", "x|y|Mapped", "x|y|Mapped")),
        ),
        runtime=3,
    ),
    # Truth values by other operators: differences, implications, equivalences.
    _family(
        _TRUTH[:2],
        (*unary("Not", slots=("c|d|And|Or|Xor",)), *binary("And Or Xor", slots=(_LOGIC, _LOGIC))),
        runtime=3,
    ),
    # Integers.
    _family(
        inputs("n m", _SHAPE, dtype="int64"),
        (*unary("Neg Abs Sign"), *binary("Add Sub Mul Max Min")),
        constants=(ones(), number(2.0)),
    ),
    # Activations by exponentials.
    _family(
        inputs("x", _SHAPE),
        (
            *unary("Sigmoid Tanh Softplus", slots=("x|Neg|Mul",)),
            *unary("Exp", slots=("x|Neg",)),
            *unary("Log", slots=("Sigmoid|Add",)),
            *unary("Neg Reciprocal", slots=("x|Log|Add|Softplus|Tanh",)),
            *binary("Add Sub", slots=("Exp|Mul|Sigmoid|Ones", "Ones|Sigmoid|Exp")),
            *binary("Mul", slots=("x|Sigmoid", "ConstantOfShape|Sub|Sigmoid")),
            *binary("Div Sub", slots=("Exp|x|Softplus|Ones", "Add|Softplus")),
        ),
        runtime=4,
        constants=(ones(), number(2.0)),
    ),
    # Rectifiers by each other.
    _family(
        inputs("x", _SHAPE),
        (
            *(Use("LeakyRelu", {"alpha": alpha}, (1,)) for alpha in (0.25, 0.0, 1.0)),
            *(Use("Elu", {"alpha": alpha}, (1,)) for alpha in (1.0, 0.5)),
            *(Use(op, {"alpha": 1.0}, (1,)) for op in ("Celu", "ThresholdedRelu")),
            Use("ThresholdedRelu", {"alpha": 0.0}, (1,)),
            Use("PRelu", slots=("*", "ConstantOfShape|Zeros|Ones")),
            *unary("Relu Exp Neg Abs", slots=("x|Neg|Min|Max|Relu|Elu|LeakyRelu",)),
            *binary("Max Min", slots=("x", "Zeros")),
            *binary("Sub", slots=("Exp", "Ones")),
        ),
        constants=(zeros(), ones(), number(0.25)),
    ),
)
