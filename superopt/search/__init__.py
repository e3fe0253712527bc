"""Cost-based backtracking search over proven rules, region by region."""

from superopt.search.cost import CPU, CUDA, AnalyticCost, CostModel, Device
from superopt.search.cost_cache import CostCache
from superopt.search.driver import RegionTimer, search
from superopt.search.measured import MeasuredCost
from superopt.search.result import Progress, SearchResult
from superopt.search.timer import ModelTimer

__all__ = [
    "CPU",
    "CUDA",
    "AnalyticCost",
    "CostCache",
    "CostModel",
    "Device",
    "MeasuredCost",
    "ModelTimer",
    "Progress",
    "RegionTimer",
    "SearchResult",
    "search",
]
