"""The rotation of queries and keys by the positions of their tokens.

ONNX's operator has a row of cosines for each token of each sequence. ONNX Runtime's own, which serves opsets before 23,
has positions, and tables with a row for each position: the rows of all tokens are such a table. A single position is
that of the first token of each sequence, and the others follow it.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx

from superopt.ir.dim import Size, Sizes
from superopt.ir.infer import make
from superopt.ir.operator import OPERATORS
from superopt.ir.term import Attr, Term
from superopt.onnx_io.model import Array, ModelError
from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.derived_importer import check_rest
from superopt.onnx_io.nodes.forms.registry import exporter, importer
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.substitutes import substitute
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable
from superopt.onnx_io.schemas import schema_of

__all__: list[str] = []


@importer("RotaryEmbedding")
def import_rotary(view: NodeView) -> dict[str, Attr]:
    """Read the number of heads, 0 if it is absent. Positions, and a part that is not rotated, have no definition."""
    attrs: dict[str, Attr] = {"interleaved": view.integer("interleaved", 0), "num_heads": view.integer("num_heads", 0)}
    if view.integer("rotary_embedding_dim", 0) or len(view.inputs) != 3:
        raise Unreadable("positions")
    check_rest(view, OPERATORS["RotaryEmbedding"])
    return attrs


@importer("com.microsoft::RotaryEmbedding", entry="RotaryEmbedding")
def import_positions(view: NodeView) -> Canonical:
    """Read tables that have the rows of all tokens in their order, and heads along an axis."""
    shape, rows = view.shape(0), view.shape(2)
    if len(view.inputs) != 4 or shape is None or len(shape) != 4 or rows is None or len(rows) != 2:
        raise Unreadable("inputs")
    batch, sequence = shape[0], shape[2]
    places = view.array_input(1)
    if rows[0] != batch * sequence or places is None or not _are_in_order(places, batch, sequence):
        raise Unreadable("positions")
    attrs = {"interleaved": view.integer("interleaved", 0), "num_heads": view.integer("num_heads", 0)}
    neutral = view.real("scale", 1.0) == 1.0 and not view.integer("is_packed_batching", 0)
    if attrs["num_heads"] or view.integer("rotary_embedding_dim", 0) or not neutral:
        raise Unreadable("attributes")
    check_rest(dataclasses.replace(view, inputs=view.inputs[:3]), OPERATORS["RotaryEmbedding"])
    target: dict[str, Attr] = {"allowzero": 0, "shape": (batch, sequence, rows[1])}
    tables = [None if table is None else make("Reshape", (table,), target) for table in view.inputs[2:]]
    return Canonical("RotaryEmbedding", (view.inputs[0], *tables), attrs)


@exporter("RotaryEmbedding")
def export_rotary(e: NodeExport) -> list[onnx.NodeProto]:
    found = None if schema_of(e.term.op, e.opset) is not None else substitute(e.term)
    if found is None:
        return export_derived(e)
    batch, sequence, half = _shape(e.term.inputs[1])
    if all(map(_is_repeated, e.term.inputs[1:])):
        batch = 1  # the rows of the first sequence are those of all
    if batch is None or sequence is None or not isinstance(half, int):
        raise ModelError(f"opset {e.opset} has no RotaryEmbedding (new in 23) of free sizes")
    rows = e.constants(np.array([-1, half]), "int64")
    tables = [e.sizes.node("Reshape", [name, rows]) for name in e.inputs[1:]]
    e.inputs[1:] = [_written_positions(e, batch, sequence), *tables]
    return [e.node(found.op, found.domain, **found.attributes)]


def _is_repeated(table: Term | None) -> bool:
    """Return True for the rows of one sequence, repeated for all of them."""
    return table is not None and table.op == "Expand" and _shape(table.inputs[0])[0] == 1


def _shape(cosines: Term | None) -> Sizes | tuple[None, None, None]:
    shape = None if cosines is None or cosines.type is None else cosines.type.shape
    return shape or (None, None, None)


def _written_positions(e: NodeExport, batch: Size, sequence: Size) -> str:
    """Return the name of the positions of all tokens in tables of all rows."""
    found = _positions(batch, sequence)
    if found is not None:
        return e.constants(found, "int64")
    ends = e.constants(np.array(0), "int64"), e.sizes.scalar(batch * sequence), e.constants(np.array(1), "int64")
    return e.sizes.node("Reshape", [e.sizes.node("Range", ends), e.sizes.vector([batch, sequence])])


def _positions(batch: Size, sequence: Size) -> Array | None:
    """Return the positions, or None if they depend on free sizes."""
    if batch == 1:
        return np.zeros(1, np.int64)
    if not isinstance(batch, int) or not isinstance(sequence, int):
        return None
    return np.arange(batch * sequence).reshape(batch, sequence)


def _are_in_order(places: Array, batch: Size, sequence: Size) -> bool:
    ours = _positions(batch, sequence)
    if ours is None or places.dtype.kind != "i":
        return False
    every = np.arange(sequence).reshape(1, sequence) if batch == 1 and isinstance(sequence, int) else ours
    return any(np.array_equal(places, one) for one in (ours, every))
