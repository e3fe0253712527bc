"""The grammar of operators before and after a Conv: a Conv's weights absorb them. Data only."""

from __future__ import annotations

from superopt.generate.families.conv_common import (
    BATCH,
    BIASES,
    DEPTHWISE3,
    IMAGE,
    K1,
    K3,
    LINE,
    SCALAR,
    SWAP_CHANNELS,
    WIDE,
    conv,
    conv_transpose,
)
from superopt.generate.grammar import (
    FOLDED,
    Family,
    Use,
    axes,
    binary,
    concat,
    inputs,
    ones,
    splits,
    transpose,
    unary,
)

__all__ = ["CONV_SEQUENCES"]

CONV_SEQUENCES: tuple[Family, ...] = (
    *(
        # Scales and offsets of channels after a Conv or ConvTranspose: folded into the kernel and the bias. The kernel
        # of a Conv has the channels of the result first.
        Family(
            "conv",
            (
                *inputs("x", IMAGE),
                *inputs("w", K3, "w", True),
                *inputs("b", (2,), "b", True),
                *inputs("c", (1, 2, 1, 1), "c", True),
                *inputs("d", (2, 1, 1), "d", True),
                *inputs("s", (), "s", True),
            ),
            (
                use,
                Use("Add", slots=("x!x,Add,Mul", "w0")),
                Use("Mul", slots=("x!x,Add,Mul", "w0")),
                Use("Add", slots=("b", "w1!w,b"), run=False, fold=True),
                Use("Mul", slots=("b|w", "w1!w,b"), run=False, fold=True),
                *swapped,
                *axes("Squeeze", (-4, -2, -1), (-2, -1), **FOLDED),
                *unsqueezed,
            ),
            runtime=2,
            folded=(2, 4, 1),
            shapes=frozenset({IMAGE, K3, (2,), (1, 2, 1, 1), (2, 1, 1), (), *further}),
            variation="conv",
        )
        for use, swapped, unsqueezed, further in (
            (
                conv(1, slots=("x!Conv,Add,Mul", "w")),
                transpose(SWAP_CHANNELS, slots=("w1!w",), run=False, fold=True),
                axes("Unsqueeze", (-3,), **FOLDED),
                ((2, 1, 1, 1),),
            ),
            (conv_transpose(1, slots=("x!ConvTranspose,Add,Mul", "w")), (), (), ()),
        )
    ),
    *(
        # A bias is a sum of its own: linear operators before a Conv without one may follow it.
        Family(
            "conv",
            (*inputs("x", image), *inputs("w", kernel, "w", True), *inputs("b", (2,), "b", True)),
            (
                use,
                Use("Add", slots=("x!x,Add", "w1!w,b")),
                *axes("Unsqueeze", tuple(range(2 - len(image), 0)), slots=("b",), run=False, fold=True),
            ),
            runtime=2,
            folded=(1, 1, 1),
            shapes=frozenset({image, kernel, (2,), (2, *(1,) * (len(image) - 2))}),
            variation="conv",
        )
        for use, image, kernel in (
            (conv(1), IMAGE, K3),
            (conv(1, axes=1), LINE, K3[:-1]),
            (conv_transpose(1), IMAGE, K3),
        )
    ),
    # A 1 x 1 Conv before or after another Conv: both are one Conv, whose kernel is a Conv of the kernels.
    Family(
        "conv",
        (*inputs("x", IMAGE), *inputs("w", K3, "w", True), *inputs("u", K1, "u", True)),
        (
            conv(0, arities=(2,)),
            conv(1, arities=(2,)),
            Use("Conv", dict(conv(0).attrs), (2,), ("w", "w"), run=False, fold=True),
            *transpose(SWAP_CHANNELS, **FOLDED),
        ),
        runtime=2,
        folded=(3, 3, 0),
        shapes=frozenset({IMAGE, K1, K3}),
        variation="conv",
    ),
    # Parts of a Conv's output channels: Convs with parts of the kernel.
    Family(
        "conv",
        (*inputs("x", IMAGE), *inputs("w", (4, 2, 3, 3), "w", True), *inputs("b", (4,), "b", True)),
        (
            conv(1),
            *splits(-3),
            *splits(-4, **FOLDED),
            *splits(-1, **FOLDED),
        ),
        runtime=2,
        folded=(1, 2, 0),
        shapes=frozenset({IMAGE, WIDE, (4, 2, 3, 3), K3, (2,), (4,)}),
        variation="conv",
    ),
    *(
        # Linearity of Conv and ConvTranspose in the input and in the kernel.
        Family(
            "conv",
            (*inputs("x y", BATCH), *inputs("w", K3, "w", True), *inputs("b c", (2,), "b", True), *SCALAR),
            (
                Use(op, attrs, (2, 3), (f"x!{op}", "w!b,c,s", "w!w,s")),
                *binary("Add", slots=("x", "x")),
                Use("Mul", slots=("x", "s")),
                Use("Mul", slots=("w0!s", "s"), run=False, fold=True),
                *binary("Add", slots=("b|c",), run=False, fold=True),
                *concat(-4, slots=("x",)),
            ),
            runtime=3,
            folded=(1, 1, 1, 0),
            shapes=frozenset({BATCH, (4, 2, 4, 4), K3, (2,)}),
            variation="conv",
            optional=op == "ConvTranspose",  # its proofs take long
        )
        for op, attrs in (("Conv", conv(1).attrs), ("ConvTranspose", {**conv(1).attrs, "output_padding": (0, 0)}))
    ),
    *(
        # Scales and offsets of channels before a Conv: folded into the weights; offsets only without padding.
        Family(
            "conv",
            (
                *inputs("x", (2, 2, 4, 4)),
                *inputs("w", kernel, "w", True),
                *inputs("b", (2,), "b", True),
                *inputs("c", (2, 1, 1), "c", True),
            ),
            (
                *(conv(pads, group, slots=("x!Conv", "w!b,c,Squeeze,ReduceSum", "w!w,c,Mul,Div")) for pads in (0, 1)),
                *binary("Add Sub Mul Div", slots=("x!Conv,Add,Sub,Mul,Div", "c")),
                *binary("Mul Div", slots=("w", "w1!b,w"), run=False, fold=True),
                *axes("Unsqueeze", (-3,), slots=("c",), run=False, fold=True),
                Use("ReduceSum", {"axes": (-3, -2, -1), "keepdims": 0}, (1,), ("w1",), run=False, fold=True),
                *unary("Neg", slots=("w2!w,b,c",), run=False, fold=True),
                *binary("Add Sub", slots=("b", "w3!w,b,c"), run=False, fold=True),
            ),
            runtime=2,
            folded=(3, 4, 0),
            shapes=frozenset({(2, 2, 4, 4), (2, 2, 2, 2), kernel, (2,), (2, 1, 1), (2, 1, 1, 1)}),
            variation="conv",
        )
        for group, kernel in ((1, K3), (2, DEPTHWISE3))
    ),
    # A 1 x 1 Conv after another Conv, with biases: one Conv.
    Family(
        "conv",
        (
            *inputs("x", (1, 2, 4, 4)),
            *inputs("w", K3, "w", True),
            *inputs("u", K1, "u", True),
            *BIASES,
        ),
        (
            conv(1, slots=("x", "w!u,Unsqueeze", "w!w,u,Unsqueeze,Conv,Transpose")),
            conv(0, slots=("x", "w!Unsqueeze", "w!w,u,Unsqueeze,Conv,Transpose")),
            Use("Conv", conv(0).attrs, (2, 3), ("w1!Conv,u", "u", "b|c"), run=False, fold=True),
            *transpose(SWAP_CHANNELS, slots=("w!b,c,u,Squeeze,Unsqueeze,Transpose",), run=False, fold=True),
            *axes("Unsqueeze", (-4, -2, -1), slots=("b|c",), run=False, fold=True),
            *axes("Squeeze", (-4, -2, -1), slots=("w!w,u,b,c,Unsqueeze,Transpose",), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 6, 0),
        shapes=frozenset({(1, 2, 4, 4), (1, 2, 2, 2), K1, K3, (1, 2, 1, 1), (2,)}),
        variation="conv",
    ),
    # A depthwise Conv or average after a 1 x 1 Conv, or before it: one Conv, whose kernel is a product.
    Family(
        "conv",
        (
            *inputs("x", (1, 2, 4, 4)),
            *inputs("w", K1, "w", True),
            *inputs("u", DEPTHWISE3, "u", True),
        ),
        (
            conv(0, arities=(2,), slots=("x", "w!Ones")),
            conv(1, arities=(2,), slots=("x", "w!Ones")),
            conv(1, 2, arities=(2,), slots=("x", "w!Ones")),
            Use(
                "AveragePool",
                {
                    "count_include_pad": 1,
                    "dilations": (1, 1),
                    "kernel_shape": (3, 3),
                    "pads": (1,) * 4,
                    "strides": (1, 1),
                },
                (1,),
                ("x",),
            ),
            Use("Div", slots=("Ones", "ConstantOfShape"), run=False, fold=True),
            *transpose(SWAP_CHANNELS, slots=("w1!w,Ones,Transpose,Mul",), run=False, fold=True),
            Use("Expand", {"shape": K3}, (1,), ("w",), run=False, fold=True),
            Use("Mul", slots=("w1!w,u,Ones,Div,Transpose", "w2!w,Ones,Expand"), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 3, 0),
        constants=(ones(*DEPTHWISE3), ("ConstantOfShape", {"shape": (), "value": 9.0})),
        shapes=frozenset({(1, 2, 4, 4), K1, DEPTHWISE3, (1, 2, 3, 3), K3, ()}),
        variation="conv",
    ),
    # A 1 x 1 kernel in two parts, for the parts of concatenated channels.
    Family(
        "conv",
        (*inputs("x y", IMAGE), *inputs("w", (2, 4, 1, 1), "w", True), *inputs("b", (2,), "b", True)),
        (
            conv(0, slots=("x!Conv,Add", "w!b", "b")),
            *concat(-3, slots=("x!Conv,Add,Concat",)),
            *splits(-3, slots=("w",), run=False, fold=True),
            *binary("Add", slots=("x!x,y,Concat,Add",)),
        ),
        runtime=3,
        folded=(1, 1, 2, 2),
        shapes=frozenset({IMAGE, WIDE, (2, 4, 1, 1), K1, (2,)}),
        variation="conv",
    ),
    # A Conv of a value that is equal at all places: computed once, then expanded.
    Family(
        "conv",
        (
            *inputs("x", (1, 2, 3, 5)),
            *inputs("p", (1, 2, 1, 1)),
            *inputs("w", (4, 4, 1, 1), "w", True),
            *inputs("u", (4, 2, 1, 1), "u", True),
            *inputs("b", (4,), "b", True),
        ),
        (
            conv(0, slots=("x!Conv,Add", "w!b", "b")),
            Use("Expand", {"shape": (1, 2, 3, 5)}, (1,), ("p",)),
            Use("Expand", {"shape": (1, 4, 3, 5)}, (1,), ("x!x,p,Expand",)),
            *concat(-3, slots=("x!Conv,Add,Concat",)),
            *splits(-3, slots=("w",), run=False, fold=True),
            *binary("Add", slots=("x!x,p,Concat,Add",)),
        ),
        runtime=3,
        folded=(1, 1, 2, 2),
        shapes=frozenset({*((1, c, *size) for c in (2, 4) for size in ((3, 5), (1, 1))), (4, 2, 1, 1)}),
        variation="conv",
        wave=2,
    ),
)
