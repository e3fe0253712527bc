"""Operators that change the shape alone."""

from __future__ import annotations

import onnx

from superopt.ir.dim import Size, floor_div
from superopt.ir.term import Attr
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport, is_free, operand_shape
from superopt.onnx_io.nodes.view import NodeView, Unreadable, distinct, negative
from superopt.onnx_io.static_values import is_never_negative


@importer("Flatten")
def import_flatten(view: NodeView) -> dict[str, Attr]:
    """Read `axis`, counted from the front: it is the number of axes that are merged into the first."""
    axis = view.integer("axis", 1)
    return {"axis": axis + view.rank if axis < 0 else axis}


@exporter("Flatten")
def export_flatten(e: NodeExport) -> list[onnx.NodeProto]:
    """Write `axis` unchanged: it is the number of axes that are merged into the first, and may be the rank."""
    return [e.node(axis=e.attrs["axis"])]


@importer("Squeeze")
def import_squeeze(view: NodeView) -> dict[str, Attr]:
    """Read the axes; without axes, all axes of size 1 are removed. What an empty list means is disputed."""
    axes, shape = view.parameter("axes"), view.shape(0)
    if shape is None:
        raise Unreadable("shape")
    if axes == ():
        raise Unreadable("axes")
    if axes is None:
        if not all(isinstance(size, int) for size in shape):
            raise Unreadable("axes")
        axes = tuple(k for k, size in enumerate(shape) if size == 1)
    return {"axes": tuple(sorted(distinct(negative(axes, len(shape)))))}


@importer("Unsqueeze")
def import_unsqueeze(view: NodeView) -> dict[str, Attr]:
    """Read the axes, which are those of the result."""
    axes = view.parameter("axes")
    if axes is None:
        raise Unreadable("axes")
    return {"axes": tuple(sorted(distinct(negative(axes, view.rank + len(axes)))))}


@importer("Expand")
def import_expand(view: NodeView) -> dict[str, Attr]:
    """Read the shape of the result: 1 and a missing axis stand for the operand's size."""
    shape, own = view.list_input(1), view.shape(0)
    if shape is None or own is None:
        raise Unreadable("shape")
    rank = max(len(shape), len(own))
    target, operand = ((1,) * (rank - len(sizes)) + sizes for sizes in (shape, own))
    return {"shape": tuple(have if size == 1 else size for size, have in zip(target, operand, strict=True))}


@exporter("Expand")
def export_expand(e: NodeExport) -> list[onnx.NodeProto]:
    """Write 1 for a free size that the operand has already."""
    shape, wanted = operand_shape(e.term) or (), e.attrs["shape"]
    own = (None,) * (len(wanted) - len(shape)) + shape[max(len(shape) - len(wanted), 0) :]
    e.attrs["shape"] = tuple(1 if is_free(n) and n == have else n for n, have in zip(wanted, own, strict=True))
    return export_derived(e)


@importer("Reshape")
def import_reshape(view: NodeView) -> dict[str, Attr]:
    """Read the shape; `allowzero` becomes 0 if the shape has no 0, because then it has no effect."""
    shape = view.list_input(1)
    if shape is None:
        raise Unreadable("shape")
    zero = view.integer("allowzero", 0) if view.opset >= 14 and 0 in shape else 0
    return {"allowzero": zero, "shape": shape}


@exporter("Reshape")
def export_reshape(e: NodeExport) -> list[onnx.NodeProto]:
    """Write 0 for free sizes that keep their place, or -1 for a single one among numbers; compute more of them.

    Beside a size of 0 at run time, -1 is an error, and without `allowzero` a computed 0 copies a size. So raises
    ModelError before opset 14, which has no `allowzero`, unless the copied size is 0 as well.
    """
    shape, wanted, copies = operand_shape(e.term) or (), list(e.attrs["shape"]), not e.attrs["allowzero"]
    own = [shape[k] if k < len(shape) else None for k in range(len(wanted))]
    copied = [k for k, n in enumerate(wanted) if copies and (n == 0 or (is_free(n) and n == own[k]))]
    others = [k for k, n in enumerate(wanted) if is_free(n) and k not in copied]
    if len(others) == 1 and all(isinstance(n, int) and n > 0 for k, n in enumerate(wanted) if k != others[0]):
        wanted[others[0]] = -1
        others = []
    if not others or -1 in wanted or (e.opset < 14 and all(_copies_itself(wanted[k], own[k]) for k in others)):
        for k in copied:
            wanted[k] = 0
    elif e.opset >= 14 and all(own[k] is not None for k in copied):
        e.attrs["allowzero"] = 1
        for k in copied:
            wanted[k] = own[k]
    else:
        raise ModelError(f"opset {e.opset} has no Reshape to computed sizes that may be 0 (new in 14)")
    e.attrs["shape"] = tuple(wanted)
    if not e.attrs["allowzero"] or not (others or 0 in wanted):
        del e.attrs["allowzero"]
    return export_derived(e)


def _copies_itself(size: Size, own: Size | None) -> bool:
    """Return True if a target of `size` gives that size also where it is 0, and the operand's `own` size is copied."""
    return is_never_negative(size - 1) or (own is not None and own == size * floor_div(own, size))
