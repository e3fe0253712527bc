"""The grammar of the place of the largest or smallest element, and of what may be computed before: a classifier reads
the place only, so a function that keeps the order of elements is not needed. Compared at real numbers. Data only."""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, Variable, along, axes, binary, inputs, reshape, unary

__all__ = ["EXTREMA"]

_SHAPE = (4, 6)


def _places(keepdims: int, *slots: str) -> tuple[Use, ...]:
    return tuple(Use(name, {"axis": -1, "keepdims": keepdims}, (1,), slots) for name in ("ArgMax", "ArgMin"))


def _family(variables: tuple[Variable, ...], *uses: Use) -> Family:
    return Family("extrema", variables, uses, 2, variation="axes", reals=True)


EXTREMA: tuple[Family, ...] = (
    # Functions that keep the order or turn it round, and sums with one number.
    *(
        _family(
            (*inputs("a", _SHAPE), *inputs("s", ())),
            *unary("Neg", slots=("a",)),
            *along("LogSoftmax", "a"),
            *binary("Add Sub", slots=("a", "s")),
            *binary("Sub", slots=("s", "a")),
            *_places(keepdims, "a|Neg|LogSoftmax|Add|Sub"),
        )
        for keepdims in (0, 1)
    ),
    # The axis is kept, or removed after.
    _family(
        inputs("a", _SHAPE),
        *_places(0, "a"),
        *_places(1, "a"),
        *axes("Squeeze", (-1,), slots=("ArgMax|ArgMin",)),
        *axes("Unsqueeze", (-1,), slots=("ArgMax|ArgMin",)),
        *reshape((-1,), slots=("ArgMax|ArgMin",)),
    ),
)
