"""The grammar of numbers on a grid of integers, which operators that only move elements may move before or after they
are converted: as integers they are a quarter of the bytes. Data only."""

from __future__ import annotations

from superopt.generate.grammar import (
    Family,
    Use,
    Variable,
    axes,
    concat,
    gather,
    inputs,
    reshape,
    slices,
    transpose,
    with_values,
)

__all__ = ["QUANTIZED"]

_SHAPE = (4, 6)
_TYPES = ("int8", "uint8")


def _moves(*slots: str) -> tuple[tuple[Use, ...], ...]:
    return (
        transpose((1, 0), slots=slots),
        slices(-1, -2, slots=slots)[::2],
        gather(-1, (2, 0), 1, slots=slots),
        axes("Unsqueeze", (-1,), (-3,), slots=slots),
        reshape((24,), (3, 8), slots=slots),
        with_values("Expand", "shape", (2, 4, 6), slots=slots),
        with_values("Tile", "repeats", (1, 2), slots=slots),
        concat(-1, slots=slots),
    )


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2) -> Family:
    return Family("quantized", variables, uses, runtime, elements=48, variation="layout", reals=True)


def _grid(dtype: str) -> tuple[Variable, ...]:
    """Return the size of a step, and the integer that stands for zero."""
    return (*inputs("s", ()), *inputs("z", (), dtype=dtype))


def _use(op: str, *slots: str) -> Use:
    # One step is that of all axes. The axis is another one than that of the moves, so that both are free.
    return Use(op, {"axis": -2}, (3,), (*slots, "s", "z"))


QUANTIZED: tuple[Family, ...] = (
    *(
        # Integers, moved and converted to real numbers.
        _family(
            (*inputs("x y", _SHAPE, dtype=dtype)[: 1 + (uses[0].op == "Concat")], *_grid(dtype)),
            *uses,
            _use("DequantizeLinear", f"x|y|{uses[0].op}"),
            runtime=2 + (uses[0].op == "Concat"),
        )
        for dtype in _TYPES
        for uses in _moves("x|y|DequantizeLinear")
    ),
    *(
        # Real numbers, moved and rounded to integers.
        _family(
            (*inputs("x y", _SHAPE)[: 1 + (uses[0].op == "Concat")], *_grid(dtype)),
            *uses,
            _use("QuantizeLinear", f"x|y|{uses[0].op}"),
            runtime=2 + (uses[0].op == "Concat"),
        )
        for dtype in _TYPES
        for uses in _moves("x|y|QuantizeLinear")
    ),
    *(
        # Integers as real numbers, and back.
        _family(
            (*inputs("x", _SHAPE, dtype=dtype), *_grid(dtype)),
            _use("DequantizeLinear", "x|QuantizeLinear"),
            _use("QuantizeLinear", "DequantizeLinear"),
        )
        for dtype in _TYPES
    ),
)
