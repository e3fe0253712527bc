"""Harvest: cut windows out of models, for which the generator is to find rules.

model_graph   a model's operators, numbered, with neighbours, ancestors and costs
limits        bounds of windows
cutting       the windows of a model: connected convex sets of operators
pieces        one window as terms over typed leaves
small_sizes   the same at small sizes: symbols for sizes, conditions, and numbers that meet them
solving       numbers for symbols under conditions
window_form   one order and one naming for windows that differ in these only
run           all models, counted and weighed together
"""

import importlib

# The names are imported on first use: the command line's help needs a small module of this package only.
TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
    from superopt.harvest.exports import *  # noqa: F403
else:

    def __getattr__(name):
        return getattr(importlib.import_module("superopt.harvest.exports"), name)
