"""Cost-based search over proven rules, region by region.

The flow (`strategy/driver.py`):

    outputs ─▶ recurrent layers ─▶ horizontal fusion ─▶ passes ─▶ denormal rules ─▶ outputs' + traces

    a pass:  cut into regions ─▶ search each distinct region ─▶ choose a result ─▶ apply it wherever the region occurs
                  ▲                                                                              │
                  └──────────────────────── next pass, with other cuts ◀─────────────────────────┘

    the search of a region:  descend greedily ─▶ local beam searches ─▶ backjumps ─▶ select kernels

The parts:

- `match/` finds the matches of rules in a graph, among them variadic rules that merge sibling operators.
- `cost/` prices graphs and rewrites by the description of a device, and times regions in ONNX Runtime.
- `strategy/` decides what to expand, what to keep, and what to apply.
- `region.py` cuts a piece out of a model as a graph of its own; `apply.py` carries out rewrites and traces.

The search does not know the prover: it asks a callback for the signature at which a rule is proven. Its traces are
replayed by `verify.replay`, which trusts nothing here.
"""

from superopt.search.cost.analytic import AnalyticCost, CostModel
from superopt.search.cost.calibration import Calibration, calibrate
from superopt.search.cost.device import CPU, Device, DeviceError, device_of, find_device, shipped_devices
from superopt.search.cost.folding import folding_seconds
from superopt.search.cost.region_timer import Gain, ModelTimer, RegionTimer, TimerOverSizes, Untimed
from superopt.search.strategy.driver import search
from superopt.search.strategy.match_report import Attempts
from superopt.search.strategy.region_search import EFFORTS
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
