"""Operators whose form in files is more than their schema and entry say: an importer, an exporter or both for each."""

import importlib
import pkgutil

from superopt.onnx_io.nodes.forms.registry import ENTRIES, EXPORTERS, IMPORTERS

__all__ = ["ENTRIES", "EXPORTERS", "IMPORTERS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
