"""Whether two models give the same outputs: difference, tolerance, and where the tolerance comes from.

The tolerance of a floating-point output is relative to its magnitude (largest finite absolute value M):

    |a - b| <= t * M,    t = C * (u * sqrt(D) + v * sqrt(L)),    C = 4

u is the unit roundoff of the output's dtype: every stored intermediate result is rounded to it, D times on the
longest path. v is that of the accumulator (float32, or double for double), which rounds once for each of the L
summands on the longest path. Roundings are nearly independent, so their sum grows as the square root of their
number (Higham & Mary, "A new approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 2019); C
covers the tail. A model may amplify roundings (or quantize, which turns one into a whole step), so where the
original differs from itself between ONNX Runtime's optimization levels by more, `SPREAD` times that is allowed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import onnx

__all__ = ["OutputComparison", "Tolerance", "compare", "derive_tolerance", "identical", "spread", "worst_of"]

_TAIL = 4.0
_SPREAD = 4.0
# Length of a sum whose operands are both computed at run time, where shape inference does not tell it.
_UNKNOWN_LENGTH = 256
_ROUNDOFF = {
    np.dtype(np.float64): 2.0**-53,
    np.dtype(np.float32): 2.0**-24,
    np.dtype(np.float16): 2.0**-11,
    np.dtype(ml_dtypes.bfloat16): 2.0**-8,
}


@dataclass(frozen=True)
class Tolerance:
    """What a result may differ by. `depth` is D and `length` is L of the formula above; `own` is the original's
    spread between optimization levels (relative), and `flips` the share of integer outputs that differ there."""

    depth: int
    length: int
    own: float = 0.0
    flips: float = 0.0

    def relative(self, dtype: np.dtype[Any]) -> float:
        """t for outputs of `dtype`."""
        u = _ROUNDOFF.get(dtype, 2.0**-24)
        v = 2.0**-53 if dtype in (np.dtype(np.float64), np.dtype(np.complex128)) else 2.0**-24
        return max(_TAIL * (u * math.sqrt(self.depth) + v * math.sqrt(self.length)), _SPREAD * self.own)


@dataclass(frozen=True)
class OutputComparison:
    """How far two lists of outputs are apart. `worst` is the largest ratio of difference to tolerance (inf: not
    comparable), at output number `output`; `problem` says what is wrong where `ok` is false."""

    absolute: float
    relative: float
    tolerance: float
    worst: float
    output: int
    problem: str | None

    @property
    def ok(self) -> bool:
        """Whether all outputs are within tolerance."""
        return self.problem is None


def derive_tolerance(model: onnx.ModelProto) -> Tolerance:
    """D and L of `model`, each along the path where it is largest. Bodies of control flow count as one operator,
    however often they run: that may be too strict, and is never too wide."""
    shapes = {i.name: tuple(i.dims) for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    shapes[node.output[0]] = tuple(attribute.t.dims)
    depth: dict[str, int] = {}
    length: dict[str, int] = {}
    for _ in range(2):  # nodes may stand in any order; a second pass settles what the first one could not see
        for node in model.graph.node:
            reached = 1 + max((depth.get(i, 0) for i in node.input), default=0)
            summed = _summands(node, shapes) + max((length.get(i, 0) for i in node.input), default=0)
            depth.update(dict.fromkeys(node.output, reached))
            length.update(dict.fromkeys(node.output, summed))
    outputs = [value.name for value in model.graph.output]
    return Tolerance(
        max((depth.get(name, 0) for name in outputs), default=0) + 1,
        max((length.get(name, 0) for name in outputs), default=0) + 1,
    )


def _summands(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> int:
    """Number of products added up for one element of the output."""
    if node.op_type in ("Conv", "ConvInteger", "QLinearConv", "ConvTranspose"):
        weight = next((shapes[i] for i in node.input[1:] if len(shapes.get(i, ())) > 2), None)
        return math.prod(weight[1:]) if weight else _UNKNOWN_LENGTH
    if node.op_type in ("MatMul", "MatMulInteger", "QLinearMatMul", "Gemm"):
        matrices = [shapes[i] for i in node.input if len(shapes.get(i, ())) >= 2]
        return max(matrices[0][-2:]) if matrices else _UNKNOWN_LENGTH
    if node.op_type in ("LSTM", "GRU", "RNN"):
        matrices = [shapes[i] for i in node.input if len(shapes.get(i, ())) >= 3]
        return sum(shape[-1] for shape in matrices) or _UNKNOWN_LENGTH
    if node.op_type.startswith("Reduce") or node.op_type in ("Softmax", "LogSoftmax", "LayerNormalization", "Einsum"):
        return _UNKNOWN_LENGTH
    return 1


def spread(tolerance: Tolerance, first: Sequence[Any], second: Sequence[Any]) -> Tolerance:
    """`tolerance` calibrated by two runs of the same model (two optimization levels): keeps the larger spread."""
    own, flips = tolerance.own, tolerance.flips
    for a, b in zip(_flat(first), _flat(second), strict=False):
        if a.shape != b.shape or a.dtype != b.dtype or not a.size:
            continue
        if _is_float(a.dtype):
            _, relative = _difference(a, b)
            own = max(own, relative)
        else:
            flips = max(flips, float(np.mean(a != b)))
    return Tolerance(tolerance.depth, tolerance.length, own, flips)


def compare(original: Sequence[Any], result: Sequence[Any], tolerance: Tolerance) -> OutputComparison:
    """Outputs of the result against the original's. Patterns of NaN and infinity must agree; integers, booleans and
    strings must be equal (except for as many as the original's own levels disagree on)."""
    a_all, b_all = _flat(original), _flat(result)
    if len(a_all) != len(b_all):
        return OutputComparison(math.inf, math.inf, 0.0, math.inf, 0, f"{len(b_all)} outputs instead of {len(a_all)}")
    return worst_of([_compare_one(n, a, b, tolerance) for n, (a, b) in enumerate(zip(a_all, b_all, strict=True))])


def identical(original: Sequence[Any], result: Sequence[Any]) -> OutputComparison:
    """Outputs of the result against the original's, bit for bit: NaN as it is, and -0.0 is not 0.0."""
    a_all, b_all = _flat(original), _flat(result)
    if len(a_all) != len(b_all):
        return OutputComparison(math.inf, math.inf, 0.0, math.inf, 0, f"{len(b_all)} outputs instead of {len(a_all)}")
    for number, (a, b) in enumerate(zip(a_all, b_all, strict=True)):
        same = a.dtype == b.dtype and a.shape == b.shape
        if not same or not (np.array_equal(a, b) if a.dtype == object else a.tobytes() == b.tobytes()):
            return OutputComparison(math.inf, math.inf, 0.0, math.inf, number, f"output {number} is not bit-identical")
    return OutputComparison(0.0, 0.0, 0.0, 0.0, 0, None)


def worst_of(comparisons: Sequence[OutputComparison]) -> OutputComparison:
    """One comparison for many: the largest differences, the tolerance and output where it is closest to being over."""
    if not comparisons:
        return OutputComparison(0.0, 0.0, 0.0, 0.0, 0, None)
    worst = max(comparisons, key=lambda c: (c.worst, c.tolerance))
    return OutputComparison(
        max(c.absolute for c in comparisons),
        max(c.relative for c in comparisons),
        worst.tolerance,
        worst.worst,
        worst.output,
        worst.problem,
    )


def _compare_one(
    number: int, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], tolerance: Tolerance
) -> OutputComparison:
    def wrong(problem: str) -> OutputComparison:
        return OutputComparison(math.inf, math.inf, 0.0, math.inf, number, f"output {number}: {problem}")

    if a.dtype != b.dtype or a.shape != b.shape:
        return wrong(f"{b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}")
    if not _is_float(a.dtype):
        share = float(np.mean(a != b)) if a.size else 0.0
        if share > 2 * tolerance.flips:
            return wrong(f"{share:.2%} of its {a.dtype} values differ")
        return OutputComparison(0.0, 0.0, 0.0, 0.0, number, None)
    if not _same_specials(a, b):
        return wrong("NaN or infinity in other places")
    absolute, relative = _difference(a, b)
    allowed = tolerance.relative(a.dtype)
    problem = None
    if relative > allowed:
        problem = f"output {number}: relative difference {relative:.2e} is over the tolerance {allowed:.2e}"
    return OutputComparison(absolute, relative, allowed, relative / allowed, number, problem)


def _difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Largest |a - b| over the places where both are finite, absolute and relative to the largest finite |a|."""
    x, y = _wide(a), _wide(b)
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        return 0.0, 0.0
    absolute = float(np.max(np.abs(x[finite] - y[finite])))
    magnitude = float(np.max(np.abs(x[finite])))
    if absolute == 0.0:
        return 0.0, 0.0
    return absolute, absolute / magnitude if magnitude else math.inf


def _same_specials(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    x, y = _wide(a), _wide(b)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return False
    infinite = np.isinf(x) | np.isinf(y)
    return bool(np.all(x[infinite] == y[infinite]))


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array if np.issubdtype(array.dtype, np.complexfloating) else array.astype(np.float64)


def _is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in _ROUNDOFF or np.issubdtype(dtype, np.inexact)


def _flat(values: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Arrays of outputs, sequences opened up, an absent optional as an empty array of objects."""
    arrays: list[np.ndarray[Any, Any]] = []
    for value in values:
        if isinstance(value, (list, tuple)):
            arrays.append(np.asarray(len(value)))
            arrays.extend(_flat(value))
        else:
            arrays.append(np.asarray(value))
    return arrays
