"""The command line: results on stdout, everything else on stderr, exit codes."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import click
import onnx
import pytest
from click.testing import CliRunner, Result

from superopt.cli import main, optimize_main
from superopt.cli.optimize_command import _with_time_left
from superopt.cli.terminal import ProgressLines
from tests.support.models import LORA_RULES, lora


def run(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner(env=environment).invoke(main, list(map(str, arguments)))


@pytest.fixture
def arguments(tmp_path: Path, lora_rules: Path, short_measurements: None) -> list[str | Path]:
    """`optimize` of a model that the rules halve in cost, quick."""
    onnx.save(lora(batch=256, size=128, rank=128), tmp_path / "model.onnx")
    files = [tmp_path / "model.onnx", "-o", tmp_path / "fast.onnx", "--rules", lora_rules]
    return ["optimize", *files, "--ep", "cpu", "--threads", "1", "--budget", "2"]


def test_table(arguments: list[str | Path], tmp_path: Path) -> None:
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    for text in (
        "operators",
        "times as fast (95% interval",
        "measured CPU time",
        "predicted time",
        "MatMul(a, Add(b, c))",
        "errors against float64",
        "proven: 2 rules",
    ):
        assert text in result.stdout
    assert f"written: {tmp_path / 'fast.onnx'}" in result.stdout
    assert "\x1b[" not in result.stdout
    assert "error" not in result.stderr


def test_json_is_all_there_is_on_stdout(arguments: list[str | Path]) -> None:
    result = run(*arguments, "--json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["changed"]
    assert data["latency"]["ratio"] > 1


@pytest.mark.parametrize("first", [0, 3])
def test_a_model_in_the_place_of_a_subcommand_is_optimized(
    arguments: list[str | Path], tmp_path: Path, first: int
) -> None:
    """Before its options, or behind some of them."""
    del arguments[0]
    result = run(*arguments[first:], *arguments[:first])
    assert result.exit_code == 0, result.output
    assert f"written: {tmp_path / 'fast.onnx'}" in result.stdout


@pytest.mark.parametrize(
    "name", ["", "bench", "generate", "harvest", "learn", "optimize", "report", "rules", "verify", "why"]
)
def test_every_command_says_its_version(name: str) -> None:
    result = run(*filter(None, [name]), "--version")
    assert (result.exit_code, result.output.count(metadata.version("superopt"))) == (0, 1)


def test_a_checkout_that_is_not_installed_has_no_number_of_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", version)
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0 and "version unknown: it runs from a checkout" in result.output


def test_no_color(arguments: list[str | Path]) -> None:
    """Even where a terminal is claimed."""
    result = run(*arguments, NO_COLOR="1", FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b[3" not in result.output.replace("\x1b[3m", "")  # colours; italics are no colour


def test_notices_go_to_stderr(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora("batch"), tmp_path / "model.onnx")
    files = [tmp_path / "model.onnx", "-o", tmp_path / "fast.onnx", "--rules", lora_rules]
    arguments = "optimize", *files, "--budget", "1", "--json", "--cost", "analytic", "--device", "cpu"
    assert "notice: dynamic sizes were measured at batch = 1, " in run(*arguments).stderr
    result = run(*arguments, "--target-absent")  # and does not say again what the run before said
    assert "notice: dynamic sizes were compared at batch = 1, " in result.stderr
    json.loads(result.stdout)


def test_an_empty_name_is_called_empty(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    for arguments, name in (
        (("optimize", tmp_path / "model.onnx", "-o", ""), "'-o'"),
        (("optimize", "", "-o", tmp_path / "fast.onnx"), "'MODEL'"),
        (("verify", lora_rules, ""), "'[PATHS]...'"),
    ):
        result = run(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"invalid value for {name}" in result.stderr and "the name is empty" in result.stderr


def test_optimize_is_a_program_of_its_own() -> None:
    alone = CliRunner().invoke(optimize_main, ["--help"]).stdout
    sub = run("optimize", "--help").stdout
    assert alone.splitlines()[1:] == sub.splitlines()[1:]
    for option in ("--ep", "--json", "--seed", "--budget", "--alpha", "--rules", "--shape", "--threads", "--trace"):
        assert option in alone
    assert "Examples:" in alone


@pytest.mark.parametrize("command", ["optimize", "verify", "rules", "generate", "why"])
def test_help_has_examples(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout


@pytest.mark.parametrize("name", main.list_commands(click.Context(main)))
def test_subcommands(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert name in run("--help").stdout


def test_verify_proves(lora_rules: Path) -> None:
    result = run("verify", lora_rules)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "2 rules proven at 2 signatures" in result.stdout


def test_verify_names_the_false_rule(tmp_path: Path) -> None:
    (tmp_path / "altered.rules").write_text(LORA_RULES.replace("MatMul(a, Add(b, c))", "MatMul(a, Add(b, b))"))
    result = run("verify", tmp_path)
    assert result.exit_code == 1
    assert "altered.rules:2: Add(MatMul(a, b), MatMul(a, c)) = MatMul(a, Add(b, b))" in result.stdout
    assert "counterexample" in result.stdout
    assert "a = [[" in result.stdout
    assert "1 rule proven at 1 signature, 1 rule not" in result.stdout


def test_verify_does_not_pass_what_it_cannot_show(tmp_path: Path) -> None:
    (tmp_path / "bare.rules").write_text("Transpose[perm=p](Add(a, b)) = Transpose[perm=p](Add(b, a))\n")
    result = run("verify", tmp_path / "bare.rules")
    assert result.exit_code == 1
    assert "needs a signature" in result.stdout


def test_verify_of_nothing_is_no_success(tmp_path: Path) -> None:
    assert run("verify", tmp_path).exit_code == 2
    assert run("verify", tmp_path / "missing").exit_code == 2


def test_rules_are_listed(lora_rules: Path) -> None:
    result = run("rules", lora_rules)
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 2
    assert result.stdout.splitlines()[0].endswith("  MatMul(MatMul(a, b), c) = MatMul(a, MatMul(b, c))")


def test_progress_of_optimize_says_what_is_left_of_the_budget() -> None:
    told: list[str] = []
    for message in ("searching", "searching: pass 1"):
        _with_time_left(told.append, 90.0)(message)
    _with_time_left(told.append, 0.0)("measuring")
    assert told == [
        "searching: 1 min 30 s of the budget left", "searching: pass 1, 1 min 30 s of the budget left", "measuring"
    ]  # fmt: skip


def test_progress_is_silent_at_first(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressLines(delay_s=60) as progress:
        progress("searching: 1")
    with ProgressLines(delay_s=0) as progress:
        progress._begin()
        for message in ("searching: 1", "searching: 2", "measuring"):
            progress(message)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == ["searching: 1 ...", "measuring ..."]
