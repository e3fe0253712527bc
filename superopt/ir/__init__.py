"""ONNX operators as interned terms: types, patterns, rules and their notation. Standard library only."""

import importlib

# Terms are made of operators: who imports terms gets the definitions, which register themselves.
importlib.import_module("superopt.ops")
