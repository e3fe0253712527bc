"""The grammar of normalisations. Data only.

Shifts that a normalisation removes, scales that weights absorb, and rows that are selected before or after.
"""

from __future__ import annotations

from typing import Any

from superopt.generate.families.usual import GEMM, LAYER
from superopt.generate.grammar import (
    Family,
    Use,
    axes,
    binary,
    concat,
    inputs,
    slices,
    splits,
    transpose,
    unary,
    zeros,
)

__all__ = ["NORMALIZATION"]

_EPSILON = LAYER["epsilon"]
_SKIP = {"epsilon": 1e-12}  # SkipLayerNormalization has another default than LayerNormalization
_SKIP_LAYER = {"axis": -1, **_SKIP}
_GEMM = Use("Gemm", GEMM, (3,), ("a", "w!b,d,g,t,o,m,v", "w!u,Zeros"))


def _softmax(axis: int, **kinds: Any) -> Use:
    return Use("Softmax", {"axis": axis}, (1,), **kinds)


def _reduce(name: str, **kinds: Any) -> Use:
    return Use(f"Reduce{name}", {"axes": (-1,), "keepdims": 1}, (1,), **kinds)


NORMALIZATION: tuple[Family, ...] = (
    # Softmax and LogSoftmax written out, and shifts that do not change them.
    Family(
        "normalization",
        (*inputs("a", (3, 5)), *inputs("s", ())),
        (
            _softmax(-1, slots=("*!s,Exp,Log,Div,ReduceMax,ReduceSum,Softmax",)),
            Use("LogSoftmax", {"axis": -1}, (1,), ("*!s,Exp,Log,Div,ReduceMax,ReduceSum,Softmax",)),
            *unary("Exp Log", slots=("*!s,Exp,Log,Add,Sub,Div,ReduceMax,ReduceSum",)),
            _reduce("Sum", slots=("*!a,s,Log,Add,Sub,Div,Softmax,LogSoftmax,ReduceMax,ReduceSum",)),
            _reduce("Max", slots=("a",)),
            *binary("Add Sub", slots=("a", "*!a,Exp,Log,Softmax,LogSoftmax,Add,Sub,Div,ReduceSum")),
            *binary("Div", slots=("*!s,a,Add,Sub", "*!s,a,Add,Sub,Exp,Log,Softmax,ReduceMax")),
        ),
        runtime=4,
        variation="axes",
    ),
    # Attention: a bias of the keys shifts each row of the scores, which Softmax ignores.
    Family(
        "normalization",
        (
            *inputs("q", (2, 3)),
            *inputs("k", (3, 5)),
            *inputs("b", (3, 1), "b", True),
            *inputs("m", (2, 5)),
            *inputs("s", (), "s", True),
        ),
        (
            _softmax(-1, slots=("x!q,k,m",)),
            *binary("Add", slots=("k", "b")),
            *binary("MatMul", slots=("q", "x!q,m")),
            *binary("Mul", slots=("x!q,k,m,Softmax,Mul", "s")),
            *binary("Add", slots=("x!k,q,m,Softmax,Add", "m")),
        ),
        runtime=5,
        folded=(0,) * 6,
        variation="rows",
    ),
    # Scales and biases after LayerNormalization and RMSNormalization: folded into their own.
    Family(
        "normalization",
        (
            *inputs("a", (3, 5)),
            *inputs("g h t", (5,), "g", True),
            *inputs("s", ()),
        ),
        (
            Use("LayerNormalization", LAYER, (2, 3), ("x!s,LayerNormalization,Mul", "w", "w")),
            Use("RMSNormalization", LAYER, (2,), ("x!s,LayerNormalization,RMSNormalization,Add,Mul", "w")),
            Use("SimplifiedLayerNormalization", LAYER, (2,), ("a", "g")),
            *binary("Add", slots=("x!s,RMSNormalization,Add,Mul", "*!a")),
            *binary("Mul", slots=("x!a,s,Add,Mul", "*!a")),
            *binary("Add Mul", slots=("w0", "w0"), run=False, fold=True),
        ),
        runtime=2,
        folded=(1, 2, 0),
        variation="rows",
    ),
    # RMSNormalization after subtracting the mean by hand: LayerNormalization.
    Family(
        "normalization",
        (*inputs("a", (3, 5)), *inputs("g", (5,), "g", True)),
        (
            Use("LayerNormalization", LAYER, (2,), ("x", "g")),
            Use("RMSNormalization", LAYER, (2,), ("x", "g")),
            *binary("Sub", slots=("a", "x!a,LayerNormalization,RMSNormalization")),
            _reduce("Mean", slots=("a",)),
        ),
        runtime=3,
        variation="rows",
    ),
    # Normalised sums: SkipLayerNormalization and SkipSimplifiedLayerNormalization.
    Family(
        "normalization",
        (*inputs("a y", (3, 5)), *inputs("g h b", (5,), "g", True)),
        (
            Use("LayerNormalization", _SKIP_LAYER, (2, 3), ("x", "g", "h")),
            Use("RMSNormalization", _SKIP_LAYER, (2,), ("x", "g")),
            Use("SkipLayerNormalization", _SKIP, (3, 4), ("x!Add", "x!Add", "g", "h"), index=0),
            Use("SkipSimplifiedLayerNormalization", _SKIP, (3, 4), ("x", "x", "g", "b"), index=0),
            *binary("Add", slots=("x", "*!g,h")),
        ),
        runtime=2,
        variation="rows",
    ),
    *(
        # BatchNormalization as a product and a sum by channel.
        Family(
            "normalization",
            (
                *inputs("a", shape),
                *inputs("t o m v", (3,), "t", True),
                *inputs("c", (1, 3, *(1 for _ in shape[2:])), "c", True),
            ),
            (
                Use("BatchNormalization", {"epsilon": _EPSILON}, (5,), ("x", "w!c", "w!c", "w!c", "v")),
                *binary("Add Mul", slots=("x", "c")),
                *axes("Squeeze", (-len(shape), *range(2 - len(shape), 0)), slots=("c",), run=False, fold=True),
                *binary("Add", slots=("o", "w1!c,t,o,m,v"), run=False, fold=True),
                *binary("Sub", slots=("o|m", "w1!c,t,o,m,v"), run=False, fold=True),
                *binary("Mul", slots=("t|o", "w1!c,t,o,m,v"), run=False, fold=True),
            ),
            runtime=2,
            folded=(3, 4, 0),
            elements=60,
            variation="rows",
        )
        for shape in ((2, 3), (2, 3, 2, 5))
    ),
    # Two BatchNormalizations in a row: one.
    Family(
        "normalization",
        (
            *inputs("a", (2, 3)),
            *inputs("t o m v", (3,), "t", True),
            *inputs("b c d q", (3,), "b", True),
        ),
        (
            Use("BatchNormalization", {"epsilon": _EPSILON}, (5,), ("a", "w!b,c,d,q,v", "w!b,c,d,q,v", "m", "v")),
            Use("BatchNormalization", {"epsilon": _EPSILON}, (5,), ("x!a", "b", "c", "d", "q")),
            *axes("Unsqueeze", (-2,), slots=("t|o",), run=False, fold=True),
            Use(
                "BatchNormalization", {"epsilon": _EPSILON}, (5,), ("w1!t,o", "b", "c", "d", "q"), run=False, fold=True
            ),
            Use(
                "BatchNormalization",
                {"epsilon": _EPSILON},
                (5,),
                ("w1!t,o", "b", "Zeros", "Zeros", "q"),
                run=False,
                fold=True,
            ),
            *axes("Squeeze", (-2,), slots=("w2",), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 6, 0),
        constants=(zeros(3),),
        shapes=frozenset({(2, 3), (1, 3), (3,)}),
        variation="rows",
    ),
    # Scales of a layer's input and output: folded into its weights.
    Family(
        "normalization",
        (
            *inputs("a", (3, 5)),
            *inputs("u", (5, 4), "u", True),
            *inputs("b d", (4,), "b", True),
            *inputs("g", (5,), "g", True),
            *inputs("c", (3, 1)),
        ),
        (
            _GEMM,
            *binary("MatMul", slots=("x!c,MatMul,Gemm", "w!b,d,g")),
            *binary("Mul Div", slots=("x!c,Mul,Div", "d|g|c")),
            *binary("Mul Div", slots=("u|b", "w1!u,b,g"), run=False, fold=True),
            *axes("Unsqueeze", (-1,), slots=("g",), run=False, fold=True),
        ),
        runtime=2,
        folded=(2, 3, 0),
        shapes=frozenset({(3, 5), (3, 4), (5, 4), (4,), (5, 1)}),
        variation="matrix",
    ),
    # BatchNormalization after MatMul or Gemm: folded into the weights and the bias.
    Family(
        "normalization",
        (
            *inputs("a", (3, 5)),
            *inputs("u", (5, 4), "u", True),
            *inputs("b", (4,), "b", True),
            *inputs("t o m v", (4,), "t", True),
        ),
        (
            *binary("MatMul", slots=("a", "w!b,t,o,m,v")),
            _GEMM,
            Use("BatchNormalization", {"epsilon": _EPSILON}, (5,), ("x!a", "t", "o", "m", "v")),
            Use(
                "BatchNormalization",
                {"epsilon": _EPSILON},
                (5,),
                ("u", "t", "Zeros", "Zeros", "v"),
                run=False,
                fold=True,
            ),
            Use("BatchNormalization", {"epsilon": _EPSILON}, (5,), ("w1!u", "t", "o", "m", "v"), run=False, fold=True),
            *axes("Unsqueeze", (-2,), slots=("b",), run=False, fold=True),
            *axes("Squeeze", (-2,), slots=("w2!Zeros",), run=False, fold=True),
        ),
        runtime=2,
        folded=(3, 4, 0),
        constants=(zeros(4), zeros(1, 4)),
        shapes=frozenset({(3, 5), (3, 4), (5, 4), (1, 4), (4,)}),
        variation="rows",
    ),
    # Selected, cut and concatenated rows of normalised values: the selection may come first.
    Family(
        "normalization",
        (*inputs("a y", (4, 5)), *inputs("g h", (5,), "g", True)),
        (
            Use("LayerNormalization", LAYER, (2, 3), ("x!LayerNormalization,RMSNormalization", "g", "h")),
            Use("RMSNormalization", LAYER, (2,), ("x!LayerNormalization,RMSNormalization", "g")),
            Use("Gather", {"axis": -2, "indices": 0}, (1,), ("x!Gather,Slice,Split,Concat",)),
            *slices(-2, slots=("x!Gather,Slice,Split,Concat",)),
            *splits(-2, slots=("x!Gather,Slice,Split,Concat",)),
            *concat(-2, slots=("x!Gather,Slice,Split,Concat",)),
        ),
        runtime=3,
        elements=40,
        variation="rows",
        split_axes=(-2,),
    ),
    # Selected, cut, concatenated and transposed rows of Softmax: the selection may come first.
    Family(
        "normalization",
        inputs("a y", (4, 5)),
        (
            _softmax(-1, slots=("x!Softmax",)),
            _softmax(-2, slots=("x!Softmax",)),
            Use("Gather", {"axis": -2, "indices": 0}, (1,), ("x!Gather,Slice,Split,Concat,Transpose",)),
            *slices(-2, slots=("x!Gather,Slice,Split,Concat,Transpose",)),
            *splits(-2, slots=("x!Gather,Slice,Split,Concat,Transpose",)),
            *concat(-2, slots=("x!Gather,Slice,Split,Concat,Transpose",)),
            *transpose((1, 0), slots=("x!Gather,Slice,Split,Concat,Transpose",)),
        ),
        runtime=3,
        elements=40,
        variation="axes",
        split_axes=(-2,),
    ),
    # Offsets and scales before InstanceNormalization, which its mean and variance remove.
    Family(
        "normalization",
        (
            *inputs("a", (2, 4, 3, 2)),
            *inputs("g h", (4,), "g", True),
            *inputs("c", (4, 1, 1), "c", True),
            *inputs("s", ()),
        ),
        (
            Use("InstanceNormalization", {"epsilon": _EPSILON}, (3,), ("x", "w!c", "w!c")),
            *binary("Add", slots=("x!Mul", "c|s")),
            *binary("Mul", slots=("x!a,Add", "c|s")),
            *axes("Squeeze", (-2, -1), slots=("c",), run=False, fold=True),
            *binary("Add Mul", slots=("g|h", "w1!c,g,h"), run=False, fold=True),
        ),
        runtime=2,
        folded=(2, 4, 0),
        elements=48,
        variation="",
    ),
    # Selected rows of layers and sums: the selection may come first.
    Family(
        "normalization",
        (
            *inputs("a y", (4, 6)),
            *inputs("u", (6, 5), "u", True),
            *inputs("g b", (6,), "g", True),
            *inputs("h", (5,), "h", True),
        ),
        (
            *binary("MatMul", slots=("x!y,Add,Mul,MatMul,Gemm", "u")),
            Use("Gemm", dict(_GEMM.attrs), (3,), ("x!y,Add,Mul,MatMul,Gemm", "u", "h")),
            *binary("Add Mul", slots=("x!Add,Mul,MatMul,Gemm", "*!a,b,h,u,Add,Mul,MatMul,Gemm")),
            Use("Gather", {"axis": -2, "indices": 0}, (1,), ("x!Gather,Slice",)),
            *slices(-2, slots=("x!Gather,Slice",)),
        ),
        runtime=3,
        elements=24,
        variation="rows",
    ),
)
