"""The grammar of layers with weights: MatMul, Gemm, biases. Data only."""

from __future__ import annotations

from superopt.generate.grammar import FOLDED, Family, Use, binary, concat, inputs, transpose

__all__ = ["LINEAR"]


def _gemm(*transposed: int, arities: tuple[int, ...] = (2, 3), slots: tuple[str, ...] = ("x", "*")) -> tuple[Use, ...]:
    return tuple(Use("Gemm", {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": b}, arities, slots) for b in transposed)


LINEAR: tuple[Family, ...] = (
    # MatMul and Gemm of one input, biases, and concatenated weights: parallel layers become one.
    Family(
        "linear",
        (*inputs("x", (2, 2)), *inputs("w u", (2, 2), "w", True), *inputs("b c", (2,), "b", True)),
        (
            *_gemm(0, 1, slots=("x", "w!b,c", "w!w,u")),
            Use("MatMul", slots=("x", "w!b,c")),
            Use("Add", slots=("x!x,Add", "*!x,Add")),
            Use("Add", slots=("w0",), run=False, fold=True),
            *transpose((1, 0), slots=("w0",), run=False, fold=True),
            *concat(-1, -2, **FOLDED),
            *concat(-1),
        ),
        runtime=3,
        folded=(1, 2, 0, 0),
        elements=8,
        variation="matrix",
        split_axes=(-1,),
    ),
    # MatMul and Gemm of two inputs: a sum of layers becomes one layer of the concatenated inputs.
    Family(
        "linear",
        (*inputs("x y", (2, 2)), *inputs("w u", (2, 2), "w", True), *inputs("b", (2,), "b", True)),
        (
            *_gemm(0, slots=("x", "w", "b")),
            *binary("MatMul", slots=("x", "w!b")),
            *binary("Add", slots=("x",)),
            *concat(-1),
            *concat(-2, **FOLDED),
        ),
        runtime=3,
        folded=(1, 1, 1, 0),
        elements=8,
        variation="matrix",
    ),
    # A low-rank branch (LoRA) beside a layer: u has few columns and t few rows, so computing u t first costs more.
    Family(
        "linear",
        (
            *inputs("x", (2, 6)),
            *inputs("w", (6, 6), "w", True),
            *inputs("u", (6, 2), "u", True),
            *inputs("t", (2, 6), "t", True),
            *inputs("b", (6,), "b", True),
        ),
        (
            *_gemm(0, arities=(3,), slots=("x!Gemm,Add", "w", "b")),
            *binary("MatMul", slots=("x!Gemm,Add", "w!b")),
            Use("Add", slots=("x!x,Add", "*!x,Add,w,u,t")),
            Use("MatMul", slots=("u", "t"), run=False, fold=True),
            Use("Add", slots=("w", "w1!b,w"), run=False, fold=True),
        ),
        runtime=4,
        folded=(2, 2, 0, 0, 0),
        elements=36,
        unfolded=True,
        variation="matrix",
    ),
    # A low-rank branch beside a product with a bias, as exporters write a layer for an input of three axes.
    Family(
        "linear",
        (
            *inputs("x", (2, 6)),
            *inputs("w", (6, 6), "w", True),
            *inputs("u", (6, 2), "u", True),
            *inputs("t", (2, 6), "t", True),
            *inputs("b", (6,), "b", True),
        ),
        (
            Use("MatMul", slots=("x!Product,MatMul,Add", "w!b"), made="Product"),
            Use("MatMul", slots=("Product", "t")),
            Use("Add", slots=("Product|Add", "b|MatMul")),
            Use("MatMul", slots=("u", "t"), run=False, fold=True),
            Use("Add", slots=("w", "w1!b,w"), run=False, fold=True),
        ),
        runtime=5,
        folded=(2, 2, 2, 0, 0, 0),
        elements=36,
        unfolded=True,
        variation="matrix",
    ),
    # Scales of a layer's input or output: folded into the weights.
    Family(
        "linear",
        (
            *inputs("x", (2, 2)),
            *inputs("w", (2, 2), "w", True),
            *inputs("b", (2,), "b", True),
            *inputs("s", (), "s", True),
        ),
        (
            *_gemm(0, slots=("x", "w")),
            *binary("MatMul", slots=("x", "w")),
            *binary("Mul", slots=("*", "s")),
            *binary("Mul", slots=("w", "s"), run=False, fold=True),
        ),
        runtime=2,
        folded=(1, 2, 0),
        variation="matrix",
    ),
    # Rows of several inputs through one product.
    Family(
        "linear",
        (*inputs("x y", (2, 3)), *inputs("w", (3, 5), "w", True), *inputs("b", (5,), "b", True)),
        (
            *_gemm(0, slots=("x!Gemm,MatMul,Add", "w!b", "b")),
            *binary("MatMul", slots=("x!Gemm,MatMul,Add", "w!b")),
            Use("Add", slots=("x!x,y,Concat,Add,Gemm", "b")),
            *concat(-2, slots=("x|y",)),
        ),
        runtime=3,
        elements=20,
        variation="matrix",
        split_axes=(-2,),
    ),
)
