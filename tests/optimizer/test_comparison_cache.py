"""A repeated run does not compare the same outputs again; another candidate, or other inputs, are compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from superopt.optimizer import Result, optimize
from superopt.optimizer.validator import Validator
from superopt.runtime import OutputComparison
from superopt.store import Compared, StoreTable
from tests.support.models import lora

SETTINGS: dict[str, Any] = {"ep": "cpu", "quick": True}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The candidates that are compared."""
    made: list[Any] = []
    compare = Validator.compare

    def counted(
        self: Validator, candidate: bytes | Path, references_s: float
    ) -> tuple[OutputComparison, Sequence[Any]]:
        made.append(candidate)
        return compare(self, candidate, references_s)

    monkeypatch.setattr(Validator, "compare", counted)
    return made


def run(rules: Path, **options: Any) -> Result:
    return optimize(lora(size=options.pop("size", 64)), None, rules=rules, **SETTINGS | options)


def test_a_repeated_run_takes_what_the_first_found(compared: list[Any], lora_rules: Path) -> None:
    first, again = run(lora_rules), run(lora_rules)
    assert len(compared) == 1 and first.changed and again.changed
    assert first.difference is not None and not first.difference.remembered
    assert again.difference is not None and again.difference.remembered
    assert {**vars(first.difference), "remembered": True} == vars(again.difference)
    assert "compared by an earlier run" in str(again) and "compared by an earlier run" not in str(first)


@pytest.mark.parametrize("other", [{"seed": 1}, {"numerics": "real-only"}, {"remeasure": True}])
def test_other_inputs_are_compared(compared: list[Any], lora_rules: Path, other: dict[str, Any]) -> None:
    run(lora_rules)
    assert not run(lora_rules, **other).difference.remembered  # type: ignore[union-attr]
    assert len(compared) == 2


def test_the_original_is_not_run_for_what_is_known(lora_rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines of the first run about the original are said again. Only a quick run, which runs little, is as before."""
    completed: list[Validator] = []
    complete, note = Validator.complete, Validator._note

    def counted(self: Validator) -> None:
        completed.append(self)
        complete(self)

    def noted(self: Validator) -> None:
        note(self)
        self.notices.append("a line about the original")

    monkeypatch.setattr(Validator, "complete", counted)
    monkeypatch.setattr(Validator, "_note", noted)
    options = {"quick": False, "cost": "analytic", "budget": 5.0}
    first = run(lora_rules, **options)
    assert first.difference is not None and completed
    completed.clear()
    again = run(lora_rules, **options)
    assert again.difference is not None and again.difference.remembered and not completed
    assert "a line about the original" in first.notices and "a line about the original" in again.notices
    run(lora_rules, **options, remeasure=True)
    assert completed


def test_another_model_is_compared(compared: list[Any], lora_rules: Path) -> None:
    run(lora_rules)
    run(lora_rules, size=32)
    assert len(compared) == 2


def test_what_has_failed_is_compared_again(
    compared: list[Any], lora_rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failed = OutputComparison(1.0, 1.0, 0.5, 2.0, 0, "too large")
        patch.setattr(Validator, "compare_outputs", lambda *_: (failed, []))
        assert not run(lora_rules).changed
    assert run(lora_rules).changed and len(compared) == 2


@pytest.mark.parametrize("text", ["no JSON", "[]", "{}", '{"absolute": 0.0, "accuracy": [3]}', '{"accuracy": []}'])
def test_a_damaged_row_counts_as_none(
    compared: list[Any], lora_rules: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    run(lora_rules)
    get = StoreTable.get
    monkeypatch.setattr(
        StoreTable, "get", lambda self, key: Compared(text) if self.row_type is Compared else get(self, key)
    )
    assert run(lora_rules).changed and len(compared) == 2
