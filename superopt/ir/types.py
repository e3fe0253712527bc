"""Tensor types: an ONNX element type and a shape of known or symbolic sizes."""

from __future__ import annotations

from typing import NamedTuple

from superopt.ir.dim import Size, Sizes, evaluate

__all__ = ["FLOAT_DTYPES", "TensorType", "tensor"]

# Element types of real numbers: rules that are proven over the reals apply to these.
FLOAT_DTYPES = frozenset({"float", "double", "float16", "bfloat16"})


class TensorType(NamedTuple):
    """Element type (ONNX's lower-case name: float, int64, bool, ...) and shape (None: rank unknown).

    It is a tuple, because terms are interned by their types: a dataclass takes 3% of a search to hash and compare.
    """

    dtype: str
    shape: Sizes | None

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if unknown."""
        return None if self.shape is None else len(self.shape)

    def concrete(self) -> tuple[int, ...] | None:
        """Return the shape as integers, or None if a size is symbolic or the rank unknown."""
        if self.shape is None:
            return None
        sizes = tuple(size for size in self.shape if isinstance(size, int))
        return sizes if len(sizes) == len(self.shape) else None

    def with_sizes(self, env: dict[str, Size]) -> TensorType:
        """Return the type with the symbols of its shape replaced by `env`."""
        if self.shape is None:
            return self
        return TensorType(self.dtype, tuple(evaluate(size, env) for size in self.shape))

    def __str__(self) -> str:
        return self.dtype if self.shape is None else f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def tensor(*shape: Size, dtype: str = "float") -> TensorType:
    """Return a type from its sizes: `tensor(2, 3)` is float[2, 3]."""
    return TensorType(dtype, shape)
