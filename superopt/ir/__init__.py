"""ONNX operators as interned terms: types, patterns, rules and their notation. Standard library only."""
