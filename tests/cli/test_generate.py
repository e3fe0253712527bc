"""The options of `superopt generate`: what they mean, and one line where they mean nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from superopt.cli import main
from superopt.cli.generate_command import _bytes, generate_command
from superopt.generate import Summary
from superopt.generate.run.shard_results import StaleResults
from superopt.generate.run.workers import WorkersError

PATCHED = "superopt.generate.generate"


@pytest.mark.parametrize(
    ("text", "size"), [("512M", 512 * 2**20), ("4G", 2**32), ("1.5g", 3 * 2**29), ("64KiB", 2**16), ("1TB", 2**40)]
)
def test_memory(text: str, size: int) -> None:
    command = generate_command
    parameter = next(p for p in command.params if p.name == "memory")
    assert _bytes(click.Context(command), parameter, text) == size


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--memory", text] for text in ("", "4", "G", "-1G", "0M", "4 apples", "1e3M", "0.00001K")),
        ["--family", "unheard-of"],
        ["--operators", "0"],
        ["--jobs", "0"],
        ["--scheduler", "tcp://127.0.0.1:1", "-j", "2"],
        ["--seed", "-1"],
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PATCHED, lambda *a, **k: pytest.fail("was called"))
    done = CliRunner().invoke(main, ["generate", "--out", str(tmp_path / "out"), *arguments])
    assert done.exit_code == 2
    assert "error: " in done.stderr
    assert not (tmp_path / "out").exists()


def test_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def generate(out: Path, seed: int, progress: Any, **options: Any) -> Summary:
        assert (seed, options["operators"], options["jobs"], options["memory"]) == (7, 2, 3, 2**30)
        assert {f.name for f in options["families"]} == {"matrix"}
        assert options["resume"]
        (out / "refused.jsonl").touch()
        return Summary(seed)

    monkeypatch.setattr(PATCHED, generate)
    given = "--seed 7 --operators 2 -j 3 --memory 1G --family matrix --resume --json"
    done = CliRunner().invoke(main, ["generate", "--out", str(tmp_path), *given.split()])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["seed"] == 7


@pytest.mark.parametrize("error", [StaleResults("start over\nor not"), WorkersError("no scheduler")])
def test_errors_are_one_line(tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def generate(*_: Any, **__: Any) -> Summary:
        raise error

    monkeypatch.setattr(PATCHED, generate)
    done = CliRunner().invoke(main, ["generate", "--out", str(tmp_path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "error: " + " ".join(str(error).split()) + "\n"


def test_ctrl_c_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def generate(*_: Any, **__: Any) -> Summary:
        raise KeyboardInterrupt

    monkeypatch.setattr(PATCHED, generate)
    done = CliRunner().invoke(main, ["generate", "--out", str(tmp_path)])
    assert done.exit_code == 130
    assert "the same command goes on from here" in done.stderr
