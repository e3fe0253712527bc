"""Cost-based backtracking search over proven rules, region by region."""

from superopt.search.cost.analytic import AnalyticCost, CostModel
from superopt.search.cost.device import CPU, Device, DeviceError, device_of, find_device, shipped_devices
from superopt.search.cost.measured import MeasuredCost
from superopt.search.cost.region_timer import Gain, ModelTimer, RegionTimer, Untimed
from superopt.search.strategy.driver import search
from superopt.search.strategy.match_report import Attempts
from superopt.search.strategy.region_search import EFFORTS
from superopt.search.strategy.search_result import SearchProgress, SearchResult

__all__ = [
    "CPU",
    "EFFORTS",
    "AnalyticCost",
    "Attempts",
    "CostModel",
    "Device",
    "DeviceError",
    "Gain",
    "MeasuredCost",
    "ModelTimer",
    "RegionTimer",
    "SearchProgress",
    "SearchResult",
    "Untimed",
    "device_of",
    "find_device",
    "search",
    "shipped_devices",
]
