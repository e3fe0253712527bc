"""Cost-based backtracking search over proven rules, region by region."""

from superopt.search.cost import CPU, CUDA, AnalyticCost, CostModel, Device
from superopt.search.driver import RegionTimer, search
from superopt.search.result import Progress, SearchResult

__all__ = ["CPU", "CUDA", "AnalyticCost", "CostModel", "Device", "Progress", "RegionTimer", "SearchResult", "search"]
