"""The definitions of operators: one file for each family, one entry for each operator.

An entry (`superopt.ir.operator.Operator`) has an operator's arity, attributes and type rules. A primitive operator has
a meaning: a function that returns the scalar at an index of the output, from the scalars of the inputs. Its formula is
that of the operator's page in the ONNX specification. A composite operator has equations instead, which unfold it into
primitive operators (`superopt.ops.equation`). Proofs, evaluation, fingerprints and costs are all derived from these
entries.

Terms have one canonical form of each operator, for every opset of the file. Parameters that newer opsets pass as
constant inputs (Slice's starts, Split's sizes, Pad's pads, axes) are attributes, defaults are filled in, and `auto_pad`
is resolved. Axes count from the end (-1 is the last), so that one rule serves every rank.
"""

import importlib
import pkgutil

from superopt.ir.operator import OPERATORS

__all__ = ["OPERATORS"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
