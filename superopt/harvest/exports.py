"""The names of `superopt.harvest`."""

from superopt.harvest.limits import WindowLimits
from superopt.harvest.run import Harvest, ModelCut, harvest

__all__ = ["Harvest", "WindowLimits", "ModelCut", "harvest"]
