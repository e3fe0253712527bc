"""The grammar of convolutions: which operators, attributes, inputs and constants are enumerated. Data only.

Inputs of a family are small tensors of fixed sizes. Sizes that must agree for many operators to compose agree here
(square matrices); which of these equalities a rule really needs is found out later, by generalisation and proof.
"""

from __future__ import annotations

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
    transpose,
    unary,
    zeros,
)

__all__ = ["CONV_FAMILIES"]

EPSILON = 1e-05
_STATISTICS = tuple(Variable(name, (2,), name, True) for name in ("s", "o", "m", "v"))
# BatchNormalization of values; of kernels, which it scales (no offset, no mean); of biases, which it moves.
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
_SWAP_CHANNELS = (1, 0, 2, 3)


_IMAGE = (1, 2, 2, 2)
_BATCH = (2, 2, 4, 4)
_WIDE = (1, 4, 2, 2)
_K1, _K3 = (2, 2, 1, 1), (2, 2, 3, 3)
_DEPTHWISE1, _DEPTHWISE3 = (2, 1, 1, 1), (2, 1, 3, 3)
_SCALAR = inputs("s", (), "s", True)
_BIASES = inputs("b c", (2,), "b", True)


def _conv(pads: int, group: int = 1, arities: tuple[int, ...] = (2, 3), slots: tuple[str, ...] = ("x", "w")) -> Use:
    attrs = {"dilations": (1, 1), "group": group, "pads": (pads,) * 4, "strides": (1, 1)}
    return Use("Conv", attrs, arities, slots)


CONV_FAMILIES = (
    Family(
        "conv",
        (*inputs("x", _IMAGE), *inputs("w u", _K3, "w", True), *_BIASES),
        (
            _conv(1, slots=("x!Conv,Add,Concat", "w")),
            *binary("Add", slots=("x!x,Add",)),
            *binary("Add", slots=("w0",), run=False, fold=True),
            *concat(-3, slots=("x!x,Add,Concat",)),
            *concat(-4, -1, **FOLDED),
        ),
        runtime=3,
        folded=(1, 2, 0, 0),
        shapes=frozenset({_IMAGE, _WIDE, _K3, (4, 2, 3, 3), (2,), (4,)}),
        variation="conv",
        split_axes=(-3,),
    ),
    Family(
        "conv",
        (*inputs("x y", _IMAGE), *inputs("w u", _K3, "w", True), *_BIASES),
        (
            _conv(1, slots=("x!Conv,Add", "w")),
            *binary("Add", slots=("x!x,y,Add,Concat",)),
            *binary("Add", slots=("w0",), run=False, fold=True),
            *concat(-3, slots=("x!Conv,Add",)),
            *concat(-3, **FOLDED),
        ),
        runtime=3,
        folded=(1, 2, 2, 0),
        shapes=frozenset({_IMAGE, _WIDE, _K3, (2, 4, 3, 3), (2,)}),
        variation="conv",
    ),
    Family(  # a Conv of channels side by side as a sum of Convs
        "conv",
        (*inputs("x y", _IMAGE), *inputs("w", (2, 4, 3, 3), "w", True), *inputs("b", (2,), "b", True)),
        (
            _conv(1, slots=("x!Conv,Add", "w!b", "b")),
            *binary("Add", slots=("x!x,y,Concat,Add",)),
            *concat(-3, slots=("x!Conv,Add,Concat",)),
            *splits(-3, **FOLDED),
        ),
        runtime=3,
        folded=(1, 1, 2, 2),
        shapes=frozenset({_IMAGE, _WIDE, (2, 4, 3, 3), _K3, (2,)}),
        variation="conv",
    ),
    Family(
        "conv",
        (*inputs("x", _IMAGE), *inputs("w", _K1, "w", True), *inputs("u", _K3, "u", True), *_BIASES),
        (
            _conv(0, slots=("x!Conv,Add,Concat", "w")),
            _conv(1, slots=("x!Conv,Add,Concat", "w")),
            *binary("Add", slots=("x!x,Concat",)),
            *binary("Add", slots=("w!Concat",), run=False, fold=True),
            *concat(-3, slots=("x!x,Add",)),
            *concat(-4, -1, slots=("w!Add",), run=False, fold=True),
            Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), **FOLDED),
        ),
        runtime=3,
        folded=(2, 3, 0, 0),
        shapes=frozenset({_IMAGE, _WIDE, _K1, _K3, (4, 2, 3, 3), (2,), (4,)}),
        variation="conv",
        split_axes=(-3,),
    ),
    Family(
        "conv",
        (*inputs("x", _IMAGE), *inputs("w", _K3, "w", True)),
        (_conv(0), _conv(1), Use("Pad", {"pads": (0, 0, 1, 1, 0, 0, 1, 1), "value": 0.0}, (1,), ("x",))),
        runtime=2,
        shapes=frozenset({_IMAGE, (1, 2, 4, 4), _K3}),
        variation="conv",
    ),
    *(
        Family(
            "conv",
            (
                *inputs("x", _IMAGE),
                *inputs("w", kernel, "w", True),
                *inputs("b", (2,), "b", True),
                *_STATISTICS,
            ),
            (
                _conv(0, group, slots=("x!Conv,BatchNormalization", "w!Dirac,Ones", "w!s,o,m,v,Zeros")),
                _NORMALISE,
                _NORMALISE_KERNEL,
                _NORMALISE_BIAS,
                Use("Transpose", {"perm": _SWAP_CHANNELS}, (1,), ("w2",), run=False, fold=True),
                *axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
                *axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
            ),
            runtime=2,
            folded=(3, 6, 0),
            constants=(zeros(2), zeros(1, 2), one),
            shapes=frozenset({_IMAGE, kernel, (kernel[1], kernel[0], 1, 1), (2,), (1, 2)}),
            variation="conv",
        )
        for group, kernel, one in ((1, _K1, dirac(1, *_K1)), (2, _DEPTHWISE1, ones(*_DEPTHWISE1)))
    ),
    Family(
        "conv",
        (
            *inputs("x", _IMAGE),
            *inputs("w", _K3, "w", True),
            *inputs("u", _DEPTHWISE3, "u", True),
            *inputs("b", (2,), "b", True),
        ),
        (
            _conv(1, slots=("x!Conv,Add", "w")),
            _conv(1, 2, slots=("x!Conv,Add", "w")),
            *binary("Add", slots=("x",)),
            Use("Add", slots=("w!Dirac", "Dirac"), run=False, fold=True),
        ),
        runtime=2,
        folded=(1, 1, 0),
        constants=(dirac(1, *_K3), dirac(2, *_DEPTHWISE3)),
        shapes=frozenset({_IMAGE, _K3, _DEPTHWISE3, (2,)}),
        variation="conv",
    ),
    *(
        Family(
            "conv",
            (*inputs("x", _IMAGE), *inputs("w", kernel, "w", True), *inputs("b", (2,), "b", True), *_STATISTICS),
            (
                _conv(1, group, slots=("x!Conv,BatchNormalization,Add", "w!Dirac", "w!s,o,m,v,Zeros")),
                _NORMALISE,
                _NORMALISE_KERNEL,
                _NORMALISE_BIAS,
                *binary("Add", slots=("x!x,Add",)),
                Use("Add", slots=("w|b", "w3!w,b,s,o,m,v,Zeros"), run=False, fold=True),
                Use("Transpose", {"perm": _SWAP_CHANNELS}, (1,), ("w2",), run=False, fold=True),
                *axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
                *axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
            ),
            runtime=3,
            folded=(4, 7, 0, 0),
            constants=(zeros(2), zeros(1, 2), dirac(group, *kernel)),
            shapes=frozenset({_IMAGE, kernel, (kernel[1], kernel[0], 3, 3), (2,), (1, 2)}),
            variation="conv",
        )
        for group, kernel in ((1, _K3), (2, _DEPTHWISE3))
    ),
    Family(
        "conv",
        (
            *inputs("x", _IMAGE),
            *inputs("w", _K3, "w", True),
            *inputs("b", (2,), "b", True),
            *inputs("c", (1, 2, 1, 1), "c", True),
            *inputs("d", (2, 1, 1), "d", True),
            *inputs("s", (), "s", True),
        ),
        (
            _conv(1, slots=("x!Conv,Add,Mul", "w")),
            Use("Add", slots=("x!x,Add,Mul", "w0")),
            Use("Mul", slots=("x!x,Add,Mul", "w0")),
            Use("Add", slots=("b", "w1!w,b"), run=False, fold=True),
            Use("Mul", slots=("b|w", "w1!w,b"), run=False, fold=True),
            *transpose(_SWAP_CHANNELS, slots=("w1!w",), run=False, fold=True),
            *axes("Squeeze", (-4, -2, -1), (-2, -1), **FOLDED),
            *axes("Unsqueeze", (-3,), **FOLDED),
        ),
        runtime=2,
        folded=(2, 4, 1),
        shapes=frozenset({_IMAGE, _K3, (2,), (1, 2, 1, 1), (2, 1, 1), (2, 1, 1, 1), ()}),
        variation="conv",
    ),
    Family(
        "conv",
        (*inputs("x", _IMAGE), *inputs("w", _K3, "w", True), *inputs("u", _K1, "u", True)),
        (
            _conv(0, arities=(2,)),
            _conv(1, arities=(2,)),
            Use("Conv", dict(_conv(0).attrs), (2,), ("w", "w"), run=False, fold=True),
            *transpose(_SWAP_CHANNELS, **FOLDED),
        ),
        runtime=2,
        folded=(3, 3, 0),
        shapes=frozenset({_IMAGE, _K1, _K3}),
        variation="conv",
    ),
    Family(
        "conv",
        (*inputs("x", _IMAGE), *inputs("w", (4, 2, 3, 3), "w", True), *inputs("b", (4,), "b", True)),
        (
            _conv(1),
            *splits(-3),
            *splits(-4, **FOLDED),
            *splits(-1, **FOLDED),
        ),
        runtime=2,
        folded=(1, 2, 0),
        shapes=frozenset({_IMAGE, _WIDE, (4, 2, 3, 3), _K3, (2,), (4,)}),
        variation="conv",
    ),
    *(  # linear in the input as well as in the kernel
        Family(
            "conv",
            (*inputs("x y", _BATCH), *inputs("w", _K3, "w", True), *inputs("b c", (2,), "b", True), *_SCALAR),
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
            shapes=frozenset({_BATCH, (4, 2, 4, 4), _K3, (2,)}),
            variation="conv",
            optional=op == "ConvTranspose",  # its proofs take long
        )
        for op, attrs in (("Conv", _conv(1).attrs), ("ConvTranspose", {**_conv(1).attrs, "output_padding": (0, 0)}))
    ),
    *(  # channels scaled or moved before a Conv; moved ones must not meet the padding
        Family(
            "conv",
            (
                *inputs("x", (2, 2, 4, 4)),
                *inputs("w", kernel, "w", True),
                *inputs("b", (2,), "b", True),
                *inputs("c", (2, 1, 1), "c", True),
            ),
            (
                *(_conv(pads, group, slots=("x!Conv", "w!b,c,Squeeze,ReduceSum", "w!w,c,Mul,Div")) for pads in (0, 1)),
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
        for group, kernel in ((1, _K3), (2, _DEPTHWISE3))
    ),
    Family(  # a Conv of a Conv of single points, with biases
        "conv",
        (
            *inputs("x", (1, 2, 4, 4)),
            *inputs("w", _K3, "w", True),
            *inputs("u", _K1, "u", True),
            *_BIASES,
        ),
        (
            _conv(1, slots=("x", "w!u,Unsqueeze", "w!w,u,Unsqueeze,Conv,Transpose")),
            _conv(0, slots=("x", "w!Unsqueeze", "w!w,u,Unsqueeze,Conv,Transpose")),
            Use("Conv", _conv(0).attrs, (2, 3), ("w1!Conv,u", "u", "b|c"), run=False, fold=True),
            *transpose(_SWAP_CHANNELS, slots=("w!b,c,u,Squeeze,Unsqueeze,Transpose",), run=False, fold=True),
            *axes("Unsqueeze", (-4, -2, -1), slots=("b|c",), run=False, fold=True),
            *axes("Squeeze", (-4, -2, -1), slots=("w!w,u,b,c,Unsqueeze,Transpose",), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 6, 0),
        shapes=frozenset({(1, 2, 4, 4), (1, 2, 2, 2), _K1, _K3, (1, 2, 1, 1), (2,)}),
        variation="conv",
    ),
    Family(  # channel by channel after all channels, or before: a kernel that is a product
        "conv",
        (
            *inputs("x", (1, 2, 4, 4)),
            *inputs("w", _K1, "w", True),
            *inputs("u", _DEPTHWISE3, "u", True),
        ),
        (
            _conv(0, arities=(2,), slots=("x", "w!Ones")),
            _conv(1, arities=(2,), slots=("x", "w!Ones")),
            _conv(1, 2, arities=(2,), slots=("x", "w!Ones")),
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
            *transpose(_SWAP_CHANNELS, slots=("w1!w,Ones,Transpose,Mul",), run=False, fold=True),
            Use("Expand", {"shape": _K3}, (1,), ("w",), run=False, fold=True),
            Use("Mul", slots=("w1!w,u,Ones,Div,Transpose", "w2!w,Ones,Expand"), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 3, 0),
        constants=(ones(*_DEPTHWISE3), ("ConstantOfShape", {"shape": (), "value": 9.0})),
        shapes=frozenset({(1, 2, 4, 4), _K1, _DEPTHWISE3, (1, 2, 3, 3), _K3, ()}),
        variation="conv",
    ),
    Family(  # a kernel in two parts for inputs side by side
        "conv",
        (*inputs("x y", _IMAGE), *inputs("w", (2, 4, 1, 1), "w", True), *inputs("b", (2,), "b", True)),
        (
            _conv(0, slots=("x!Conv,Add", "w!b", "b")),
            *concat(-3, slots=("x!Conv,Add,Concat",)),
            *splits(-3, slots=("w",), run=False, fold=True),
            *binary("Add", slots=("x!x,y,Concat,Add",)),
        ),
        runtime=3,
        folded=(1, 1, 2, 2),
        shapes=frozenset({_IMAGE, _WIDE, (2, 4, 1, 1), _K1, (2,)}),
        variation="conv",
    ),
    Family(  # what is the same at all places is worked out once
        "conv",
        (
            *inputs("x", (1, 2, 3, 5)),
            *inputs("p", (1, 2, 1, 1)),
            *inputs("w", (4, 4, 1, 1), "w", True),
            *inputs("u", (4, 2, 1, 1), "u", True),
            *inputs("b", (4,), "b", True),
        ),
        (
            _conv(0, slots=("x!Conv,Add", "w!b", "b")),
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
