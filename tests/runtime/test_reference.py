"""Measurements of a slow minute compare with those of a quick one."""

from __future__ import annotations

from pathlib import Path

import pytest

from superopt.ir.infer import make
from superopt.ir.term import var
from superopt.ir.types import tensor
from superopt.runtime import Target, reference_time
from superopt.search import AnalyticCost
from superopt.search.cost import operator_timer
from superopt.search.cost.operator_timer import OperatorTimer
from superopt.store import ResultStore

RELU = make("Relu", (var("x", tensor(64, 64)),))


def test_the_reference_takes_time() -> None:
    assert 1e-6 < reference_time(1) < 1.0


@pytest.mark.parametrize("slow", [1.0, 3.0])
def test_a_slow_minute_changes_no_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: float) -> None:
    """The first cost is measured in a quick minute, the second one in a minute in which all takes `slow` as long."""
    pace = 1.0

    def samples(*_: object) -> list[list[tuple[float, float]]]:
        return [[(pace * 5e-5 + noise, pace * 2e-4 + noise) for noise in (1e-3, 0.0, 1e-4)]]

    monkeypatch.setattr(operator_timer, "reference_time", lambda count: 2e-4)
    monkeypatch.setattr(operator_timer, "sample_times", samples)
    timer = OperatorTimer(Target("cpu", 1), 17, ResultStore(tmp_path / "store.sqlite"), AnalyticCost())
    assert timer._seconds_of_models([[RELU]], {}) == pytest.approx([5e-5])
    pace = slow
    assert timer._seconds_of_models([[RELU]], {}) == pytest.approx([5e-5])
