"""Runs of the optimizer that time nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from superopt.optimizer import Result, optimize
from tests.support.timers import faster

__all__ = ["run_optimize"]


def run_optimize(source: Any, out: Path | None, rules: Path, **options: Any) -> Result:
    # Costs are the analytic ones: what is found must not depend on what else this machine does.
    given = {"ep": "cpu", "rules": rules, "budget": 60.0, "timer": faster, "cost": "analytic"}
    return optimize(source, out, **{**given, **options})
