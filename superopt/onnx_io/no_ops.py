"""Recognition of no-ops: nodes that return an input unchanged, at their types, attributes and constants.

Sources: the operators' pages of the ONNX specification. In doubt, a node does not count as a no-op: nor does one that
a runtime refuses, or that fails at a rank that the operand may have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from superopt.evaluate import dtype_name
from superopt.ir.dim import Size
from superopt.ir.term import Term
from superopt.onnx_io.nodes import NodeView, Unreadable
from superopt.onnx_io.nodes.view import distinct, negative
from superopt.onnx_io.schemas import TO_THE_END, has_doubtful_attributes
from superopt.onnx_io.static_values import StaticValues
from superopt.ops.resize import NEAREST_MODES

__all__ = ["broadcasts", "unchanged_input"]


def unchanged_input(view: NodeView, known: StaticValues) -> Term | None:
    """Return the input that is the first output of the node (of the standard domain), or None."""
    if has_doubtful_attributes(view.node.op_type, view.node.attribute):
        return None
    try:
        if view.node.op_type in _CHOICES:
            return _chosen(view, known)
        if view.node.op_type == "Concat":
            return _not_empty(view, known)
        test, x = _TESTS.get(view.node.op_type), view.inputs[0] if view.inputs else None
        return x if test is not None and x is not None and test(view, known) else None
    except Unreadable:
        return None


# Operators that return an operand if another has one value everywhere, a truth value or an integer: (that operand, its
# value, the result). Real numbers are left to rules: -0.0 + 0.0 is 0.0.
_CHOICES: Mapping[str, tuple[tuple[int, int, int], ...]] = {
    "And": ((0, True, 1), (1, True, 0)),
    "Or": ((0, False, 1), (1, False, 0)),
    "Where": ((0, True, 1), (0, False, 2)),
    "Add": ((0, 0, 1), (1, 0, 0)),
    "Sub": ((1, 0, 0),),
    "Mul": ((0, 1, 1), (1, 1, 0)),
    "Div": ((1, 1, 0),),
}


def _chosen(view: NodeView, known: StaticValues) -> Term | None:
    """Return the operand that a choice returns, if it has the shape of the result, or None."""
    shapes = [known.shape(term) for term in view.inputs]
    for by, value, index in _CHOICES[view.node.op_type]:
        condition = view.inputs[by] if len(view.inputs) > max(by, index) else None
        found, shape = None if condition is None else known.numbers(condition), shapes[index : index + 1]
        if found is None or not found.size or not (found == value).all() or not shape:
            continue
        if found.dtype.kind not in ("b" if isinstance(value, bool) else "iu"):
            continue
        if shape[0] is not None and all(other is not None and broadcasts(other, shape[0]) for other in shapes):
            return view.inputs[index]
    return None


def _not_empty(view: NodeView, known: StaticValues) -> Term | None:
    """Return the one operand of a Concat that may have elements, if the others fit it wherever it is defined."""
    shapes, axis = [known.shape(term) for term in view.inputs], view.integer("axis", 1)
    beside: set[tuple[Size, ...]] = set()
    may_have = []
    for term, shape in zip(view.inputs, shapes, strict=True):
        if shape is None or not -len(shape) <= axis < len(shape):
            return None
        own = list(shape)
        may_have += [term] if own.pop(axis) != 0 else []
        beside.add(tuple(own))
    return may_have[0] if len(may_have) == 1 and len(beside) == 1 else None


def broadcasts(sizes: Sequence[Size], to: Sequence[Size]) -> bool:
    """Return True if a tensor of `sizes` is broadcast to another without changing the shape of that."""
    own = to[len(to) - len(sizes) :]
    return len(sizes) <= len(to) and all(size in (1, have) for size, have in zip(sizes, own, strict=True))


def _always(view: NodeView, known: StaticValues) -> bool:
    return True


def _single(view: NodeView, known: StaticValues) -> bool:
    return len(view.inputs) == 1


def _dropout(view: NodeView, known: StaticValues) -> bool:
    """Return True outside training: opsets before 12 have no training mode, later ones have an input for it.

    ONNX Runtime fails at a ratio that is not in [0, 1), so one that is not known counts.
    """
    if view.opset < 12:
        return True
    ratio, mode = (view.inputs[k] if len(view.inputs) > k else None for k in (1, 2))
    shares, values = (None if term is None else view.value(term) for term in (ratio, mode))
    is_share = ratio is None or (shares is not None and shares.size == 1 and 0 <= float(shares.reshape(-1)[0]) < 1)
    return is_share and (mode is None or (values is not None and values.size == 1 and not values.reshape(-1)[0]))


def _dtype(view: NodeView, index: int) -> str | None:
    term = view.inputs[index] if index < len(view.inputs) else None
    return None if term is None or term.type is None else term.type.dtype


def _cast(view: NodeView, known: StaticValues) -> bool:
    try:
        return dtype_name(view.integer("to", 0)) == _dtype(view, 0)
    except ValueError:
        return False


def _cast_like(view: NodeView, known: StaticValues) -> bool:
    return _dtype(view, 0) is not None and _dtype(view, 0) == _dtype(view, 1)


def _transpose(view: NodeView, known: StaticValues) -> bool:
    perm, shape = view.integers("perm"), known.shape(view.inputs[0])
    if shape is None:
        return False
    return perm == tuple(range(len(shape))) if perm is not None else len(shape) < 2


def _pad(view: NodeView, known: StaticValues) -> bool:
    """Return True for pads of 0 on all sides: then neither the mode nor the value matters, if they are known to be one.

    Raises Unreadable for a value or axes that are not constant, and for axes that are none: the node may fail at them.
    """
    pads, shape = view.parameter("pads"), known.shape(view.inputs[0])
    value = view.array_input(2) if view.opset >= 11 else None
    axes = view.list_input(3) if view.opset >= 18 else None
    if pads is None or shape is None or any(pads) or view.text("mode", "constant") not in _PADDINGS:
        return False
    padded = range(len(shape)) if axes is None else distinct(negative(axes, len(shape)))
    return len(pads) == 2 * len(padded) and (value is None or value.size == 1)


def _tile(view: NodeView, known: StaticValues) -> bool:
    repeats, shape = view.list_input(1), known.shape(view.inputs[0])
    return shape is not None and repeats == (1,) * len(shape)


def _split(view: NodeView, known: StaticValues) -> bool:
    """Return True for one part, which is the whole: of the size that is stated, if one is."""
    sizes, shape, axis = view.parameter("split"), known.shape(view.inputs[0]), view.integer("axis", 0)
    parts = view.integer("num_outputs", 1) if view.opset >= 18 else 1
    if {len(view.node.output), parts} != {1}:  # an output without a name is a part as well
        return False
    return shape is not None and -len(shape) <= axis < len(shape) and sizes in (None, (shape[axis],))


def _elements(view: NodeView, known: StaticValues, index: int) -> list[Size] | None:
    term = view.inputs[index] if index < len(view.inputs) else None
    found = None if term is None else known.sizes(term)
    return None if found is None or found.ndim != 1 else list(found)


def _expand(view: NodeView, known: StaticValues) -> bool:
    """Return True if each target size is the input's own or 1 (broadcasting is symmetric)."""
    shape, wanted = known.shape(view.inputs[0]), _elements(view, known, 1)
    if shape is None or wanted is None or len(wanted) > len(shape):
        return False
    own = shape[len(shape) - len(wanted) :]
    return all(size == 1 or size == have for size, have in zip(wanted, own, strict=True))


def _slice(view: NodeView, known: StaticValues) -> bool:
    """Return True for slices from 0 to the end or beyond, with steps of 1."""
    shape = known.shape(view.inputs[0])
    if view.opset < 10:
        starts, ends, axes, steps = view.integers("starts"), view.integers("ends"), view.integers("axes"), None
    else:
        starts, axes, steps = view.list_input(1), view.list_input(3), view.list_input(4)
        found = _elements(view, known, 2)
        ends = None if found is None else tuple(found)  # type: ignore[arg-type]
    if shape is None or starts is None or ends is None or any(starts) or any(step != 1 for step in steps or ()):
        return False
    axes = distinct(negative(range(len(starts)) if axes is None else axes, len(shape)))
    if not len(starts) == len(ends) == len(axes) or len(steps or starts) != len(starts):
        return False
    return all(_reaches(end, shape[axis]) for axis, end in zip(axes, ends, strict=True))


def _reaches(end: Size, size: Size) -> bool:
    if isinstance(end, int):
        return end >= (size if isinstance(size, int) else TO_THE_END)
    return end == size


_PADDINGS = frozenset({"constant", "edge", "reflect"})
# Ranks that ONNX Runtime interpolates, if all sizes are kept.
_RANKS: Mapping[str, tuple[int, ...]] = {"linear": (2, 3, 4, 5), "cubic": (2, 4)}
_EXACT_AT_1 = frozenset({"align_corners", "asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel"})


def _resize(view: NodeView, known: StaticValues) -> bool:
    """Return True for a resize to the operand's own size, if the coordinate transformation then maps q to q."""
    shape = known.shape(view.inputs[0])
    if shape is None or 0 in shape or view.integer("antialias", 0) or view.integers("axes") is not None:
        return False
    if view.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        return False
    mode = view.text("mode", "nearest")
    if view.text("nearest_mode", "round_prefer_floor") not in NEAREST_MODES:
        return False
    if mode != "nearest" and len(shape) not in _RANKS.get(mode, ()):
        return False
    if (
        view.text("coordinate_transformation_mode", "half_pixel" if view.opset >= 11 else "asymmetric")
        not in _EXACT_AT_1
    ):
        return False
    term = view.inputs[2 if view.opset >= 11 else 1] if len(view.inputs) > (2 if view.opset >= 11 else 1) else None
    scales = None if term is None else view.value(term)
    if scales is not None and scales.size:
        return len(view.inputs) < 4 and scales.size == len(shape) and bool((scales == 1).all())
    wanted = _elements(view, known, 3) if view.opset >= 11 and (term is None or scales is not None) else None
    return wanted is not None and len(wanted) == len(shape) and all(a == b for a, b in zip(wanted, shape, strict=True))


_TESTS: Mapping[str, Callable[[NodeView, StaticValues], bool]] = {
    "Identity": _always,
    "Dropout": _dropout,
    "Cast": _cast,
    "CastLike": _cast_like,
    "Transpose": _transpose,
    "Pad": _pad,
    "Tile": _tile,
    "Split": _split,
    "Expand": _expand,
    "Slice": _slice,
    "Resize": _resize,
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), _single),
}
