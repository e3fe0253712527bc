"""The execution provider to measure on, and the errors of running a model there."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CannotRun", "RanTooLong", "RuntimeUnavailable", "Target"]


class RuntimeUnavailable(RuntimeError):
    """The requested execution provider cannot be used on this machine."""


class CannotRun(RuntimeError):
    """ONNX Runtime does not load the model, or fails on given inputs; the message is one line."""


class RanTooLong(CannotRun):
    """Opening or running the model took longer than its limit."""


@dataclass(frozen=True)
class Target:
    """Execution provider, `cpu` or `cuda`, and number of threads (0: ONNX Runtime's own choice)."""

    provider: str = "cpu"
    threads: int = 1

    @property
    def cpu_clock(self) -> bool:
        """True if CPU time measures a run, because one thread does all its work."""
        return self.provider == "cpu" and self.threads == 1

    @property
    def clock(self) -> str:
        """The clock that times a run: "cpu" or "wall"."""
        return "cpu" if self.cpu_clock else "wall"
