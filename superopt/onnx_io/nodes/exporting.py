"""Export of terms as nodes of a given opset: the reverse of the import.

The operator's schema decides the form of each attribute of a term. It becomes an attribute of the node or a constant
input, or is left out if the opset lacks it and the term has the default. So a new operator needs no code here.
`forms` has the operators that need more.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from superopt.ir.operator import OPERATORS
from superopt.ir.term import CLOSED_FORM, Term
from superopt.onnx_io.model import ModelError
from superopt.onnx_io.nodes.derived_exporter import export_derived
from superopt.onnx_io.nodes.forms import EXPORTERS
from superopt.onnx_io.nodes.node_export import Constants, NodeExport
from superopt.onnx_io.nodes.output_places import placed_outputs
from superopt.onnx_io.nodes.substitutes import substitute
from superopt.onnx_io.schemas import is_extension, schema_of, type_error
from superopt.onnx_io.size_arithmetic import SizeArithmetic
from superopt.properties import reduces

__all__ = ["export_term", "is_standard", "is_writable"]


def is_standard(op: str) -> bool:
    """Return True if `op` is written as operators of ONNX itself, which every runtime has to know, or as a constant."""
    if op not in OPERATORS or op in CLOSED_FORM:
        return True
    return not OPERATORS[op].domain and (op in EXPORTERS or not is_extension(op))


def is_writable(operator: Term, opset: int, *, standard: bool = False) -> bool:
    """Return True if `operator` can be written in a model of this opset; with `standard`, if it is standard there.

    Closed-form constants, and operators of the runtime's own domain, can be written in every version.
    """
    op = operator.op
    if standard and not is_standard(op):
        return False
    if op not in OPERATORS or OPERATORS[op].domain or is_extension(op) or schema_of(op, opset) is not None:
        return True
    return not standard and (is_extension(op, opset) or substitute(operator) is not None)


def _reduces_a_number(term: Term) -> bool:
    """Return True for a reduction of a single number, of rank 0.

    It is no identity for ONNX Runtime, which sums int64 in double, and adds -0.0 to 0.0.
    """
    type = None if term.inputs[0] is None else term.inputs[0].type
    return reduces(term.op) and type is not None and type.shape == ()


def export_term(
    term: Term,
    opset: int,
    inputs: Sequence[str],
    outputs: Sequence[str],
    constants: Constants,
    sizes: SizeArithmetic,
) -> list[onnx.NodeProto]:
    """Return the nodes (one, as a rule) that compute `term` at `opset`.

    `constants` gives the name of a constant input, and `sizes` that of free sizes. Raises ModelError if the opset
    cannot express the term.
    """
    placed = placed_outputs(term.op, outputs)
    export = NodeExport(term, opset, list(inputs), placed, dict(term.attrs), constants, sizes)
    # An operator over no axis is the identity. In a file, an empty list would mean all axes, or be invalid.
    if any(export.attrs.get(name) == () for name in ("axes", "perm", "pads")):
        if not _reduces_a_number(term):
            return [export.node("Identity")]
        del export.attrs["axes"]  # so all of them, which are none
    nodes = EXPORTERS.get(term.op, export_derived)(export)
    types = dict(zip(inputs, (None if i is None else i.type for i in term.inputs), strict=True))
    types.update(zip(outputs, term.types, strict=False))
    for node in nodes:
        if error := type_error(node, opset, types):
            raise ModelError(error)
    return nodes
