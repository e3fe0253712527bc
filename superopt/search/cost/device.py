"""Device descriptions: the few figures that the analytic cost model needs, read from TOML files.

The shipped descriptions are in `superopt/search/cost/devices`. With a description of another device the search can
optimize for that device without having it.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

__all__ = ["CPU", "Device", "DeviceError", "device_of", "find_device", "read_device", "shipped_devices", "to_toml"]

_FOLDER = Path(__file__).resolve().parent / "devices"
_PROVIDERS = ("cpu", "cuda")


class DeviceError(ValueError):
    """An unusable device description; the message is one line that names the file and the key."""


@dataclass(frozen=True)
class Device:
    """Approximate speed of a device; for the provider `cpu`, of one thread.

    `dense` is the FLOP/s of sums of products of float elements, `dense_of` that of other element types, `scalar` the
    FLOP/s of all other arithmetic. `bandwidth` is in bytes/s from memory, `cache_bandwidth` applies to operators whose
    values take at most `cache_bytes`. `overhead` is the seconds to start an operator. `full` is the number of results
    that keep the whole device busy; with fewer, sums of products slow down in proportion. `channel_block` is the
    number of channels in a block of the runtime's own image layout (1: it has none). `slower` maps kinds of kernels
    (`kernel_kind`), or operators, to the factor by which they take longer than these figures predict,
    `slower_traffic` to the factor of their memory traffic where that is another one, `starts` to the seconds to start
    them where that is not `overhead`. If `measured`, figures are those of all its threads together.
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
    measured: bool = False
    dense_of: Mapping[str, float] = field(default_factory=dict, hash=False)
    slower: Mapping[str, float] = field(default_factory=dict, hash=False)
    slower_traffic: Mapping[str, float] = field(default_factory=dict, hash=False)
    starts: Mapping[str, float] = field(default_factory=dict, hash=False)

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
        if not isinstance(self.measured, bool):
            raise DeviceError(f"measured must be true or false, not {self.measured!r}")
        for table in ("dense_of", "slower", "slower_traffic", "starts"):
            if not isinstance(getattr(self, table), Mapping):
                raise DeviceError(f"{table} must be a table, not {getattr(self, table)!r}")
            for key, value in getattr(self, table).items():
                if not _is_number(value) or value <= 0:
                    raise DeviceError(f"{table}.{key} must be a number above 0, not {value!r}")

    def dense_rate(self, dtype: str) -> float:
        """Return the FLOP/s of sums of products of elements of type `dtype`."""
        return self.dense_of.get(dtype, self.dense)

    def byte_rate(self, touched: float) -> float:
        """Return the bytes/s of an operator that touches `touched` bytes."""
        return max(self.bandwidth, self.cache_bandwidth) if touched <= self.cache_bytes else self.bandwidth

    @property
    def general(self) -> Device:
        """The description without figures of kinds of kernels."""
        return replace(self, slower={}, slower_traffic={}, starts={})

    def factors(self, kinds: Sequence[str]) -> tuple[float, float]:
        """Return the factors by which the arithmetic and the memory traffic of the first known one of `kinds` of
        kernels take longer than predicted."""
        kind = next((kind for kind in kinds if kind in self.slower), "")
        factor = self.slower.get(kind, 1.0)
        return factor, self.slower_traffic.get(kind, factor)

    def start(self, kinds: Sequence[str]) -> float:
        """Return the seconds to start the first known one of `kinds` of kernels."""
        return next((self.starts[kind] for kind in kinds if kind in self.starts), self.overhead)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def read_device(path: str | Path) -> Device:
    """Return the description in a TOML file. Raises DeviceError, OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # reading may block, or never end
        raise DeviceError(f"{path}: is no regular file")
    try:
        with Path(path).open("rb") as file:
            found = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DeviceError(f"{path}: no TOML file: {error}") from error
    known = {f.name for f in fields(Device)}
    unknown = sorted(found.keys() - known)
    if unknown:
        raise DeviceError(f"{path}: no such key {unknown[0]!r} ({', '.join(sorted(known))})")
    found.setdefault("name", Path(path).stem)
    missing = [one.name for one in fields(Device) if one.name not in found and _is_required(one)]
    if missing:
        raise DeviceError(
            f"{path}: lacks {', '.join(missing)}; `superopt calibrate` writes a description of this machine"
        )
    try:
        return Device(**found)
    except (DeviceError, TypeError) as error:
        raise DeviceError(f"{path}: {error}") from error


def to_toml(device: Device, heading: str) -> str:
    """Return the description as the text of its file, as `read_device` reads it; `heading` becomes a comment."""
    lines = [f"# {line}" for line in heading.splitlines()]
    tables: list[str] = []
    names = [f.name for f in fields(device)]
    for key in sorted(names, key=("name", "provider", *names).index):
        value = getattr(device, key)
        if isinstance(value, Mapping):
            if value:
                tables += [
                    "",
                    f"[{key}]",
                    *(f"{json.dumps(name)} = {_number(number)}" for name, number in value.items()),
                ]
        else:
            lines.append(f"{key} = {json.dumps(value) if isinstance(value, str) else _number(value)}")
    return "\n".join([*lines, *tables, ""])


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f"{value:.4g}".replace("e+", "e")


def shipped_devices() -> list[str]:
    """Return the names of the descriptions that come with the program."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def find_device(name: str | Path) -> Device:
    """Return the shipped description called `name`, or the one in the file `name`. Raises DeviceError, OSError."""
    names = shipped_devices()
    if str(name) in names:
        return read_device(_FOLDER / f"{name}.toml")
    try:
        return read_device(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(error.errno, f"no such file, and no device ({', '.join(names)})", str(name)) from None


def device_of(provider: str) -> Device:
    """Return the default description for an execution provider (`cpu` or `cuda`)."""
    return find_device(provider)


CPU = device_of("cpu")
