"""Equivalence of two models, whoever wrote them.

written_out.py   fused operators as those that they stand for
joining.py       both models as terms over the same leaves; regions that are equal in structure become one term
constant_uses.py uses of constants, and how far roundings of one matter
left_out.py      nodes of the second model that its terms leave out, and that may fail
meanings.py      facts that decide whether two operators without a definition are the same
equality.py      proves outputs equal, by sweeps: over the models as read, then over what rules make of them
derivation.py    rewrites both models by rules, and repeats the steps from a certificate
proof.py         one sweep: proposes tensors of both models that may be equal, and proves them
equations.py     equations that the kernel is asked about, each once
values.py        proposes tensors that may be equal, by their values on random inputs (others by their names)
cones.py         two tensors as an equation over the nearest tensors below that both models have
literals.py      literals that stand for fractions, roots and products
constants.py     equality of constants by value, with bounds of rounding errors
bias_sums.py     how large the sums are to which a bias is added
runs.py          constants as ONNX Runtime computes them, where no bound says what folding may give
layouts.py       constants that hold others transposed, reshaped or side by side
bodies.py        bodies of If, Loop and Scan as models of their own, in pairs
deadline.py      when a proof ends
folding.py       rewrites by rules until the constants are those that the other model has
sweep.py         replaces tensors of one model by equal ones of the other, inputs first
certificate.py   the proof as a file, and its replay by the kernel
interface.py     names, types and sizes of inputs and outputs
inputs.py        inputs to try; side.py runs a model on them
rounding.py      differences that roundings do not explain
faint.py         differences that only all elements of two runs together show
witness.py       the search for an input with such a difference; parting.py finds where it begins
answer.py        the answer as data; regions.py names its tensors
options.py       its options
run.py           `check`: all of these in order
"""

import importlib

# The names are imported on first use: the command line's help needs a small module of this package only.
TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
    from superopt.check.exports import *  # noqa: F403
else:

    def __getattr__(name):
        return getattr(importlib.import_module("superopt.check.exports"), name)
