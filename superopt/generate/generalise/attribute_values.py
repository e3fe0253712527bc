"""Values of attributes to try besides the instance's value, in generalisation and for shipped signatures."""

from __future__ import annotations

from collections.abc import Mapping

from superopt.ir.term import Attr

__all__ = ["ALTERNATIVES"]

ALTERNATIVES: Mapping[str, tuple[Attr, ...]] = {
    "amounts": (
        (0, 0), (1, 0), (0, 2), (0, 0, 0, 0), (0, 1, 0, 2), (1, 0, 0, 0), (2, 1, 0, 3),
        (0, 0, 1, 1, 0, 0, 1, 1), (1, 0, 0, 2, 0, 3, 1, 0),
    ),
    "axes": ((-1,), (-2,), (-2, -1), (-3,), (-3, -2), (-3, -1)),
    "axis": (-1, -2, -3, -4),
    "blocksize": (2, 3),
    "bound_high": (-1.0, 0.0, 6.0),
    "bound_low": (-2.0, 0.0, 1.0),
    "coordinate_transformation_mode": ("half_pixel", "asymmetric"),
    "count_include_pad": (0, 1),
    "dilations": ((2, 2), (1, 2), (2,)),
    "borders": ((0, 0, 1, 1, 0, 0, 1, 1), (0, 0, 1, 0, 0, 0, 0, 2)),
    "exclusive": (0, 1),
    "group": (2, 3),
    "indices": (0, 1, (0,), (1,), (1, 0), (0, 2), (1, 1), (0, 1, 2), (2, 0, 1)),
    "keepdims": (0, 1),
    "kernel_shape": ((3, 3), (2, 2), (1, 2), (3,), (2,)),
    "linear_before_reset": (0, 1),
    "mode": ("DCR", "CRD"),
    "nearest_mode": ("round_prefer_floor", "floor", "ceil"),
    "num_groups": (1, 2),
    "num_heads": (1, 2),
    "output_padding": ((0, 0), (0, 1)),
    "p": (1, 2),
    "pads": ((0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 2, 1), (0, 0), (1, 1), (1, 0)),
    "repeats": ((1, 2), (2, 1), (2, 3), (1, 2, 1), (2, 1, 3), (1, 2, 1, 1), (2, 1, 1, 3)),
    "reverse": (0, 1),
    "scales": ((2, 2), (4, 4), (3, 2)),
    "steps": ((1,), (2,)),
    "strides": ((2, 2), (1, 2), (2,), (1,)),
    "transA": (0, 1),
    "transB": (0, 1),
    "upper": (0, 1),
}  # fmt: skip
