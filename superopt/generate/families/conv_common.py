"""Shapes, variables and operators that the families of convolutions share."""

from __future__ import annotations

from superopt.generate.grammar import Use, inputs

__all__ = [
    "BATCH",
    "BIASES",
    "DEPTHWISE1",
    "DEPTHWISE3",
    "IMAGE",
    "K1",
    "K3",
    "LINE",
    "SCALAR",
    "SWAP_CHANNELS",
    "WIDE",
    "conv",
    "conv_transpose",
]

SWAP_CHANNELS = (1, 0, 2, 3)


IMAGE, LINE = (1, 2, 2, 2), (1, 2, 3)
BATCH = (2, 2, 4, 4)
WIDE = (1, 4, 2, 2)
K1, K3 = (2, 2, 1, 1), (2, 2, 3, 3)
DEPTHWISE1, DEPTHWISE3 = (2, 1, 1, 1), (2, 1, 3, 3)
SCALAR = inputs("s", (), "s", True)
BIASES = inputs("b c", (2,), "b", True)


def conv(
    pads: int,
    group: int = 1,
    arities: tuple[int, ...] = (2, 3),
    slots: tuple[str, ...] = ("x", "w"),
    *,
    axes: int = 2,
) -> Use:
    """Return Conv of stride 1 over images, or over lines if `axes` is 1."""
    attrs = {"dilations": (1,) * axes, "group": group, "pads": (pads,) * 2 * axes, "strides": (1,) * axes}
    return Use("Conv", attrs, arities, slots)


def conv_transpose(pads: int, slots: tuple[str, ...] = ("x", "w")) -> Use:
    """Return ConvTranspose of stride 1 over images, with and without a bias."""
    return Use("ConvTranspose", {**conv(pads).attrs, "output_padding": (0, 0)}, (2, 3), slots)
