"""The grammar of activations: compositions, symmetries, and operators that they commute with. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from superopt.generate.grammar import Family, Use, binary, concat, inputs, ones, slices, splits, transpose, unary

__all__ = ["ACTIVATION"]


def _each(functions: Mapping[str, Mapping[str, Any]], slots: tuple[str, ...]) -> tuple[Use, ...]:
    return tuple(Use(op.split()[0], attrs, (1,), slots) for op, attrs in functions.items())


_GELU: Mapping[str, Mapping[str, Any]] = {"Gelu exact": {"approximate": "none"}, "Gelu fast": {"approximate": "tanh"}}
_SMOOTH = {**_GELU, "QuickGelu": {"alpha": 1.0}, "Softplus": {}, "Mish": {}}
# In each group, no function leaves the results of another function unchanged; such pairs would give needless rules.
_GROUPS: tuple[Mapping[str, Mapping[str, Any]], ...] = (_GELU, {"Clip": {"bound_low": 0.0, "bound_high": 6.0}})
_MOVES = "x!Transpose,Concat,Slice,Split,Gather"

ACTIVATION: tuple[Family, ...] = (
    # Activations as compositions of simpler functions (Gelu, QuickGelu, Mish): exporters write them out.
    Family(
        "activation",
        (*inputs("a", (3, 4)), *inputs("b", (4,), "b", True)),
        (
            *_each(_SMOOTH, ("x!Sigmoid,Tanh,Softplus,Gelu,QuickGelu,FastGelu,BiasGelu,Mish,Mul",)),
            *unary("Sigmoid", slots=("a",)),
            *unary("Tanh", slots=("x!a,Sigmoid,Tanh,Gelu,QuickGelu,FastGelu,BiasGelu,Mish,Mul,Add",)),
            Use("FastGelu", {}, (1, 2), ("a", "b")),
            Use("BiasGelu", {}, (2,), ("a", "b")),
            *binary("Add", slots=("a", "b")),
            *binary("Mul", slots=("a", "x!a,Softplus,Gelu,QuickGelu,FastGelu,BiasGelu,Mish,Add")),
        ),
        runtime=3,
        variation="elementwise",
    ),
    # Relu, Abs and PRelu as each other: functions that are linear on either side of zero.
    Family(
        "activation",
        (*inputs("a", (3, 4)), *inputs("b", (4,), "b", True)),
        (
            Use("PRelu", {}, (2,), ("a", "w")),
            *unary("Relu Abs", slots=("x!PRelu,Relu,Abs,Mul,Add,Sub",)),
            *unary("Neg", slots=("a",)),
            *binary("Mul", slots=("x!a,PRelu,Neg,Abs", "b")),
            *binary("Add Sub", slots=("x!a,Neg,PRelu,Add,Sub", "x!a,Neg,PRelu,Add,Sub")),
            *unary("Neg", slots=("b",), run=False, fold=True),
        ),
        runtime=5,
        folded=(1, 1, 0, 0, 0, 0),
        variation="elementwise",
    ),
    # Symmetries of functions, such as Tanh(-x) = -Tanh(x): they move signs.
    Family(
        "activation",
        inputs("a", (3, 4)),
        (
            *unary("Neg Abs Relu", slots=("x!Relu",)),
            *unary("Tanh Erf Sigmoid Softsign", slots=("x!Tanh,Erf,Sigmoid,Softsign",)),
            *binary("Mul", slots=("a", "x!a")),
            *binary("Sub", slots=("Ones", "x!a,Neg")),
        ),
        runtime=2,
        constants=(ones(),),
        variation="elementwise",
    ),
    # Increasing functions with Max, Min and ReduceMax: the function may come before or after the extremum.
    Family(
        "activation",
        inputs("a y", (3, 4)),
        (
            *unary("Sigmoid Tanh Relu", slots=("x!Sigmoid,Tanh,Relu,Clip",)),
            Use("Clip", {"bound_low": 0.0, "bound_high": 6.0}, (1,), ("x!Sigmoid,Tanh,Relu,Clip,Max,Min",)),
            *binary("Max Min", slots=("x!Max,Min,Clip,ReduceMax",)),
            Use("ReduceMax", {"axes": (-1,), "keepdims": 1}, (1,), ("x!Max,Min,ReduceMax",)),
        ),
        runtime=3,
        variation="axes",
    ),
    *(
        # Functions of one element with operators that move elements: either may come first.
        Family(
            "activation",
            inputs("a y", (4, 6)),
            (
                *_each(functions, ("x!" + ",".join(op.split()[0] for op in functions),)),
                *transpose((1, 0), slots=(_MOVES,)),
                *concat(-1, slots=(_MOVES,)),
                *slices(-1, slots=(_MOVES,)),
                *splits(-1, slots=(_MOVES,)),
                Use("Gather", {"axis": -2, "indices": 0}, (1,), (_MOVES,)),
            ),
            runtime=3,
            elements=48,
            variation="layout",
            split_axes=(-1,),
        )
        for functions in _GROUPS
    ),
)
