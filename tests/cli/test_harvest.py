"""`superopt harvest`: the corpus that it writes, its figures, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

from superopt.cli import main
from superopt.corpus import read_corpus
from tests.support.models import branches, lora


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["harvest", *map(str, arguments)])


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "lora.onnx", tmp_path / "branches.onnx"
    for path, proto in zip(paths, (lora(), branches(channels=8, size=8)), strict=True):
        onnx.save(proto, path)
    return paths


def test_a_corpus_is_written_the_same_again(models: tuple[Path, Path], tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    assert run(*models, "-o", one).exit_code == 0
    done = run(*models, "-o", two, "--json")
    assert done.exit_code == 0
    assert one.read_bytes() == two.read_bytes()
    assert " of up to 8 operators from 2 models." in one.read_text(encoding="utf-8")
    figures = json.loads(done.stdout)
    windows = read_corpus(one)
    assert figures["windows"] == len(windows) == sum(figures["windows_by_operators"].values())
    assert [model["name"] for model in figures["models"]] == ["lora", "branches"]
    assert {name for window in windows for name in window.models} == {"lora", "branches"}


def test_the_summary_names_models_and_what_was_left_out(models: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(*models, "-o", tmp_path / "corpus.txt", "--windows", "10")
    assert done.exit_code == 0
    assert "lora" in done.stdout and "branches" in done.stdout
    assert "beyond --windows" in done.stdout and "wrote 10 windows" in done.stdout
    assert len(read_corpus(tmp_path / "corpus.txt")) == 10


def test_the_figures_add_up(models: tuple[Path, Path], tmp_path: Path) -> None:
    """A window that is cut is written, or left out for a reason that is given; equal ones are written once."""
    (tmp_path / "copy.onnx").write_bytes(models[0].read_bytes())
    for paths in (models, (models[0], tmp_path / "copy.onnx")):
        done = run(*paths, "-o", tmp_path / "corpus.txt", "--json")
        figures = json.loads(done.stdout)
        cut = sum(model["windows"] for model in figures["models"])
        assert {reason for model in figures["models"] for reason in model["left_out"]} <= {"beyond the beam"}
        assert cut == figures["windows"] + figures["equal_to_others"] + figures["not_evaluable"]
    assert figures["equal_to_others"] >= figures["windows"]
    merged = f"left out {figures['equal_to_others']}: equal to others but for names, order or sizes"
    assert merged in run(*paths, "-o", tmp_path / "corpus.txt").stdout


def test_options_bound_the_windows(models: tuple[Path, Path], tmp_path: Path) -> None:
    limits = ("--operators", "3", "--inputs", "2", "--outputs", "1")
    assert run(*models, "-o", tmp_path / "corpus.txt", *limits).exit_code == 0
    for window in read_corpus(tmp_path / "corpus.txt"):
        assert len(window.operators) <= 3 and len(window.outputs) == 1
        assert sum(not variable.weight for variable in window.variables) <= 2


def test_another_device_weighs_otherwise(models: tuple[Path, Path], tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    assert run(*models, "-o", one).exit_code == 0
    assert run(*models, "-o", two, "--device", "cuda_h200").exit_code == 0
    cpu, gpu = ({window.outputs: window.share for window in read_corpus(path)} for path in (one, two))
    both = cpu.keys() & gpu.keys()
    assert both and any(cpu[outputs] != gpu[outputs] for outputs in both)


def test_what_cannot_be_read_is_one_line(models: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    for path in (tmp_path / "text.onnx", tmp_path / "missing.onnx", tmp_path):
        done = run(models[0], path, "-o", tmp_path / "corpus.txt")
        assert done.exit_code == 2
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        assert not (tmp_path / "corpus.txt").exists()


def test_models_are_never_overwritten(models: tuple[Path, Path], tmp_path: Path) -> None:
    before = models[1].read_bytes()
    done = run(*models, "-o", models[1])
    assert done.exit_code == 2 and "cannot be both" in done.stderr
    assert models[1].read_bytes() == before


@pytest.mark.parametrize(
    "wrong",
    [("-o", "none/corpus.txt"), ("--device", "abacus"), ("--operators", "0"), ("--windows", "0"), ()],
    ids=lambda wrong: " ".join(wrong) or "no output",
)
def test_wrong_usage(models: tuple[Path, Path], tmp_path: Path, wrong: tuple[str, ...]) -> None:
    out = () if not wrong or wrong[0] == "-o" else ("-o", tmp_path / "corpus.txt")
    done = run(models[0], *out, *wrong)
    assert done.exit_code == 2
    assert not (tmp_path / "corpus.txt").exists()


def test_help_has_examples() -> None:
    done = run("--help")
    assert done.exit_code == 0 and "superopt harvest model.onnx -o corpus.txt" in done.stdout
