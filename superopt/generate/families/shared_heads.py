"""The grammar of keys and values that several heads of an attention share, repeated for each of these heads. Data only.

Exporters repeat them (Unsqueeze, Expand, Reshape), because MatMul takes one matrix for each head. But the rows of all
heads that share a matrix are rows of one matrix, so nothing needs to be repeated. Attention of one token, 32 heads with
8 pairs of keys and values, and 1,024 tokens before it takes a fifth of the time then (ONNX Runtime 1.32 on two cores).
"""

from __future__ import annotations

from superopt.generate.grammar import Family, Use, inputs, reshape, transpose

__all__ = ["SHARED_HEADS"]

# Batch, shared heads, heads for each of them, rows, keys, size of a head; nothing else has these sizes.
_B, _SHARED, _EACH, _ROWS, _KEYS, _SIZE = 5, 3, 2, 4, 7, 8
_HEADS = _SHARED * _EACH
_GIVEN = (_B, _SHARED, _KEYS, _SIZE)
_TURNED = (0, 1, 3, 2)


def _repeated(value: str) -> str:
    repeated = f"Expand[shape=[{_B}, {_SHARED}, {_EACH}, {_KEYS}, {_SIZE}]](Unsqueeze[axes=[-3]]({value}))"
    return f"Reshape[allowzero=0, shape=[{_B}, {_HEADS}, {_KEYS}, {_SIZE}]]({repeated})"


def _family(target: str, contracted: int, result: int, *uses: Use, matrix: str) -> Family:
    """Return the family of a product of `x` with a repeated matrix; `contracted` and `result` are sizes of its rows."""
    stacked = (_B, _SHARED, _EACH * _ROWS)
    return Family(
        "shared_heads",
        (*inputs("x", (_B, _HEADS, _ROWS, contracted)), *inputs("v", _GIVEN)),
        (
            *reshape((*stacked, contracted), slots=("x",)),
            *uses,
            Use("MatMul", {}, (2,), ("Reshape", matrix)),
            *reshape((_B, _HEADS, _ROWS, result), slots=("MatMul",)),
        ),
        runtime=4,
        elements=1 << 11,
        variation="attention",
        targets=(target,),
        most=1 << 10,
    )


SHARED_HEADS: tuple[Family, ...] = (
    _family(f"MatMul(x, {_repeated('v')})", _KEYS, _SIZE, matrix="v"),
    _family(
        f"MatMul(x, Transpose[perm=[0, 1, 3, 2]]({_repeated('v')}))",
        _SIZE,
        _KEYS,
        *transpose(_TURNED, slots=("v",)),
        matrix="Transpose",
    ),
)
