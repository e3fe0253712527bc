"""`superopt check`: what is printed besides the answer, and counts of tensors that are true."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from superopt.check import EQUIVALENT, Answer, check, replay
from superopt.check.answer import Correspondence
from superopt.cli import main
from superopt.optimizer import optimize
from tests.support.models import lora


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["check", *map(str, arguments)])


@pytest.fixture
def one(tmp_path: Path) -> Path:
    onnx.save(lora(), tmp_path / "one.onnx")
    return tmp_path / "one.onnx"


def test_files_are_confirmed(one: Path, tmp_path: Path) -> None:
    page, proof = tmp_path / "page.html", tmp_path / "proof.json"
    result = run(one, one, "--html", page, "-o", proof)
    assert result.exit_code == 0 and f"page: {page}" in result.stderr and f"certificate: {proof}" in result.stdout
    assert "both models apply the same operators to the same weights" in result.stdout
    told: list[str] = []
    assert replay(proof, one, one, progress=told.append).verdict == EQUIVALENT
    assert told[-1].startswith("replaying the certificate: ")


def test_progress_counts_weights_with_tensors(one: Path, lora_rules: Path) -> None:
    """The answer counts pairs of tensors that operators compute, which are fewer."""
    told: list[str] = []
    other = optimize(one, None, ep="cpu", quick=True, rules=lora_rules).proto
    assert other is not None and check(one, other, progress=told.append).verdict == EQUIVALENT
    assert [line for line in told if line.startswith("proving: ") and line.endswith(" equal")][-1:] == [
        "proving: 4 of 4 tensors and weights, 3 equal"
    ]


def test_a_certificate_that_there_is_not_is_told(one: Path, tmp_path: Path) -> None:
    onnx.save(lora("batch"), tmp_path / "other.onnx")
    result = run(one, tmp_path / "other.onnx", "-o", tmp_path / "proof.json")
    assert result.exit_code == 1 and not (tmp_path / "proof.json").exists()
    assert "proof.json: not written" in result.stderr


def test_only_tensors_of_the_files_are_counted() -> None:
    """Others are there only after rules have rewritten a model."""
    pairs = [Correspondence("a", "b", "", "kernel"), *[Correspondence("s", "s", "", "same")] * 4]
    rewritten = Correspondence("(MatMul)", "t", "", "rules", 0.0, is_rewritten=True)
    lines = str(Answer("A", "B", correspondences=[*pairs, rewritten])).splitlines()
    assert lines[3:] == [
        "5 pairs of tensors proven equal: 1 by the kernel, 4 by structure",
        "  a  =  b  (by the kernel)",
        "  and 4 more (--json, --html)",
    ]
