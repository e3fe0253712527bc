"""The contestants of the benchmark: superopt, a control, and the other optimizers that are installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Literal

__all__ = ["ALWAYS", "PEERS", "Contestant", "Kind", "UnknownPeer", "choose"]

Kind = Literal["baseline", "control", "ours", "peer", "engine"]

_OWN = "superopt.bench.optimizers"


class UnknownPeer(ValueError):
    """An unknown name of another optimizer; the message is one line."""


@dataclass(frozen=True)
class Contestant:
    """An optimizer that takes part.

    `optimizer` is `module:function` as in `optimizers.py`; `engine` runs the model that it writes. `module` must be
    installed (None: nothing is needed). A contestant of kind "engine" runs the original in its own engine.
    """

    name: str
    kind: Kind
    optimizer: str
    module: str | None = None
    engine: str = "ONNX Runtime"

    def installed(self) -> bool:
        """Return True if its module is installed. Nothing is imported to find out."""
        return self.module is None or importlib.util.find_spec(self.module) is not None

    def version(self) -> str | None:
        """Return the version of its distribution, or None if it has none."""
        try:
            return None if self.module is None else metadata.version(self.module)
        except metadata.PackageNotFoundError:
            return None


ALWAYS = (
    Contestant("saved again", "control", f"{_OWN}:control"),
    Contestant("superopt", "ours", f"{_OWN}:ours"),
)
PEERS = (
    *(Contestant(n, "peer", f"{_OWN}:{n}", n) for n in ("onnxsim", "onnxslim", "onnxscript", "onnxoptimizer")),
    Contestant("openvino", "engine", f"{_OWN}:openvino", "openvino", "OpenVINO"),
)


def choose(names: Sequence[str] | None, provider: str) -> tuple[list[Contestant], dict[str, str]]:
    """Return the contestants (all peers if `names` is None) and the absent ones with reasons. Raises UnknownPeer."""
    unknown = sorted(set(names or ()) - {peer.name for peer in PEERS})
    if unknown:
        raise UnknownPeer(f"there is no peer {unknown[0]!r} (peers: {', '.join(peer.name for peer in PEERS)})")
    asked = [peer for peer in PEERS if names is None or peer.name in names]
    absent: dict[str, str] = {}
    for peer in asked:
        if not peer.installed():
            absent[peer.name] = "not installed"
        elif peer.kind == "engine" and provider != "cpu":
            absent[peer.name] = "runs on the CPU only"
    return [*ALWAYS, *(peer for peer in asked if peer.name not in absent)], absent
