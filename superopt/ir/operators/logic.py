"""Truth values, comparisons, and conversions between element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from superopt.ir.operators.spec import IllTyped, boolean, elementwise, op, same

__all__ = ["CASTABLE", "SPECS"]

# Element types that Cast is modelled between.
CASTABLE = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float double".split()  # noqa: SIM905
)


def _truths(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Truth values to a truth value."""
    if same(dtypes, attrs, "bool") != "bool":
        raise IllTyped("a truth value is needed")
    return "bool"


def _compared(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """Numbers or truth values of one type to a truth value; texts are not modelled."""
    if "string" in dtypes:
        raise IllTyped("comparison of texts")
    return boolean(dtypes, attrs, default)


def _selected(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    """A truth value, and two inputs of the type of the output."""
    _truths(dtypes[:1], attrs, default)
    return same(dtypes[1:], attrs, default)


def _cast(dtypes: Sequence[str | None], attrs: Mapping[str, Any], default: str) -> str:
    for dtype in (*dtypes, attrs["to"]):
        if dtype is not None and dtype not in CASTABLE:
            raise IllTyped(f"Cast between other element types than numbers: {dtype}")
    return str(attrs["to"])


SPECS = (
    op("Where", 3, 3, shape=elementwise, dtype=_selected, elementwise=True),
    op("Not", 1, 1, shape=elementwise, dtype=_truths, elementwise=True),
    *(
        op(name, 2, 2, shape=elementwise, dtype=_truths, commutative=True, elementwise=True)
        for name in ("And", "Or", "Xor")
    ),
    op("Equal", 2, 2, shape=elementwise, dtype=_compared, commutative=True, elementwise=True),
    *(
        op(name, 2, 2, shape=elementwise, dtype=_compared, elementwise=True)
        for name in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual")
    ),
    op("Cast", 1, 1, "to", shape=elementwise, dtype=_cast, elementwise=True),
)
