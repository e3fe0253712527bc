"""Wrong usage: near names, hints and one form of errors; help that is not cut off; `shipped` as a path of rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from superopt.cli import main, optimize_main
from superopt.cli.click_commands import Program
from superopt.cli.file_names import shown_rules
from superopt.rulebook.loading import load_rules, shipped_rules


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def commands(command: click.Command, *names: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command with the names that lead to it, itself first."""
    yield names, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, *names, name)


COMMANDS = dict(commands(main.command))
GROUPS = [names for names, command in COMMANDS.items() if isinstance(command, click.Group)]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["chek", "a", "b"], "chek; did you mean check?"),
        (["rules", "lst"], "lst; did you mean list?"),
        (["rules", "no.rules"], "no.rules: no such file or folder of rules"),
        (["rules", "show", "0123456789ab"], "folder of rules: show; superopt rules | grep ID shows one rule"),
        (["optimize", "a.onnx", "b.onnx"], "(b.onnx); give one MODEL, and the file to write with -o FILE"),
        (["a.onnx", "b.onnx", "c.onnx"], "(b.onnx c.onnx); give one MODEL"),
        (["noext", "-o", "x"], "to optimize a file: superopt optimize noext -o FILE"),
        (["verify", "--jsno"], "--json"),
    ],
)
def test_near_names(arguments: list[str], hint: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert hint in result.stderr


@pytest.mark.parametrize("name", ["model.ONNX", "model"])
def test_a_file_is_optimized_whatever_its_suffix(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("no model")
    result = run(tmp_path / name, "-o", tmp_path / "fast.onnx")
    assert result.exit_code == 2 and result.stderr.startswith(f"error: {tmp_path / name}: ")


def test_errors_have_one_form() -> None:
    for program in (main, optimize_main):
        for arguments in (["--nonsense"], ["optimize", "--budget", "abc"], ["why", "--limit", "x"]):
            result = CliRunner().invoke(program, arguments)
            assert result.exit_code == 2
            assert result.stderr.startswith("Usage: ") and "\nerror: " in result.stderr and "Error" not in result.stderr
    assert "'abc' is not a valid integer." in run("verify", "-j", "abc").stderr
    assert "'abc' is not a valid number." in run("optimize", "m.onnx", "--budget", "abc").stderr


@pytest.mark.parametrize("names", GROUPS)
def test_summaries_of_commands_are_whole(names: tuple[str, ...]) -> None:
    lines = run(*names, "--help").stdout.splitlines()
    commands = lines[lines.index("Commands:") + 1 :]
    assert commands and not [line for line in commands if line.endswith("...") or len(line) > 80]


@pytest.mark.parametrize("names", COMMANDS)
def test_help_has_examples_and_fits_a_terminal(names: tuple[str, ...]) -> None:
    lines = run(*names, "--help").stdout.splitlines()
    assert any(line.strip() == "Examples:" for line in lines) and not [line for line in lines if len(line) > 80]


@pytest.mark.parametrize(("program", "names"), [(main, ()), (main, ("optimize",)), (optimize_main, ())])
def test_without_arguments_the_usage_stands_once(program: Program, names: tuple[str, ...]) -> None:
    result = CliRunner().invoke(program, names)
    assert result.output.count("Usage: ") == 1 and "error: usage" not in result.output


def test_names_in_errors_keep_their_letters(tmp_path: Path) -> None:
    result = run("optimize", "m.onnx", "-o", tmp_path / "out.onnx", "--target", "openvino", "--ep", "cuda")
    assert "error: OpenVINO runs on the CPU" in result.stderr


def test_a_missing_model_is_said_before_missing_options() -> None:
    assert run("no.onnx").stderr == "error: no.onnx: no such file\n"


def test_an_unknown_device_is_told_the_names_of_devices() -> None:
    assert "gpu: no such file, and no device (cpu, cuda, " in run("why", "m.onnx", "--device", "gpu").stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["optimize", "https://example.org/m.onnx", "-o", "x"], "https://example.org/m.onnx: no file but an address"),
        ([".", "-o", "x"], ". is a folder, not a model; to optimize a file"),
        (["generate", "-o", "x", "--family", "nope"], "no family nope"),
        (["generate", "--family", "nope"], "invalid value for '--family': no family nope"),
        (["generate", "--corpus", "nope.txt"], "invalid value for '--corpus': nope.txt"),
        (["generate", "--windows", "5"], "--windows is for --corpus"),
        (["rules", "matrix", "shipped"], "give two sets of rules or more"),
        (["optimize", "m.onnx", "-o", "x", "--timeout", "1e99"], "timeout must be at most 9"),
    ],
)
def test_errors_name_what_is_wrong(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and said in result.stderr


@pytest.mark.parametrize("name", main.get_command(click.Context(main.command), "rules").commands)
def test_commands_on_rules_say_their_version(name: str) -> None:
    assert "version" in run("rules", name, "--version").stdout


def test_shipped_is_a_word_for_the_shipped_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any folder, as in the examples of the help."""
    monkeypatch.chdir(tmp_path)
    assert len(run("rules", "list", "shipped").stdout.splitlines()) == len(load_rules())
    assert [shown_rules(path) for path in (shipped_rules(), tmp_path)] == ["shipped", str(tmp_path)]


def test_the_end_of_a_damaged_file_is_no_interruption() -> None:
    """Click takes both for the end of the user's input."""

    def damaged() -> None:
        raise EOFError("marshal data too short")

    result = CliRunner().invoke(Program("damaged", callback=damaged))
    assert isinstance(result.exception, EOFError) and "interrupted" not in result.stderr
