"""The grammar of ONNX Runtime's own operators: products with transposed operands and with activations. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from superopt.evaluate.residues import Shape
from superopt.generate.grammar import FOLDED, Family, Use, binary, inputs, transpose, unary

__all__ = ["FUSED"]

_ACTIVATIONS = "Relu Sigmoid Tanh"
_CONV: Mapping[str, Any] = {"dilations": (1, 1), "group": 1, "pads": (1, 1, 1, 1), "strides": (1, 1)}
_HEADS = (0, 2, 1, 3)
_IMAGE, _KERNEL = (1, 2, 3, 3), (2, 2, 3, 3)


def _fused_matmul(*transposed: tuple[int, int], **kinds: Any) -> tuple[Use, ...]:
    return tuple(Use("FusedMatMul", {"transA": a, "transB": b}, (2,), **kinds) for a, b in transposed)


def _gemm(op: str = "Gemm", **attrs: Any) -> Use:
    full = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **attrs}
    return Use(op, full, (2, 3), ("x!Relu,Sigmoid,Tanh,FusedGemm,Gemm", "w!b", "b"))


# The fused operator has the function's parameters under other names.
_PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "LeakyRelu": {"alpha": 0.25},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "Clip": {"bound_low": -2.0, "bound_high": 6.0},
}
_PLAIN = f"x!Conv,FusedConv,{','.join(_PARAMETERS)}"


def _with_parameters(name: str) -> tuple[Use, Use]:
    """Return the function, and a FusedConv with it."""
    own = _PARAMETERS[name]
    fused = {
        "activation": name,
        **{f"activation_{k}": v for k, v in zip(("alpha", "beta"), own.values(), strict=False)},
    }
    zeros = {"activation_alpha": 0.0, "activation_beta": 0.0}
    return (
        Use(name, own, (1,), ("x!x,FusedConv," + ",".join(_PARAMETERS),)),
        Use("FusedConv", {**_CONV, **zeros, **fused}, (2, 3), (_PLAIN, "w!b", "b")),
    )


def _attention(added: Shape | None, *, scaled_operands: bool = False) -> Family:
    """MultiHeadAttention written out: a chain in which each operator accepts only few others as its operand.

    Scores are multiplied by a number; with `scaled_operands`, queries or keys or both are. What is added to the scores
    has the shape `added`.
    """
    heads = {"num_heads": 2, "scale": 1.0}
    if scaled_operands:
        scaled, product, scores = "Transpose|q|k", ("Mul|Transpose|Softmax", "Mul|Transpose"), "MatMul"
        given = ("q|Mul", "k|Mul", "v")
    else:
        scaled, product, scores = "MatMul|q", ("Transpose|Softmax", "Transpose"), "MatMul|Mul"
        given = ("q|Mul", "k", "v")
    own = () if added is None else (
        Use("Add", {}, (2,), (scores, "m")),
        Use("MultiHeadAttention", heads, (4,), (*given, "m"), absent=3),
    )  # fmt: skip
    return Family(
        "fused",
        (*inputs("q k v", (2, 3, 8)), *inputs("c", (), "c", True), *inputs("m", added or (), "m")[: added is not None]),
        (
            Use("Reshape", {"shape": (0, 0, 2, -1)}, (1,), ("q|k|v",)),
            Use("Transpose", {"perm": _HEADS}, (1,), ("Reshape|MatMul",)),
            Use("Transpose", {"perm": (0, 2, 3, 1)}, (1,), ("Reshape",)),
            Use("MatMul", {}, (2,), product),
            Use("Mul", {}, (2,), (scaled, "c")),
            Use("Softmax", {"axis": -1}, (1,), (f"{scores}|Add",)),
            Use("Reshape", {"shape": (0, 0, -1)}, (1,), ("Transpose",)),
            Use("MultiHeadAttention", heads, (3,), given),
            *own,
        ),
        runtime=13 + scaled_operands,
        folded=(0,) * (14 + scaled_operands),
        elements=48,
        shapes=frozenset({(2, 3, 8), (2, 3, 2, 4), (2, 2, 3, 4), (2, 2, 4, 3), (2, 2, 3, 3)}),
        variation="attention",
    )


def _attention_of_heads(added: Shape | None, scaled: str) -> Family:
    """MultiHeadAttention of heads that are split already, however that was done: they are merged before it.

    `scaled` (keys, scores or nothing) is multiplied by a number. What is added to the scores has the shape `added`.
    """
    heads = {"num_heads": 3, "scale": 1.0}
    given = ("Row|Scaled row" if scaled else "Row", "Row", "Row")
    columns = "Transpose[perm=[0, 1, 3, 2]](k)"
    scores = f"MatMul(q, {f'Mul({columns}, c)' if scaled == 'keys' else columns})"
    scores = f"Mul({scores}, c)" if scaled == "scores" else scores
    scores = f"Add({scores}, m)" if added is not None else scores
    attention = f"MatMul(Softmax[axis=-1]({scores}), v)"
    return Family(
        "fused",
        (
            *inputs("q k v", (2, 3, 5, 4)),
            *(inputs("c", (), "c", True) if scaled else ()),
            *(inputs("m", added, "m") if added is not None else ()),
        ),
        (
            Use("Transpose", {"perm": _HEADS}, (1,), ("q|k|v",), made="Rows"),
            Use("Reshape", {"shape": (0, 0, -1)}, (1,), ("Rows",), made="Row"),
            *((Use("Mul", {}, (2,), ("Row", "c"), made="Scaled row"),) if scaled else ()),
            Use("MultiHeadAttention", heads, (3,), given)
            if added is None
            else Use("MultiHeadAttention", heads, (4,), (*given, "m"), absent=3),
        ),
        runtime=8,
        folded=(0,) * 9,
        elements=150,
        shapes=frozenset({(2, 3, 5, 4), (2, 3, 5, 5), (2, 5, 3, 4), (2, 5, 12)}),
        variation="attention",
        targets=(f"Reshape[allowzero=0, shape=[0, 0, -1]](Transpose[perm=[0, 2, 1, 3]]({attention}))",),
        most=1 << 10,
    )


FUSED: tuple[Family, ...] = (
    # FusedConv with a function that has parameters: a Conv and the function after it.
    Family(
        "fused",
        (*inputs("x", _IMAGE), *inputs("w", _KERNEL, "w", True), *inputs("b", (2,), "b", True)),
        (
            Use("Conv", _CONV, (2, 3), (_PLAIN, "w!b", "b")),
            *(use for name in _PARAMETERS for use in _with_parameters(name)),
        ),
        runtime=2,
        shapes=frozenset({_IMAGE}),
        variation="conv",
    ),
    # FusedMatMul and Transpose: a product with transposed operands.
    Family(
        "fused",
        inputs("a b", (2, 2)),
        (
            *binary("MatMul", slots=("*!MatMul,FusedMatMul",)),
            *_fused_matmul((0, 0), (0, 1), (1, 0), (1, 1), slots=("*!MatMul,FusedMatMul",)),
            *transpose((1, 0)),
        ),
        runtime=3,
        variation="matrix",
    ),
    # FusedMatMul with sums and scales: the rules of MatMul also hold for it.
    Family(
        "fused",
        (*inputs("a b", (2, 2)), *inputs("s", ())),
        (
            *_fused_matmul((0, 1), (1, 0), slots=("*!FusedMatMul",)),
            Use("Mul", slots=("*!s,Mul", "s")),
            *binary("Add", slots=("*!s,Add",)),
        ),
        runtime=3,
        variation="matrix",
    ),
    # FusedConv with an activation, and with a summand: a Conv, an Add and the activation.
    Family(
        "fused",
        (*inputs("x z", _IMAGE), *inputs("w", _KERNEL, "w", True), *inputs("b", (2,), "b", True)),
        (
            Use("Conv", _CONV, (2, 3), ("x!Conv,FusedConv,Add,Relu,Sigmoid,Tanh", "w!b", "b")),
            *(
                Use("FusedConv", {**_CONV, "activation": name}, arities, slots)
                for name in _ACTIVATIONS.split()
                for arities, slots in (
                    ((2, 3), ("x!Conv,FusedConv,Add,Relu,Sigmoid,Tanh", "w!b", "b")),
                    ((4,), ("x!Conv,FusedConv,Add,Relu,Sigmoid,Tanh", "w!b", "b", "z")),
                )
            ),
            *unary(_ACTIVATIONS, slots=("x!x,z,Relu,Sigmoid,Tanh,FusedConv",)),
            *binary("Add", slots=("x!x,z,Add,Relu,Sigmoid,Tanh,FusedConv", "z")),
        ),
        runtime=3,
        shapes=frozenset({_IMAGE}),
        variation="conv",
    ),
    # FusedGemm: a Gemm and the activation after it.
    Family(
        "fused",
        (*inputs("x", (2, 3)), *inputs("w", (3, 4), "w", True), *inputs("b", (4,), "b", True)),
        (
            _gemm(),
            *(_gemm("FusedGemm", activation=name) for name in _ACTIVATIONS.split()),
            *unary(_ACTIVATIONS, slots=("x!x,Relu,Sigmoid,Tanh,FusedGemm",)),
            *transpose((1, 0), **FOLDED),
        ),
        runtime=2,
        folded=(1, 1, 1),
        variation="matrix",
    ),
    *(_attention(added, scaled_operands=scaled) for scaled in (False, True) for added in (None, (2, 2, 3, 3))),
    *(_attention_of_heads(added, scaled) for added in (None, (2, 3, 5, 5)) for scaled in ("", "keys", "scores")),
)
