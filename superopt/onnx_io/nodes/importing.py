"""Import of a node of any opset as an operator of the registry, in its canonical form.

The operator's schema (`onnx.defs`) and its entry in `superopt.ops` define the attributes and inputs of a node, so a new
operator needs no code here. `forms` has the operators that need more. A node without a canonical form (a size is
unknown, a mode has no definition) stays opaque.
"""

from __future__ import annotations

from superopt.ir.operator import OPERATORS
from superopt.ir.term import CLOSED_FORM
from superopt.onnx_io.nodes.derived_importer import import_derived, operands_of
from superopt.onnx_io.nodes.forms import ENTRIES, IMPORTERS
from superopt.onnx_io.nodes.view import Canonical, NodeView, Unreadable
from superopt.onnx_io.schemas import DEFAULT_DOMAINS, has_doubtful_attributes, is_extension

__all__ = ["import_node"]


def import_node(view: NodeView) -> Canonical | None:
    """Return the canonical form of a node, or None if it has none."""
    node, standard = view.node, view.node.domain in DEFAULT_DOMAINS
    name = node.op_type if standard else f"{node.domain}::{node.op_type}"
    operator = OPERATORS.get(ENTRIES.get(name, node.op_type))
    if operator is None or (name not in ENTRIES and operator.domain != ("" if standard else node.domain)):
        return None
    if standard and view.schema is None and not is_extension(node.op_type, view.opset):
        return None
    if has_doubtful_attributes(node.op_type, node.attribute) or (
        view.schema is not None and len(view.inputs) > view.schema.max_input
    ):
        return None
    importer = IMPORTERS.get(name)
    if importer is None and operator.name in CLOSED_FORM:
        return None
    try:
        form = import_derived(view, operator) if importer is None else importer(view)
        if not isinstance(form, Canonical):
            form = Canonical(operator.name, operands_of(view, operator), form)
    except Unreadable:
        return None
    return form if view.outputs <= OPERATORS[form.op].outputs(form.attrs) else None
