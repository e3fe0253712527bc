"""Nodes of files as terms, and terms as nodes.

importing.py, exporting.py   a node of any opset as a term in canonical form, and back
derived_importer.py, derived_exporter.py   by the operator's schema and entry, which is enough for most operators
substitutes.py               operators of ONNX Runtime for those that an opset lacks
by_attribute.py, windows.py  attributes whose canonical form differs from their value
forms                        operators that need more, one file for each kind
output_places.py             places of outputs where some have no definition
view.py, node_export.py      what importers read, and exporters write
"""

from superopt.onnx_io.nodes.exporting import export_term, is_standard, is_writable
from superopt.onnx_io.nodes.forms.constants import export_filled
from superopt.onnx_io.nodes.importing import import_node
from superopt.onnx_io.nodes.output_places import defined_outputs
from superopt.onnx_io.nodes.view import NodeView, Unreadable

__all__ = [
    "NodeView", "Unreadable", "defined_outputs", "export_filled", "export_term", "import_node", "is_standard",
    "is_writable",
]  # fmt: skip
