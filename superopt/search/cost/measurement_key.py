"""Under what conditions something was measured: part of the key under which it is remembered."""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from pathlib import Path

from superopt.runtime import Target

__all__ = ["conditions", "hardware"]

_PATIENCE_S = 10.0


def hardware(target: Target) -> str:
    """The processor's name; for CUDA, the name and the driver of each GPU as well."""
    return f"{_cpu()}|{_gpus()}" if target.provider == "cuda" else _cpu()


def conditions(target: Target, opset: int) -> str:
    """All that a measurement depends on besides what is measured: provider, threads, runtime, hardware, opset."""
    return f"{target.key}|{hardware(target)}|opset {opset}"


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
    """As the driver's own tool has them; "unknown" where it cannot be asked."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "unknown"
    query = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, timeout=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return ";".join(line.strip() for line in found.stdout.splitlines() if line.strip()) or "unknown"
