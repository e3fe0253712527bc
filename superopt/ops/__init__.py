"""The definitions of operators: one family a file, one entry an operator.

An entry (`superopt.ir.operator.Operator`) has an operator's arity, attributes and type rules. A primitive operator has
a meaning: the scalar at an index of the output, from the scalars of the inputs, in the notation of the ONNX
specification (the operator's page is the source of each formula). A composite operator has equations, which unfold it
into primitive ones (`superopt.ops.equation`). Everything else is a reading of these entries.

Terms hold one canonical form of each operator, whatever the opset of the file: parameters that newer opsets pass as
constant inputs (Slice's starts, Split's sizes, Pad's pads, axes) are attributes, defaults are filled in, `auto_pad` is
resolved, and axes count from the end (-1 is the last), so that one rule serves every rank.
"""

import importlib
import pkgutil

from superopt.ir.operator import OPERATORS

__all__ = ["OPERATORS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
