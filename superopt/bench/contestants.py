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
_PROVIDERS = {"cpu": "the CPU", "cuda": "CUDA"}


class UnknownPeer(ValueError):
    """An unknown name of another optimizer; the message is one line."""


@dataclass(frozen=True)
class Contestant:
    """An optimizer that takes part.

    `optimizer` is `module:function` as in `optimizers.py`; `engine` runs the model that it writes. `modules` must be
    installed; the first one gives the version. A contestant of kind "engine" runs the original in its own engine.
    `providers` are those that the contestant can be compared on.
    """

    name: str
    kind: Kind
    optimizer: str
    modules: tuple[str, ...] = ()
    engine: str = "ONNX Runtime"
    providers: tuple[str, ...] = ("cpu", "cuda")

    def installed(self) -> bool:
        """Return True if its modules are installed. Nothing is imported to find out."""
        return all(importlib.util.find_spec(module) is not None for module in self.modules)

    @property
    def how_to_install(self) -> str:
        """One line for a user who asks for this contestant where it is not installed."""
        return f"{self.name} is not installed here; pip install {' '.join(self.modules)}"

    def version(self) -> str | None:
        """Return the version of its distribution, or None if it has none."""
        if not self.modules:
            return None
        module = self.modules[0]
        try:
            return metadata.version(module)
        except metadata.PackageNotFoundError:  # a distribution of another name, such as onnxruntime-gpu
            names = metadata.packages_distributions().get(module)
            return metadata.version(names[0]) if names else None


ALWAYS = (
    Contestant("saved again", "control", f"{_OWN}:control"),
    Contestant("superopt", "ours", f"{_OWN}:ours"),
)
PEERS = (
    *(Contestant(n, "peer", f"{_OWN}:{n}", (n,)) for n in ("onnxsim", "onnxslim", "onnxscript", "onnxoptimizer")),
    Contestant("openvino", "engine", f"{_OWN}:openvino", ("openvino",), "OpenVINO", ("cpu",)),
    Contestant("superopt+openvino", "peer", f"{_OWN}:ours_openvino", ("openvino",), "OpenVINO", ("cpu",)),
    Contestant("tensorrt", "engine", f"{_OWN}:tensorrt", ("tensorrt",), "TensorRT", ("cuda",)),
    Contestant("torch.compile", "engine", f"{_OWN}:torch_compile", ("torch", "onnx2torch"), "torch.compile", ("cuda",)),
)


def choose(names: Sequence[str] | None, provider: str) -> tuple[list[Contestant], dict[str, str]]:
    """Return the contestants and the absent ones with reasons. Raises UnknownPeer.

    If `names` is None, all peers that run on `provider` are asked for.
    """
    unknown = sorted(set(names or ()) - {peer.name for peer in PEERS})
    if unknown:
        raise UnknownPeer(f"there is no peer {unknown[0]!r} (peers: {', '.join(peer.name for peer in PEERS)})")
    asked = [peer for peer in PEERS if (provider in peer.providers if names is None else peer.name in names)]
    absent: dict[str, str] = {}
    for peer in asked:
        if not peer.installed():
            absent[peer.name] = "not installed"
        elif provider not in peer.providers:
            absent[peer.name] = f"runs on {' and '.join(_PROVIDERS[name] for name in peer.providers)} only"
    return [*ALWAYS, *(peer for peer in asked if peer.name not in absent)], absent
