"""Harvest: cut windows out of models, for which the generator is to find rules.

model_graph   a model's operators, numbered, with neighbours, ancestors and costs
cutting       the windows of a model: connected convex sets of operators
pieces        one window as terms over typed leaves
small_sizes   the same at small sizes: symbols for sizes, conditions, and numbers that meet them
solving       numbers for symbols under conditions
window_form   one order and one naming for windows that differ in these only
run           all models, counted and weighed together
"""

from superopt.harvest.cutting import WindowLimits
from superopt.harvest.run import Harvest, ModelCut, harvest

__all__ = ["Harvest", "WindowLimits", "ModelCut", "harvest"]
