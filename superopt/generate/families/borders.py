"""The grammar of images whose borders are copied (Pad's modes "reflect" and "edge"), which a model pads before a
convolution, and of operators on pixels, which may be computed before, on a smaller image. Data only."""

from __future__ import annotations

from superopt.generate.families.usual import POINT
from superopt.generate.grammar import Family, Use, binary, concat, inputs, unary

__all__ = ["BORDERS"]

_AFTER = "Concat,Conv,Relu,Sigmoid,Add,Mul"
_LARGE = f"x!c,{_AFTER}"  # of one operator at the most

BORDERS: tuple[Family, ...] = tuple(
    Family(
        "borders",
        (
            *inputs("x y", (2, 3, 5, 7)),
            *inputs("c", (3, 1, 1)),
            *inputs("k", (4, 3, 1, 1), "k", True),
            *inputs("b", (4,), "b", True),
        ),
        (
            Use("PadCopy", {"mode": mode, "pads": (0, 0, 1, 1, 0, 0, 1, 1)}, (1,), ("x!c,PadCopy",)),
            *unary("Relu Sigmoid", slots=(_LARGE,)),
            *binary("Add Mul", slots=(_LARGE, f"x!{_AFTER}")),
            *concat(-3, slots=(_LARGE,)),
            Use("Conv", POINT, (2, 3), (_LARGE, "k", "b")),
        ),
        3,
        elements=960,
        variation="axes",
    )
    for mode in ("edge", "reflect")
)
