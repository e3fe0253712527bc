"""Values of options, whoever gives them from Python: errors in one line for those of a type that is not taken."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

__all__ = ["SAMPLES", "as_list", "check_at_least", "check_shapes", "whole"]

SAMPLES = ((str, Path, Mapping), ".npz files or arrays by name")  # types of values of inputs, and how they are called


def whole(name: str, value: Any) -> int:
    """Return the whole number `value`, one of NumPy's as an `int`. Raises ValueError."""
    if not isinstance(value, Integral):
        raise ValueError(f"{name} must be a {'whole number' if isinstance(value, Real) else 'number'}, not {value!r}")
    return int(value)


def check_at_least(name: str, value: Any, least: int) -> None:
    """Raise ValueError if `value` is no number that is at least `least`."""
    is_number = isinstance(value, Real)  # a variable: comparisons of Real with int have no types
    if not is_number:
        raise ValueError(f"{name} must be a number, not {value!r}")
    if not value >= least:  # NaN is refused as well
        raise ValueError(f"{name} must be at least {least}, not {value}")


def as_list(name: str, value: Any, types: tuple[type, ...], expected: str) -> Sequence[Any]:
    """Return the list `value`, with elements of `types`; a tuple if it is a set, or an element. Raises ValueError."""
    if isinstance(value, types):
        return (value,)
    if isinstance(value, Collection) and all(isinstance(each, types) for each in value):
        return value if isinstance(value, Sequence) else tuple(value)
    raise ValueError(f"{name} must be {expected}, not {value!r}")


def check_shapes(shapes: Any) -> None:
    """Raise ValueError if `shapes` are not shapes by input."""
    if not isinstance(shapes, Mapping):
        raise ValueError(f"shapes must be a dictionary of shapes by input, not {shapes!r}")
    if shapes:
        from superopt.runtime import check_given  # imports here: the command line's help needs defaults only

        for name, shape in shapes.items():
            check_given(name, shape)
