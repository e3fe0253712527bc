"""Fused operators of ONNX Runtime's own domain, com.microsoft."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from superopt.evaluate.standard import Array, Attrs, Compute

__all__ = ["COMPUTE"]


def _fused_matmul(inputs: Sequence[Array], attrs: Attrs) -> list[Array]:
    turned = (attrs["transA"], attrs["transB"])
    a, b = (x.swapaxes(-1, -2) if turn else x for x, turn in zip(inputs, turned, strict=True))
    return [attrs["alpha"] * (a @ b)]


COMPUTE: Mapping[str, Compute] = {"FusedMatMul": _fused_matmul}
