"""Rules learned from one model: certified, without the shipped ones, and as many as the budget allows."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from onnx import helper

from superopt.cli import main
from superopt.learn import RULES, learn
from superopt.rulebook.loading import certified_rules
from tests.support.models import floats, model


@pytest.fixture
def pooled(tmp_path: Path) -> Path:
    """A model of one MaxPool over rows of seven."""
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    onnx.save(model([pool], [floats("x", 1, 2, 8, 8)], [floats("y", 1, 2, 8, 8)], []), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_rules_of_a_model_are_certified_and_not_those_that_are_known(
    pooled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr("superopt.learn.load_rules", lambda _: [])
    found = learn([pooled], tmp_path / "mine", progress=said.append)
    assert found.windows == found.tried == 1
    listed, certificates = certified_rules(tmp_path / "mine")
    assert len(listed) == len(certificates) == found.rules > 0
    assert any(line.startswith("learning: window 1 of 1, 0 rules so far, ") for line in said)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "model.onnx"]
    monkeypatch.setattr("superopt.learn.load_rules", lambda _: [entry.rule for entry in listed])
    assert learn([pooled], tmp_path / "again").rules == 0


def test_nothing_is_left_when_the_budget_ends_at_once(pooled: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["learn", str(pooled), "-o", str(tmp_path / "mine"), "--budget", "0", "--json"])
    assert found.exit_code == 0, found.output
    data = json.loads(found.stdout)
    assert (data["rules"], data["tried"]) == (0, 0)
    assert not (tmp_path / "mine" / RULES).exists()
