"""The grammar of linear operators on one tensor that weights do not enter, and of scales, signs and sums before or
after them: a scale may move on to where weights or another scale take it. Compared at real numbers. Data only."""

from __future__ import annotations

from superopt.evaluate.residues import Shape
from superopt.generate.grammar import Family, Use, binary, inputs, unary

__all__ = ["SCALED"]

_MATRIX, _IMAGE = (4, 6), (2, 4, 4, 6)
_BEFORE = "x|y|Mul|Div|Neg|Add|Sub"
_AVERAGE = {
    "count_include_pad": 1, "dilations": (1, 1), "kernel_shape": (2, 2), "pads": (0, 0, 0, 0), "strides": (2, 2),
}  # fmt: skip
_LINEAR: tuple[tuple[Shape, str, dict[str, object]], ...] = (
    (_MATRIX, "Pad", {"pads": (0, 1, 0, 2), "value": 0.0}),
    (_MATRIX, "PadCopy", {"mode": "edge", "pads": (0, 1, 0, 1)}),
    (_MATRIX, "CumSum", {"axis": -1, "exclusive": 0, "reverse": 0}),
    (_MATRIX, "Tile", {"repeats": (1, 2)}),
    (_IMAGE, "SpaceToDepth", {"blocksize": 2}),
    (_IMAGE, "DepthToSpace", {"blocksize": 2, "mode": "DCR"}),
    (_IMAGE, "DepthToSpace", {"blocksize": 2, "mode": "CRD"}),
    (_IMAGE, "AveragePool", _AVERAGE),
    (_IMAGE, "GlobalAveragePool", {}),
)

SCALED: tuple[Family, ...] = tuple(
    Family(
        "scaled",
        (*inputs("x y", shape), *inputs("s", ())),
        (
            Use(op, attrs, (1,), (_BEFORE,), made="Linear"),
            *unary("Neg", slots=("x|Linear",)),
            *binary("Mul Div", slots=("x|Linear", "s")),
            *binary("Add Sub", slots=("x|y|Linear", "x|y|Linear")),
        ),
        3,
        elements=400,
        variation="axes" if shape is _MATRIX else "",
        reals=True,
    )
    for shape, op, attrs in _LINEAR
)
