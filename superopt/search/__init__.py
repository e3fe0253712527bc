"""Cost-based search over proven rules, region by region.

The flow (`strategy/driver.py`):

    outputs ─▶ recurrent layers ─▶ horizontal fusion ─▶ passes ─▶ algorithms ─▶ denormal rules ─▶ outputs' + traces

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

import importlib

# The names are imported on first use: the command line's help needs a small module of this package only.
TYPE_CHECKING = False  # as in `typing`
if TYPE_CHECKING:
    from superopt.search.exports import *  # noqa: F403
else:

    def __getattr__(name):
        return getattr(importlib.import_module("superopt.search.exports"), name)
