"""Resize in both modes, at whole scales and at fractions."""

from __future__ import annotations

import random
from typing import Any

from superopt.ops.resize import NEAREST_MODES, REPEATING
from tests.support.semantic_cases.case import Case, Maker, values

__all__ = ["CASES"]

_FRACTIONS = (0.25, 0.375, 0.5, 0.75, 1.25, 1.5, 2.5, 3.5)


def _scales(rng: random.Random, axes: int) -> tuple[tuple[int | float, ...], tuple[int, ...]]:
    """Scales, and sizes that they make whole and above 1."""
    scales: list[int | float] = []
    sizes = []
    for _ in range(axes):
        scale: int | float = rng.choice([1, 2, 3, 4, 5]) if rng.random() < 0.6 else rng.choice(_FRACTIONS)
        size = rng.randint(1, 4)
        if isinstance(scale, float):
            size *= scale.as_integer_ratio()[1]
            size *= 1 if size * scale >= 2 else 2
        scales.append(scale)
        sizes.append(size)
    return tuple(scales), tuple(sizes)


def _resize(rng: random.Random) -> Case:
    spatial = rng.choice([1, 2, 2, 3])
    batch = (rng.randint(1, 2), rng.randint(1, 3))
    opset = rng.choice([9, 10, 11, 13, 17, 18, 19])
    if rng.random() < 0.3 or opset < 11:
        sizes = tuple(rng.randint(1, 4) for _ in range(spatial))
        attrs: dict[str, Any] = {**REPEATING, "scales": tuple(rng.randint(1, 3) for _ in range(spatial))}
    else:
        scales, sizes = _scales(rng, spatial)
        transformation, rounding = rng.choice(["half_pixel", "asymmetric"]), rng.choice(NEAREST_MODES)
        attrs = {"coordinate_transformation_mode": transformation, "nearest_mode": rounding, "scales": scales}
        rounds = rounding.startswith("round") if transformation == "half_pixel" else rounding == "floor"
        if all(isinstance(scale, int) for scale in scales) and (rounds or max(scales) < 3):
            attrs.update(REPEATING)
    # onnx.reference has no Upsample at all, and calls Resize's modes by what came with opset 11.
    oracles = ("onnxruntime", "reference") if opset >= 11 else ("onnxruntime",)
    return Case(attrs, [values(rng, batch + sizes, rng.choice(["float32", "float32", "int32"]))], oracles, opset)


def _resize_linear(rng: random.Random) -> Case:
    """ONNX Runtime has two axes after the first two, or the two in the middle of four, or three after the first two."""
    opset = rng.choice([9, 10, 11, 13, 17, 18, 19])
    scales, sizes = _scales(rng, rng.choice([2, 2, 2, 3]))
    transformation = rng.choice(["half_pixel", "asymmetric", "align_corners"])
    if opset < 11:
        transformation = "asymmetric"
        if opset < 10:
            scales = tuple(max(scale, 1) for scale in scales)
    shape = (rng.randint(1, 2), rng.randint(1, 3), *sizes)
    if len(scales) == 2 and scales[0] != 1 and opset >= 11 and rng.random() < 0.3:
        scales, shape = (*scales, 1), (shape[0], *sizes, shape[1])
    oracles = ("onnxruntime", "reference") if opset >= 11 else ("onnxruntime",)
    attrs = {"coordinate_transformation_mode": transformation, "scales": scales}
    return Case(attrs, [values(rng, shape)], oracles, opset)


CASES: dict[str, Maker] = {
    "Resize": _resize,
    "ResizeLinear": _resize_linear,
}
