"""The other optimizers whose results `tools.py` checks."""

from __future__ import annotations

from superopt.bench.contestants import PEERS, Contestant

__all__ = ["TOOLS"]

_OWN = "superopt.bench.optimizers"

# By name; onnxruntime is its offline optimizer at level extended.
TOOLS = {peer.name: peer for peer in PEERS if peer.kind == "peer"} | {
    name: Contestant(name, "peer", f"{_OWN}:{name.replace('-', '_')}", ("onnxruntime",))
    for name in ("onnxruntime", "onnxruntime-basic")
}
