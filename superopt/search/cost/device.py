"""Descriptions of devices: the few figures that the analytic cost model needs, in a TOML file.

The shipped ones lie in `superopt/search/devices`. A description of a device that is not here lets the search work for
it all the same.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

__all__ = ["CPU", "Device", "DeviceError", "device_of", "find_device", "read_device", "shipped_devices"]

_FOLDER = Path(__file__).resolve().parent / "devices"
_PROVIDERS = ("cpu", "cuda")


class DeviceError(ValueError):
    """A description of a device that cannot be used; the message is one line that names file and key."""


@dataclass(frozen=True)
class Device:
    """Rough speed of a device; for the provider `cpu`, of one thread of it.

    `dense` and `scalar` are FLOP/s of sums of products and of all else; `dense_of` has those of other element types
    than float. `bandwidth` is in bytes/s, from memory; `cache_bandwidth` where the values of an operator are at most
    `cache_bytes`. `overhead` is the seconds to start an operator, and `full` the number of results that keep all of the
    device busy: with fewer, arithmetic slows down in proportion. `channel_block` is the number of channels side by side
    in the runtime's own layout of images (1: it has none). `slower` has the operators whose kernels need longer than
    these figures say, and how many times as long.
    """

    dense: float
    scalar: float
    bandwidth: float
    overhead: float
    cache_bytes: float = 0.0
    cache_bandwidth: float = 0.0
    full: int = 1
    channel_block: int = 1
    provider: str = "cpu"
    name: str = ""
    dense_of: Mapping[str, float] = field(default_factory=dict, hash=False)
    slower: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for key in ("dense", "scalar", "bandwidth", "full", "channel_block"):
            if not _is_number(getattr(self, key)) or getattr(self, key) <= 0:
                raise DeviceError(f"{key} must be a number above 0, not {getattr(self, key)!r}")
        for key in ("overhead", "cache_bytes", "cache_bandwidth"):
            if not _is_number(getattr(self, key)) or getattr(self, key) < 0:
                raise DeviceError(f"{key} must be a number, 0 or above, not {getattr(self, key)!r}")
        if self.provider not in _PROVIDERS:
            raise DeviceError(f"provider must be one of {', '.join(_PROVIDERS)}, not {self.provider!r}")
        if not isinstance(self.name, str):
            raise DeviceError(f"name must be a text, not {self.name!r}")
        for table in ("dense_of", "slower"):
            if not isinstance(getattr(self, table), Mapping):
                raise DeviceError(f"{table} must be a table, not {getattr(self, table)!r}")
            for key, value in getattr(self, table).items():
                if not _is_number(value) or value <= 0:
                    raise DeviceError(f"{table}.{key} must be a number above 0, not {value!r}")

    def dense_rate(self, dtype: str) -> float:
        """FLOP/s of sums of products of such elements."""
        return self.dense_of.get(dtype, self.dense)

    def byte_rate(self, touched: float) -> float:
        """Bytes/s of an operator that touches so many."""
        return max(self.bandwidth, self.cache_bandwidth) if touched <= self.cache_bytes else self.bandwidth


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def read_device(path: str | Path) -> Device:
    """The description in a TOML file. Raises DeviceError, OSError."""
    try:
        with Path(path).open("rb") as file:
            found = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceError(f"{path}: {error}") from error
    known = {f.name for f in fields(Device)}
    unknown = sorted(found.keys() - known)
    if unknown:
        raise DeviceError(f"{path}: no such key {unknown[0]!r} ({', '.join(sorted(known))})")
    try:
        return Device(**{"name": Path(path).stem, **found})
    except (DeviceError, TypeError) as error:
        raise DeviceError(f"{path}: {error}") from error


def shipped_devices() -> list[str]:
    """Names of the descriptions that come with the program."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def find_device(name: str | Path) -> Device:
    """A description by the name of a shipped one, or by its file. Raises DeviceError, OSError."""
    shipped = str(name) in shipped_devices()
    return read_device(_FOLDER / f"{name}.toml" if shipped else name)


def device_of(provider: str) -> Device:
    """A usual device of an execution provider (`cpu` or `cuda`)."""
    return find_device(provider)


CPU = device_of("cpu")
