"""A repeated run takes what the search of an earlier run found, and nothing else is taken."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from superopt.ir.infer import make
from superopt.ir.term import Term, topological, var
from superopt.ir.types import tensor
from superopt.onnx_io import read_model
from superopt.optimizer import optimize, remembered_search
from superopt.optimizer.model_search import FoundRewrites, SearchRequest
from superopt.optimizer.pace import Pace
from superopt.search import device_of, search
from superopt.store import FoundBefore, StoreTable
from tests.support.models import lora
from tests.support.paths import ROOT

# Costs by a description: the same search on every machine, and no time for calibration.
SETTINGS: dict[str, Any] = {"ep": "cpu", "cost": "analytic", "device": "cpu", "target_absent": True, "budget": 12.0}


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[FoundRewrites]:
    """The results of the searches that are made."""
    made: list[FoundRewrites] = []
    search_model = remembered_search.search_model

    def search(request: SearchRequest) -> FoundRewrites:
        made.append(search_model(request))
        return made[-1]

    monkeypatch.setattr(remembered_search, "search_model", search)
    return made


def test_a_repeated_run_does_not_search(searches: list[FoundRewrites]) -> None:
    first, again = optimize(lora(), **SETTINGS), optimize(lora(), **SETTINGS)
    assert len(searches) == 1
    assert first.changed
    assert first.proto.SerializeToString() == again.proto.SerializeToString()
    assert (first.rules, first.cost_before_ms, first.cost_after_ms) == (
        again.rules,
        again.cost_before_ms,
        again.cost_after_ms,
    )


@pytest.mark.parametrize(
    "changed",
    [{"effort": 2}, {"numerics": "exact"}, {"seed": 1}, {"device": "cuda"}, {"remeasure": True}, {"explain": True}],
)
def test_another_run_searches(searches: list[FoundRewrites], changed: dict[str, Any]) -> None:
    optimize(lora(), **SETTINGS)
    optimize(lora(), **SETTINGS | changed)
    assert len(searches) == 2


def test_another_model_is_searched(searches: list[FoundRewrites]) -> None:
    optimize(lora(), **SETTINGS)
    optimize(lora(rank=8), **SETTINGS)
    assert len(searches) == 2


@pytest.mark.parametrize(
    ("figures", "count"), [({"slower": {"Gemm": 2.0}, "starts": {"Gemm": 1e-5}, "name": "all"}, 1), ({"dense": 1e9}, 2)]
)
def test_a_machine_measured_anew_is_searched_for(
    searches: list[FoundRewrites], monkeypatch: pytest.MonkeyPatch, figures: dict[str, Any], count: int
) -> None:
    """Not one of which a later run has measured more kinds of kernels, as far as its time allowed."""
    first = replace(device_of("cpu"), measured=True, name="some")
    for device in (first, replace(first, **figures)):
        monkeypatch.setattr("superopt.optimizer.run._this_machine", lambda _, device=device: device)
        optimize(lora(), ep="cpu", budget=12.0)
    assert len(searches) == count


def test_other_rules_are_searched_with(searches: list[FoundRewrites], tmp_path: Path) -> None:
    used = optimize(lora(), **SETTINGS).rules[0].id
    assert all(use.id != used for use in optimize(lora(), skip_rules=[used], **SETTINGS).rules)
    assert len(searches) == 2


@pytest.mark.parametrize(("complete", "seconds", "count"), [(True, 0.0, 1), (False, 0.0, 2), (False, 10.0, 1)])
def test_a_short_search_is_made_again(
    searches: list[FoundRewrites], monkeypatch: pytest.MonkeyPatch, complete: bool, seconds: float, count: int
) -> None:
    put = StoreTable.put

    def short(table: StoreTable[Any, Any], key: Any, row: Any) -> None:
        put(table, key, row._replace(seconds=seconds) if isinstance(row, FoundBefore) else row)

    monkeypatch.setattr(StoreTable, "put", short)
    monkeypatch.setattr("superopt.optimizer.model_search.search", _search_that_is(complete))
    for _ in range(2):
        optimize(lora(), **SETTINGS)
    assert len(searches) == count


def _search_that_is(complete: bool) -> Any:
    return lambda *args, **settings: replace(search(*args, **settings), complete=complete)


def test_damaged_rows_are_searched_again(searches: list[FoundRewrites], monkeypatch: pytest.MonkeyPatch) -> None:
    optimize(lora(), **SETTINGS)
    get = StoreTable.get

    def damaged(table: StoreTable[Any, Any], key: Any) -> Any:
        row = get(table, key)
        return row._replace(found=row.found[:-30]) if isinstance(row, FoundBefore) else row

    monkeypatch.setattr(StoreTable, "get", damaged)
    assert optimize(lora(), **SETTINGS).changed
    assert len(searches) == 2


class _Command:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("made-by-a-cache",)


@pytest.mark.parametrize("value", [_Command(), (b"", pickle.dumps(_Command())), [1, 2], (), b""])
def test_bytes_of_others_do_nothing(value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert remembered_search._decoded(pickle.dumps(value), read_model(lora()).outputs) is None
    assert not any(tmp_path.iterdir())


def test_what_one_process_found_another_one_reads(searches: list[FoundRewrites], tmp_path: Path) -> None:
    """Sizes cache their hash, which differs from process to process."""
    model = lora("N")
    optimize(model, **SETTINGS)
    (found,), outputs = searches, read_model(model).outputs
    assert found.traces
    assert any(t.type.concrete() is None for t in topological(outputs) if t.type is not None)
    written = tmp_path / "found"
    program = """if True:
        import pathlib, sys
        from superopt.onnx_io import read_model
        from superopt.optimizer import remembered_search as r
        from tests.support.models import lora
        outputs, path = read_model(lora("N")).outputs, pathlib.Path(sys.argv[1])
        path.write_bytes(r._encoded(r._decoded(path.read_bytes(), outputs), outputs))
    """
    encoded = remembered_search._encoded(found, outputs)
    assert encoded is not None
    written.write_bytes(encoded)
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", program, str(written)], env=environment, check=True)
    again = remembered_search._decoded(written.read_bytes(), outputs)
    assert again is not None
    assert (again.traces, again.gains, again.origin) == (found.traces, found.gains, found.origin)


def test_a_graph_that_is_nested_too_deeply_is_not_remembered() -> None:
    x = var("x", tensor(2))
    term: Term = x
    for _ in range(100_000):
        term = make("Relu", (make("Neg", (term,)),))
    found = FoundRewrites(origin={term: "a rule"})
    assert remembered_search._encoded(found, (x,)) is None


def test_the_checks_of_what_is_known_have_their_share_of_the_time() -> None:
    pace = Pace(40.0)
    pace.leave_checks()
    assert 11.0 < pace.left_s <= 12.0
    pace.leave_checks()
    assert pace.left_s > 10.9
