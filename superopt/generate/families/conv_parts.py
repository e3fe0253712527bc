"""The grammar of convolutions of some channels or every other pixel, and of kernels that are turned round. Data only.

A model that selects channels of a result needs only these rows of the kernel. A 1 x 1 Conv of stride 2 reads a quarter
of its image, so operators before it need not compute the rest. A ConvTranspose of stride 1 is a Conv.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.grammar import Family, Use, Variable, inputs, slices, transpose, unary

__all__ = ["CONV_PARTS"]

_SHAPE = (3, 8, 5, 7)
_FOLDED: dict[str, Any] = {"run": False, "fold": True}


def _family(variables: tuple[Variable, ...], *uses: Use, runtime: int = 2, folds: int = 0) -> Family:
    return Family(
        "conv_parts", variables, uses, runtime, (folds,) * (runtime + 1), elements=2000, variation="conv", unfolded=True
    )


def _conv(*slots: str, op: str = "Conv", **changed: int | tuple[int, ...]) -> Use:
    attrs = {"dilations": (1, 1), "group": 1, "pads": (1,) * 4, "strides": (1, 1), **changed}
    return Use(op, attrs, (2, 3), slots)


def _kernel(name: str, shape: tuple[int, ...], channels: int) -> tuple[Variable, ...]:
    """Return a kernel and the biases of as many channels."""
    return (*inputs(name, shape, name, True), *inputs("b", (channels,), "b", True))


CONV_PARTS: tuple[Family, ...] = (
    # Half of the channels of the result: of the kernel and the biases.
    _family(
        (*inputs("a", (2, 5, 4, 6)), *_kernel("k", (14, 5, 3, 3), 14)),
        *slices(-3, slots=("Conv",))[1:],
        *slices(-4, slots=("k",), **_FOLDED)[1:],
        *slices(-1, slots=("b",), **_FOLDED)[1:],
        _conv("a", "k|Slice", "b|Slice"),
        folds=2,
    ),
    # Every other row and column: a stride, a Slice, or a MaxPool of one pixel.
    _family(
        (*inputs("a", _SHAPE), *_kernel("u", (6, 8, 1, 1), 6)),
        Use("Slice", {"axes": (-2, -1), "starts": (0, 0), "ends": _SHAPE[2:], "steps": (2, 2)}, (1,), ("a|Relu",)),
        Use(
            "MaxPool",
            {"dilations": (1, 1), "kernel_shape": (1, 1), "pads": (0,) * 4, "strides": (2, 2)},
            (1,),
            ("a|Relu",),
        ),
        *unary("Relu", slots=("a|Slice|MaxPool",)),
        _conv("a|Slice|MaxPool|Relu", "u", "b", pads=(0,) * 4),
        _conv("a|Relu", "u", "b", pads=(0,) * 4, strides=(2, 2)),
    ),
    # A ConvTranspose as a Conv whose kernel is turned round, with the channels of the result first. The pads keep the
    # size of the image.
    _family(
        (*inputs("a", _SHAPE), *_kernel("k", (8, 6, 5, 5), 6)),
        Use(
            "Slice", {"axes": (-2, -1), "starts": (4, 4), "ends": (-1, -1), "steps": (-1, -1)}, (1,), ("k",), **_FOLDED
        ),
        *transpose((1, 0, 2, 3), slots=("Slice",), **_FOLDED),
        _conv("a", "k", "b", op="ConvTranspose", pads=(2,) * 4, output_padding=(0, 0)),
        _conv("a", "Transpose", "b", pads=(2,) * 4),
        runtime=1,
        folds=2,
    ),
)
