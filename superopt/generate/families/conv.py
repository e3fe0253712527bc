"""The grammar of convolutions: parallel Convs, pads and BatchNormalization; and `conv_sequence`. Data only.

Sizes that must agree for many operators to compose are equal here (as many channels in as out). Generalisation and
proof find out later which of these equalities a rule needs.
"""

from __future__ import annotations

from superopt.generate.families.conv_common import (
    BIASES,
    DEPTHWISE1,
    DEPTHWISE3,
    IMAGE,
    K1,
    K3,
    LINE,
    SWAP_CHANNELS,
    WIDE,
    conv,
    conv_transpose,
)
from superopt.generate.families.conv_sequence import CONV_SEQUENCES
from superopt.generate.grammar import (
    FOLDED,
    Family,
    Use,
    Variable,
    axes,
    binary,
    concat,
    dirac,
    inputs,
    ones,
    splits,
    zeros,
)

__all__ = ["CONV_FAMILIES"]

EPSILON = 1e-05
_STATISTICS = tuple(Variable(name, (2,), name, True) for name in ("s", "o", "m", "v"))
# BatchNormalization of values; of kernels, which it only scales (no offset, no mean); of biases.
_NORMALISE = Use("BatchNormalization", {"epsilon": EPSILON}, (5,), ("x!BatchNormalization", "s", "o", "m", "v"))
_NORMALISE_KERNEL = Use(
    "BatchNormalization",
    {"epsilon": EPSILON},
    (5,),
    ("w1!BatchNormalization", "s", "Zeros", "Zeros", "v"),
    run=False,
    fold=True,
)
_NORMALISE_BIAS = Use(
    "BatchNormalization",
    {"epsilon": EPSILON},
    (5,),
    ("w1!BatchNormalization", "s", "o", "m", "v"),
    run=False,
    fold=True,
)
CONV_FAMILIES = (
    # Convs of one image, and concatenated kernels: parallel Convs of one input become one Conv.
    Family(
        "conv",
        (*inputs("x", IMAGE), *inputs("w u", K3, "w", True), *BIASES),
        (
            conv(1, slots=("x!Conv,Add,Concat", "w")),
            *binary("Add", slots=("x!x,Add",)),
            *binary("Add", slots=("w0",), run=False, fold=True),
            *concat(-3, slots=("x!x,Add,Concat",)),
            *concat(-4, -1, **FOLDED),
        ),
        runtime=3,
        folded=(1, 2, 0, 0),
        shapes=frozenset({IMAGE, WIDE, K3, (4, 2, 3, 3), (2,), (4,)}),
        variation="conv",
        split_axes=(-3,),
    ),
    # Sums of Convs of two images: one Conv of the concatenated channels.
    Family(
        "conv",
        (*inputs("x y", IMAGE), *inputs("w u", K3, "w", True), *BIASES),
        (
            conv(1, slots=("x!Conv,Add", "w")),
            *binary("Add", slots=("x!x,y,Add,Concat",)),
            *binary("Add", slots=("w0",), run=False, fold=True),
            *concat(-3, slots=("x!Conv,Add",)),
            *concat(-3, **FOLDED),
        ),
        runtime=3,
        folded=(1, 2, 2, 0),
        shapes=frozenset({IMAGE, WIDE, K3, (2, 4, 3, 3), (2,)}),
        variation="conv",
    ),
    # A Conv of concatenated channels as a sum of Convs of the parts.
    Family(
        "conv",
        (*inputs("x y", IMAGE), *inputs("w", (2, 4, 3, 3), "w", True), *inputs("b", (2,), "b", True)),
        (
            conv(1, slots=("x!Conv,Add", "w!b", "b")),
            *binary("Add", slots=("x!x,y,Concat,Add",)),
            *concat(-3, slots=("x!Conv,Add,Concat",)),
            *splits(-3, **FOLDED),
        ),
        runtime=3,
        folded=(1, 1, 2, 2),
        shapes=frozenset({IMAGE, WIDE, (2, 4, 3, 3), K3, (2,)}),
        variation="conv",
    ),
    # A 1 x 1 and a 3 x 3 Conv of one image: the smaller kernel is padded, then both are one Conv.
    Family(
        "conv",
        (*inputs("x", IMAGE), *inputs("w", K1, "w", True), *inputs("u", K3, "u", True), *BIASES),
        (
            conv(0, slots=("x!Conv,Add,Concat", "w")),
            conv(1, slots=("x!Conv,Add,Concat", "w")),
            *binary("Add", slots=("x!x,Concat",)),
            *binary("Add", slots=("w!Concat",), run=False, fold=True),
            *concat(-3, slots=("x!x,Add",)),
            *concat(-4, -1, slots=("w!Add",), run=False, fold=True),
            Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), **FOLDED),
        ),
        runtime=3,
        folded=(2, 3, 0, 0),
        shapes=frozenset({IMAGE, WIDE, K1, K3, (4, 2, 3, 3), (2,), (4,)}),
        variation="conv",
        split_axes=(-3,),
    ),
    # Pads of a Conv and a Pad before it: one replaces the other.
    Family(
        "conv",
        (*inputs("x", IMAGE), *inputs("w", K3, "w", True)),
        (conv(0), conv(1), Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), ("x",))),
        runtime=2,
        shapes=frozenset({IMAGE, (1, 2, 4, 4), K3}),
        variation="conv",
    ),
    *(
        # BatchNormalization after a 1 x 1 Conv, and as a Conv: it scales the kernel and moves the bias.
        Family(
            "conv",
            (
                *inputs("x", image),
                *inputs("w", kernel, "w", True),
                *inputs("b", (2,), "b", True),
                *_STATISTICS,
            ),
            (
                conv(
                    0,
                    group,
                    slots=("x!Conv,BatchNormalization", "w!Dirac,Ones", "w!s,o,m,v,Zeros"),
                    axes=len(image) - 2,
                ),
                _NORMALISE,
                _NORMALISE_KERNEL,
                _NORMALISE_BIAS,
                Use("Transpose", {"perm": SWAP_CHANNELS[: len(image)]}, (1,), ("w2",), run=False, fold=True),
                *axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
                *axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
            ),
            runtime=2,
            folded=(3, 6, 0),
            constants=(zeros(2), zeros(1, 2), one),
            shapes=frozenset({image, kernel, (kernel[1], kernel[0], *kernel[2:]), (2,), (1, 2)}),
            variation="conv",
        )
        for group, image, kernel, one in (
            (1, IMAGE, K1, dirac(1, *K1)),
            (2, IMAGE, DEPTHWISE1, ones(*DEPTHWISE1)),
            (1, LINE, K1[:-1], dirac(1, *K1[:-1])),
            (2, LINE, DEPTHWISE1[:-1], ones(*DEPTHWISE1[:-1])),
        )
    ),
    # BatchNormalization after a ConvTranspose, whose kernel has the channels of the result second.
    Family(
        "conv",
        (*inputs("x", IMAGE), *inputs("w", K3, "w", True), *inputs("b", (2,), "b", True), *_STATISTICS),
        (
            conv_transpose(1, slots=("x!ConvTranspose,BatchNormalization", "w!s,o,m,v,Zeros", "w!s,o,m,v,Zeros")),
            _NORMALISE,
            _NORMALISE_KERNEL,
            _NORMALISE_BIAS,
            *axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
            *axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 4, 0),
        constants=(zeros(2), zeros(1, 2)),
        shapes=frozenset({IMAGE, K3, (2,), (1, 2)}),
        variation="conv",
    ),
    # Convs and sums with the image itself: the image is a Conv with the Dirac kernel.
    Family(
        "conv",
        (
            *inputs("x", IMAGE),
            *inputs("w", K3, "w", True),
            *inputs("u", DEPTHWISE3, "u", True),
            *inputs("b", (2,), "b", True),
        ),
        (
            conv(1, slots=("x!Conv,Add", "w")),
            conv(1, 2, slots=("x!Conv,Add", "w")),
            *binary("Add", slots=("x",)),
            Use("Add", slots=("w!Dirac", "Dirac"), run=False, fold=True),
        ),
        runtime=2,
        folded=(1, 1, 0),
        constants=(dirac(1, *K3), dirac(2, *DEPTHWISE3)),
        shapes=frozenset({IMAGE, K3, DEPTHWISE3, (2,)}),
        variation="conv",
    ),
    *(
        # BatchNormalization and sums with Convs: branches of a residual block become one Conv (as in RepVGG).
        Family(
            "conv",
            (*inputs("x", IMAGE), *inputs("w", kernel, "w", True), *inputs("b", (2,), "b", True), *_STATISTICS),
            (
                conv(1, group, slots=("x!Conv,BatchNormalization,Add", "w!Dirac", "w!s,o,m,v,Zeros")),
                _NORMALISE,
                _NORMALISE_KERNEL,
                _NORMALISE_BIAS,
                *binary("Add", slots=("x!x,Add",)),
                Use("Add", slots=("w|b", "w3!w,b,s,o,m,v,Zeros"), run=False, fold=True),
                Use("Transpose", {"perm": SWAP_CHANNELS}, (1,), ("w2",), run=False, fold=True),
                *axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
                *axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
            ),
            runtime=3,
            folded=(4, 7, 0, 0),
            constants=(zeros(2), zeros(1, 2), dirac(group, *kernel)),
            shapes=frozenset({IMAGE, kernel, (kernel[1], kernel[0], 3, 3), (2,), (1, 2)}),
            variation="conv",
        )
        for group, kernel in ((1, K3), (2, DEPTHWISE3))
    ),
    *CONV_SEQUENCES,
)
