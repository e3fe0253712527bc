"""The grammar of Resize and of operators on pixels, which may be computed before the image is enlarged. Data only."""

from __future__ import annotations

from superopt.generate.families.usual import POINT
from superopt.generate.grammar import Family, Use, binary, concat, inputs, unary

__all__ = ["RESIZE"]

_AFTER = "Concat,Conv,Relu,Sigmoid,Add,Mul"
_LARGE = f"x!c,{_AFTER}"  # of one operator at the most
_VARIABLES = (
    *inputs("x y", (2, 3, 5, 7)),
    *inputs("c", (3, 1, 1)),
    *inputs("k", (4, 3, 1, 1), "k", True),
    *inputs("b", (4,), "b", True),
)


def _family(resize: Use, *uses: Use) -> Family:
    return Family("resize", _VARIABLES, (resize, *uses), 3, elements=1680, variation="axes")


RESIZE: tuple[Family, ...] = (
    # Elements are repeated: each function of one element may be computed before.
    _family(
        Use("Resize", {"scales": (2, 2)}, (1,), ("x!c,Resize",)),
        *unary("Relu Sigmoid", slots=(_LARGE,)),
        *binary("Add Mul", slots=(_LARGE, f"x!{_AFTER}")),
        *concat(-3, slots=(_LARGE,)),
        Use("Conv", POINT, (2, 3), (_LARGE, "k", "b")),
    ),
    # Elements are interpolated: each linear function of one element.
    _family(
        Use("ResizeLinear", {"scales": (2, 2)}, (1,), ("x!c,ResizeLinear",)),
        *binary("Add Mul", slots=(_LARGE, f"x!{_AFTER}")),
        *concat(-3, slots=(_LARGE,)),
        Use("Conv", POINT, (2,), (_LARGE, "k")),
    ),
    # Repeated elements, repeated again or pooled: each window of their number holds one element.
    Family(
        "resize",
        inputs("x", (2, 3, 4, 5)),
        (
            *(Use("Resize", {"scales": scales}, (1,), ("x",)) for scales in ((1, 1), (2, 1), (1, 2), (2, 2), (4, 4))),
            *(
                Use(
                    op,
                    {"dilations": (1, 1), "kernel_shape": (2, 2), "pads": (0,) * 4, "strides": (2, 2), **counted},
                    (1,),
                )
                for op, counted in (("MaxPool", {}), ("AveragePool", {"count_include_pad": 0}))
            ),
        ),
        2,
        elements=1920,
        variation="conv",
    ),
)
