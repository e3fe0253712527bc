"""Rule files of tests, certified as `superopt verify --certify` does it."""

from __future__ import annotations

from pathlib import Path

from superopt.cli.certifying import write_certificates
from superopt.cli.proving import prove_all, tasks

__all__ = ["certified"]


def certified(path: Path, text: str) -> Path:
    """Writes rules, which must be provable, and their certificates; gives `path` back."""
    path.write_text(text, encoding="utf-8")
    reports = list(prove_all(tasks([path], ask_second=False), 1))
    assert all(report.accepted for report in reports), reports
    write_certificates(path, reports)
    return path
