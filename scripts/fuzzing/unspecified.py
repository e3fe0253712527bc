"""Tensors of which neither the specification nor a proof says what ONNX Runtime computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, helper

from .values import Array, largest

__all__ = ["steps_before_rounding", "unspecified"]

# Functions with steps in single precision, so that ONNX Runtime's double results have 7 digits.
_SINGLE = {"FastGelu", "Gelu", "GroupNormalization", "HardSwish"}
# They are computed as x (g / s) + (b - mean (g / s)), which noise does not show where x is all that the mean is of.
_SCALES_FIRST = {"GroupNormalization", "InstanceNormalization"}
_NOTHING = np.zeros(0)  # in place of an absent value
_STEPS: Mapping[str, Callable[..., Array]] = {
    "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Floor": np.floor, "Ceil": np.ceil, "Round": np.rint, "Sign": np.sign,
}  # fmt: skip


def unspecified(model: ModelProto, values: Mapping[str, Array]) -> Iterator[str]:
    """Yield the results of such nodes, given the values of all tensors of a run."""
    for node in model.graph.node:
        inputs, results = ([values.get(name, _NOTHING) for name in names] for names in (node.input, node.output))
        if _is_open(node, inputs, results[0]):
            yield from node.output


def steps_before_rounding(model: ModelProto, values: Mapping[str, Array]) -> Iterator[str]:
    """Yield results of comparisons and of steps, such as Floor, which are not those of their operands in float16.

    On the CPU, ONNX Runtime computes float16 in float32, and omits the rounding between two of its operators. So an
    operand may differ from the rounded one, and from itself as an operand of another operator.
    """
    for node in model.graph.node:
        inputs = [values.get(name, _NOTHING) for name in node.input]
        if node.op_type in _STEPS and inputs[0].dtype == np.float16:
            with np.errstate(invalid="ignore"):
                stepped = _STEPS[node.op_type](*inputs)
            if not np.array_equal(stepped, values[node.output[0]], equal_nan=stepped.dtype.kind == "f"):
                yield from node.output


def _is_open(node: NodeProto, inputs: Sequence[Array], result: Array) -> bool:
    """Return True for a node whose result ONNX Runtime may choose at these inputs."""
    match node.op_type:
        case "Cast":  # of real numbers that the integer type cannot hold
            return not _castable(inputs[0], result)
        case "Concat":  # with an empty tensor of other sizes: memory is left as it is
            return not _fit([x.shape for x in inputs], node)
        case "MatMulInteger":  # of no summands: the same
            return not inputs[0].shape[-1:] or not inputs[0].shape[-1]
        case "Where":
            condition, x, y = inputs
            return _loses_signs(condition, x, y, result)
        case "LRN":
            return _cancels_in_window(node, inputs[0])
        case "RotaryEmbedding":
            return not _has_all_angles(node, inputs)
    if node.op_type.startswith("Reduce"):  # of no elements: another shape for an axis counted from the end
        return not inputs[0].size
    if node.op_type in _SINGLE and result.dtype == np.float64:
        return True
    # One element less itself, where it is not computed as 0.
    return node.op_type in _SCALES_FIRST and math.prod(inputs[0].shape[2:]) <= 1


def _fit(shapes: Sequence[tuple[int, ...]], node: NodeProto) -> bool:
    """Return True if the operands of a Concat have equal sizes, except along its axis."""
    axis = node.attribute[0].i % len(shapes[0])
    return len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) == 1


def _cancels_in_window(node: NodeProto, x: Array) -> bool:
    """Return True if an LRN may lose half of the digits of its divisor, bias + alpha / size * (sum of a window).

    ONNX Runtime computes the sum of a window from the last one, and a large square that leaves it takes digits along.
    """
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    most = attributes.get("alpha", 1e-4) / attributes["size"] * largest(x) ** 2
    return bool(most > 2.0**12 * attributes.get("bias", 1.0))


def _has_all_angles(node: NodeProto, inputs: Sequence[Array]) -> bool:
    """Return True if a RotaryEmbedding has an angle for each pair of numbers that it rotates.

    ONNX Runtime does not check that: it reads other memory, or leaves some as it is.
    """
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    x, *angles = inputs[:3]
    head = x.shape[-1] // (1 if x.ndim == 4 else attributes["num_heads"])
    rotated = attributes.get("rotary_embedding_dim", 0) or head
    return all(2 * angle.shape[-1] == rotated for angle in angles)


def _loses_signs(condition: Array, x: Array, y: Array, result: Array) -> bool:
    """Return True if a zero of a Where has not the sign that the specification says."""
    if result.dtype.kind != "f":
        return False
    return bool(np.any((result == 0) & (np.signbit(np.where(condition, x, y)) != np.signbit(result))))


def _castable(value: Array, result: Array) -> bool:
    """Return False for a real number that is cast to an integer type which cannot hold it."""
    if value.dtype.kind != "f" or result.dtype.kind not in "iu":
        return True
    ends = np.iinfo(result.dtype)
    with np.errstate(invalid="ignore"):
        whole = np.trunc(value.astype(float))
        return bool(np.all((whole >= float(ends.min)) & (whole < float(ends.max) + 1)))
