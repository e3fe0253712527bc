"""The importers and exporters of operators whose schema and entry are not enough, by operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import onnx

from superopt.ir.term import Attr
from superopt.onnx_io.nodes.node_export import NodeExport
from superopt.onnx_io.nodes.view import Canonical, NodeView

__all__ = ["ENTRIES", "EXPORTERS", "IMPORTERS", "exporter", "importer"]

# Returns the attributes of the term, or the whole canonical form. Raises Unreadable if there is none.
Importer: TypeAlias = Callable[[NodeView], "Mapping[str, Attr] | Canonical"]
# Returns the nodes that compute a term. Raises ModelError.
Exporter: TypeAlias = Callable[[NodeExport], list[onnx.NodeProto]]

IMPORTERS: dict[str, Importer] = {}  # by operator type; operators of other domains are called domain::type
ENTRIES: dict[str, str] = {}  # the entry in `superopt.ops` of operators that have another name in files
EXPORTERS: dict[str, Exporter] = {}  # by operator of a term


def importer(*ops: str, entry: str = "") -> Callable[[Importer], Importer]:
    """Return a decorator that registers the importer of operators, which have the `entry` of another name if given."""

    def register(made: Importer) -> Importer:
        IMPORTERS.update(dict.fromkeys(ops, made))
        if entry:
            ENTRIES.update(dict.fromkeys(ops, entry))
        return made

    return register


def exporter(*ops: str) -> Callable[[Exporter], Exporter]:
    """Return a decorator that registers the exporter of operators."""

    def register(made: Exporter) -> Exporter:
        EXPORTERS.update(dict.fromkeys(ops, made))
        return made

    return register
