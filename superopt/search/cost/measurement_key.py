"""The conditions of a measurement (provider, threads, runtime, hardware), as a part of its cache key."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from pathlib import Path

from superopt.runtime import Target, versions

__all__ = ["conditions", "hardware"]

_DRIVER_QUERY_SECONDS = 10.0


def hardware(target: Target) -> str:
    """Return the processor's name, and for CUDA also the name and driver version of each GPU."""
    return f"{_cpu()}|{_gpus()}" if target.provider == "cuda" else _cpu()


def conditions(target: Target, opset: int) -> str:
    """Return the provider, threads, runtime, hardware and opset that a measurement depends on, as one text."""
    name, version = next(iter(versions(target.provider).items()))
    runtime = f"{target.provider}/{target.threads}/{name}-{version}/{platform.machine()}"
    return f"{runtime}|{hardware(target)}|opset {opset}"


@functools.cache
def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        return platform.processor()
    return platform.processor()


@functools.cache
def _gpus() -> str:
    """Return the GPUs as nvidia-smi lists them, or "unknown" if it cannot be run."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=_DRIVER_QUERY_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return ";".join(line.strip() for line in found.stdout.splitlines() if line.strip()) or "unknown"
