"""Notices of a run: of a search without time, of a clean-up, of timings that do not fit each other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from superopt.ir.trace import Trace
from superopt.optimizer.model_search import FoundRewrites
from superopt.optimizer.notices import notices
from superopt.optimizer.options import Options
from superopt.optimizer.result import Latency
from superopt.optimizer.selection import Selection


def said(
    options: Options, found: FoundRewrites, latency: Latency | None = None, proto: Any = None, device: Any = None
) -> str:
    context = SimpleNamespace(options=options, device=device, proofs=SimpleNamespace(own=None))
    selection = Selection("a reason", found, proto=proto, latency=latency)
    return "\n".join(notices(context, selection))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("quick", "complete", "traces", "expected"),
    [
        (True, False, (Trace(()),), "without --quick"),
        (False, False, (), "a longer --budget"),
        (False, False, (Trace(()),), ""),
        (True, True, (), ""),
    ],
)
def test_a_search_without_time_is_told(quick: bool, complete: bool, traces: tuple[Trace, ...], expected: str) -> None:
    found = FoundRewrites(traces, 2.0, 1.0, "analytic", complete=complete)
    assert (expected in said(Options(quick=quick), found)) if expected else not said(Options(quick=quick), found)


def test_without_a_search_nothing_is_said_of_it() -> None:
    assert not said(Options(), FoundRewrites())


def test_options_that_a_quick_run_does_not_use_are_told() -> None:
    given: dict[str, Any] = {"budget": 9, "effort": 2}
    assert "no effect with --quick: --budget and --effort" in said(Options(quick=True, **given), FoundRewrites())
    assert not said(Options(quick=True), FoundRewrites()) and not said(Options(**given), FoundRewrites())


@pytest.mark.parametrize(("number", "expected"), [(0, ""), (1, "1 rule that matches"), (3, "3 rules that match")])
def test_rules_without_certificates_are_told_if_a_quick_run_finds_nothing(number: int, expected: str) -> None:
    found = FoundRewrites((), 2.0, 2.0, "analytic", complete=True, uncertified=number)
    told = said(Options(quick=True), found)
    assert expected in told if number else not told
    assert not said(Options(), found) and "certified" not in said(Options(quick=True), found, proto=object())


@pytest.mark.parametrize(("after", "expected"), [(1.0, True), (2.0, False)])
def test_only_a_predicted_gain_is_called_one(after: float, expected: bool) -> None:
    found = FoundRewrites((), 2.0, after, "analytic", complete=True)
    assert ("say that the result is faster" in said(Options(quick=True), found, proto=object())) == expected
    absent, device = Options(cost="analytic", device="cuda_h200", target_absent=True), SimpleNamespace(name="H200")
    told = said(absent, found, proto=object(), device=device)
    assert "not timed: H200 is not here" in told
    assert ("says that the result is faster" in told) == expected == ("no gain is predicted" not in told)


@pytest.mark.parametrize(("after_ms", "expected"), [(1.0, False), (1.3, True)])
def test_times_that_do_not_give_the_ratio(after_ms: float, expected: bool) -> None:
    latency = Latency(2.0, after_ms, 2.0, 1.9, 2.1, 2.0, after_ms, 9, "wall")
    assert ("disagree" in said(Options(), FoundRewrites(), latency)) == expected
