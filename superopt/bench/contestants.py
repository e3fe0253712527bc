"""Who takes part in the benchmark."""

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
    """A name that no peer has; the message is one line."""


@dataclass(frozen=True)
class Contestant:
    """`optimizer` is `module:function` as in `optimizers.py`, `engine` executes what it writes. `module` is what must
    be installed (None: nothing). An engine of its own executes the original."""

    name: str
    kind: Kind
    optimizer: str
    module: str | None = None
    engine: str = "ONNX Runtime"

    def installed(self) -> bool:
        """Whether it can take part; nothing is imported to find out."""
        return self.module is None or importlib.util.find_spec(self.module) is not None

    def version(self) -> str | None:
        """Of its distribution; None where that is not told."""
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
    """Who takes part (all peers without `names`), and who is absent and why. Raises UnknownPeer."""
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
