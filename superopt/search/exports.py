"""The names of `superopt.search`."""

from superopt.search.cost.analytic import AnalyticCost, CostModel
from superopt.search.cost.calibration import Calibration, calibrate
from superopt.search.cost.device import CPU, Device, DeviceError, device_of, find_device, shipped_devices
from superopt.search.cost.folding import folding_seconds
from superopt.search.cost.region_timer import Gain, ModelTimer, RegionTimer, TimerOverSizes, Untimed
from superopt.search.strategy.driver import search
from superopt.search.strategy.efforts import EFFORTS
from superopt.search.strategy.match_report import Attempts
from superopt.search.strategy.search_result import SearchProgress, SearchResult

__all__ = [
    "CPU",
    "EFFORTS",
    "AnalyticCost",
    "Attempts",
    "Calibration",
    "CostModel",
    "Device",
    "DeviceError",
    "Gain",
    "ModelTimer",
    "RegionTimer",
    "SearchProgress",
    "SearchResult",
    "TimerOverSizes",
    "Untimed",
    "calibrate",
    "device_of",
    "find_device",
    "folding_seconds",
    "search",
    "shipped_devices",
]
