"""Cost-based backtracking search over proven rules, region by region."""

from superopt.search.backtrack import EFFORTS
from superopt.search.cost import AnalyticCost, CostModel
from superopt.search.cost_cache import CostCache, default_path
from superopt.search.device import CPU, Device, DeviceError, device_of, find_device, shipped_devices
from superopt.search.driver import RegionTimer, search
from superopt.search.measured import MeasuredCost
from superopt.search.result import Gain, Progress, SearchResult, Untimed
from superopt.search.tally import Attempts
from superopt.search.timer import ModelTimer

__all__ = [
    "CPU",
    "EFFORTS",
    "AnalyticCost",
    "Attempts",
    "CostCache",
    "CostModel",
    "Device",
    "DeviceError",
    "Gain",
    "MeasuredCost",
    "ModelTimer",
    "Progress",
    "RegionTimer",
    "SearchResult",
    "Untimed",
    "default_path",
    "device_of",
    "find_device",
    "search",
    "shipped_devices",
]
