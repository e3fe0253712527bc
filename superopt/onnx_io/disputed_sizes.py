"""Nodes whose results have other sizes in ONNX Runtime than ONNX's shape inference says.

Measured with ONNX 1.23 and ONNX Runtime 1.32, without optimizations. No size that inference gives may be used there:

- NonZero of a scalar: (0, n) by ONNX, (1, n) in the runtime.
- Resize and Upsample by a scale: 10 times 0.7 in float32 is 7 in the runtime, 6 by ONNX. Whole scales and halves are
  exact in both.
- Pools that round up: ONNX counts a last window that begins in the padding. Pools with an automatic padding and
  dilations, and LpPool: ONNX leaves out the dilations.
- Slice with a negative step to an end beyond the axis: the whole axis in the runtime, nothing by ONNX. Slice of a free
  axis in opset 10: ONNX says that all of it remains.
- Einsum: the runtime broadcasts an axis of size 1 to others of the same letter; ONNX takes the size of the first.
- If before opset 11: ONNX gives it the shape of its first branch.
- PRelu: the runtime also broadcasts an axis of x that is 1 to the slope.
- STFT without `onesided`: n // 2 + 1 frequencies of n in the runtime, as its default says, n by ONNX.
- Any operator with a truth value that is neither 0 nor 1.
- ConvTranspose with an automatic and an output padding: the runtime does not add the latter.
- Attention with free sizes: ONNX divides or adds them as 0.
- NegativeLogLikelihoodLoss without a reduction: the runtime gives it the sizes of the target, which may be smaller.
- Scan: ONNX gives the last state the shape of the first; the body may change it.
- Col2Im with an empty list for an attribute: the runtime takes it as absent, ONNX as one for images without axes.
- Squeeze with no axes in its list: the runtime removes all axes of size 1, ONNX none. Negative axes before opset 11:
  ONNX keeps all axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import onnx
from onnx import TensorProto, helper, numpy_helper

from superopt.evaluate.indices import Array
from superopt.onnx_io.schemas import TO_THE_END, has_doubtful_attributes

__all__ = ["has_disputed_rank", "has_disputed_sizes"]

_POOLS = frozenset({"AveragePool", "MaxPool"})
_IF_OF_TWO_BRANCHES = 11  # the first operator set in which inference asks for both branches
_NEGATIVE_AXES = 11  # the first operator set in which a Squeeze counts axes from the end
_SLICES_OF_INPUTS = 10  # the first operator set whose Slice has its ends as inputs
_EXACT = 8  # halvings of a size: float32 has the result exactly

_Shape: TypeAlias = "Sequence[int | str]"  # of an axis, its size or the name of it; "" if both are unknown
_Value = Callable[[int], "Array | None"]


def has_disputed_sizes(
    node: onnx.NodeProto, opset: int, shapes: Mapping[str, _Shape], values: Mapping[str, TensorProto]
) -> bool:
    """Return True if a node of ONNX's own domain may have other sizes in ONNX Runtime than by ONNX's inference.

    `shapes` and `values` are those of its inputs by name, as far as they are known.
    """
    if has_doubtful_attributes(node.op_type, node.attribute):
        return True
    given = [shapes.get(name) for name in node.input]
    if node.op_type == "NonZero":
        return bool(given) and given[0] is not None and not given[0]
    if node.op_type == "If":
        return opset < _IF_OF_TWO_BRANCHES
    if node.op_type == "Einsum":
        return _broadcasts_letters(node, given)
    if node.op_type == "PRelu":
        return has_disputed_rank(node, opset, shapes) or _broadcasts_x(*(shapes[name] for name in node.input[:2]))
    if node.op_type in _OF_DISPUTED_RANK:
        return has_disputed_rank(node, opset, shapes)
    if node.op_type == "Attention":
        present = [shape for name, shape in zip(node.input, given, strict=True) if name]
        return any(shape is None or not all(isinstance(size, int) for size in shape) for shape in present)
    if node.op_type == "Slice" and opset == _SLICES_OF_INPUTS:
        return not given or given[0] is None or not all(isinstance(size, int) for size in given[0])

    def value(index: int) -> Array | None:
        tensor = values.get(node.input[index])
        array = None if tensor is None else numpy_helper.to_array(tensor)
        return None if array is None or array.dtype == object else array  # strings are no sizes

    test = _TESTS.get(node.op_type)
    return test is not None and test(
        {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}, node, value
    )


def has_disputed_rank(node: onnx.NodeProto, opset: int, shapes: Mapping[str, _Shape]) -> bool:
    """Return True if a result may have another rank."""
    if has_doubtful_attributes(node.op_type, node.attribute):
        return True
    test = _OF_DISPUTED_RANK.get(node.op_type)
    return test is not None and test(node, opset, shapes)


def _has_longer_slope(node: onnx.NodeProto, opset: int, shapes: Mapping[str, _Shape]) -> bool:
    """Return True if the slope of a PRelu may have more axes than x: then the result has as many."""
    ranks = [len(shapes[name]) for name in node.input[:2] if name in shapes]
    return len(ranks) < 2 or ranks[1] > ranks[0]


def _squeezes_otherwise(node: onnx.NodeProto, opset: int, shapes: Mapping[str, _Shape]) -> bool:
    """Return True for a list of axes that is empty, or has negative ones before these were allowed."""
    axes = next((attribute.ints for attribute in node.attribute if attribute.name == "axes"), None)
    if axes is not None:
        return not axes or (opset < _NEGATIVE_AXES and min(axes) < 0)
    return len(node.input) > 1 and list(shapes.get(node.input[1], ())) == [0]


def _has_empty_list(node: onnx.NodeProto, opset: int, shapes: Mapping[str, _Shape]) -> bool:
    return any(attribute.type == onnx.AttributeProto.INTS and not attribute.ints for attribute in node.attribute)


_OF_DISPUTED_RANK: Mapping[str, Callable[[onnx.NodeProto, int, Mapping[str, _Shape]], bool]] = {
    "Col2Im": _has_empty_list,
    "PRelu": _has_longer_slope,
    "Scan": lambda node, opset, shapes: True,
    "Squeeze": _squeezes_otherwise,
}


def _broadcasts_letters(node: onnx.NodeProto, shapes: Sequence[_Shape | None]) -> bool:
    """Return True if axes of one letter may have several sizes."""
    equation = next((a.s.decode("utf-8", "replace") for a in node.attribute if a.name == "equation"), "")
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    found: dict[str, set[int | str]] = {}
    for term, shape in zip(terms, shapes, strict=False):
        if shape is None or len(term) != len(shape) or "." in term:
            return True
        for letter, size in zip(term, shape, strict=True):
            found.setdefault(letter, set()).add(size)
    return any(len(sizes) > 1 or (sizes == {""} and equation.count(letter) > 2) for letter, sizes in found.items())


def _broadcasts_x(x: _Shape, slope: _Shape) -> bool:
    """Return True if the slope of a PRelu, of no more axes than x, may be longer along one where x has size 1."""
    aligned = zip(x[len(x) - len(slope) :], slope, strict=True)
    return any(
        theirs != 1 and (own == 1 or (isinstance(own, str) and (not own or own != theirs))) for own, theirs in aligned
    )


def _pool(attributes: Mapping[str, Any], node: onnx.NodeProto, value: _Value) -> bool:
    rounds_up = bool(attributes.get("ceil_mode")) and any(size > 1 for size in attributes.get("strides", ()))
    return rounds_up or (_is_automatic(attributes) and any(size != 1 for size in attributes.get("dilations", ())))


def _is_automatic(attributes: Mapping[str, Any]) -> bool:
    return attributes.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID")


def _transposed(attributes: Mapping[str, Any], node: onnx.NodeProto, value: _Value) -> bool:
    return _is_automatic(attributes) and any(attributes.get("output_padding", ()))


def _resize(attributes: Mapping[str, Any], node: onnx.NodeProto, value: _Value) -> bool:
    if len(node.input) > 3 and node.input[3]:  # sizes, in place of scales
        return bool(attributes.get("keep_aspect_ratio_policy", b"stretch") != b"stretch")
    if "scales" in attributes:
        return not _are_exact(attributes["scales"])
    given = next((found for k in (2, 1) if len(node.input) > k and (found := value(k)) is not None), None)
    return given is None or not _are_exact(given.reshape(-1).tolist())


def _are_exact(scales: Sequence[float]) -> bool:
    return all(scale > 0 and (scale.is_integer() or (scale * 2**_EXACT).is_integer()) for scale in map(float, scales))


def _slice(attributes: Mapping[str, Any], node: onnx.NodeProto, value: _Value) -> bool:
    if len(node.input) < 5 or not node.input[4]:
        return False
    steps, ends = value(4), value(2)
    is_backwards = steps is None or bool((steps < 0).any())
    return is_backwards and (ends is None or bool((ends >= TO_THE_END).any()))


_TESTS: Mapping[str, Callable[[Mapping[str, Any], onnx.NodeProto, _Value], bool]] = {
    **dict.fromkeys(_POOLS, _pool),
    "ConvTranspose": _transposed,
    "LpPool": lambda attributes, node, value: True,
    "NegativeLogLikelihoodLoss": lambda attributes, node, value: attributes.get("reduction") == b"none",
    "Resize": _resize,
    "STFT": lambda attributes, node, value: "onesided" not in attributes,
    "Slice": _slice,
    "Upsample": _resize,
}
