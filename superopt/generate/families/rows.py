"""The grammar of rows that are cut before or after operators that regroup axes. Data only.

Attention splits and merges heads by Reshape and Transpose, and each row of its result needs only one row of the
queries. A cut that passes these operators leaves the other rows uncomputed. Exporters write the shapes of Reshape in
several ways: with sizes, with 0 for sizes that stay, and with -1 for one size.
"""

from __future__ import annotations

from superopt.evaluate.residues import Shape
from superopt.generate.grammar import Family, Use, axes, cut, inputs, reshape, transpose

__all__ = ["ROWS"]

_MOST = 1 << 10  # graphs on a level


def _family(size: Shape, target: str, *uses: Use) -> Family:
    return Family("rows", inputs("x", size), uses, runtime=2, elements=210, targets=(target,), most=_MOST)


def _regrouped(size: Shape, before: int, after: int, shape: Shape, copied: Shape) -> Family:
    """Return the family of a cut along axis `after` of a value of this size that was reshaped to `shape`.

    `before` is that axis before the Reshape. `copied` is the shape with 0 for the sizes that stay, as it can be
    written for a part of the value, too.
    """
    target = f"Slice[axes=[{after}], ends=[4], starts=[1], steps=[1]](Reshape[allowzero=0, shape={[*shape]}](x))"
    return _family(size, target, cut(before, 1, 4), *reshape(copied))


ROWS: tuple[Family, ...] = (
    # One selected row is a part of one row: the part keeps its axis.
    _family((2, 5, 7), "Gather[axis=-2, indices=0](x)", cut(-2, 0, 1), *axes("Squeeze", (-2,), slots=("x",))),
    # Rows of merged heads: cut before the heads are merged.
    *(
        _regrouped((2, 5, 3, 7), -3, -2, shape, (0, 0, -1))
        for shape in ((2, 5, 21), (0, 0, 21), (0, 5, 21), (-1, 5, 21), (2, 5, -1), (0, 0, -1), (0, 5, -1))
    ),
    # Rows that are split into heads: cut before that.
    *(_regrouped((2, 5, 21), -2, -3, shape, (0, 0, 3, 7)) for shape in ((2, 5, 3, 7), (0, 0, 3, 7), (0, 5, 3, 7))),
    *(_regrouped((2, 5, 21), -2, -3, shape, (0, 0, -1, 7)) for shape in ((2, 5, -1, 7), (0, 0, -1, 7), (0, 5, -1, 7))),
    # Rows and heads that change places.
    *(
        _family(
            (2, 5, 3, 7),
            f"Slice[axes=[{after}], ends=[2], starts=[1], steps=[1]](Transpose[perm=[0, 2, 1, 3]](x))",
            cut(before, 1, 2),
            *transpose((0, 2, 1, 3)),
        )
        for before, after in ((-2, -3), (-3, -2))
    ),
)
