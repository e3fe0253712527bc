"""Unusable input: exactly one clear line on stderr, exit code 2, no traceback, no output file."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import helper

from superopt.cli import main, optimize_main
from superopt.cli.file_names import FileName
from superopt.cli.supervisor import supervise
from superopt.runtime import RuntimeUnavailable, resolve_target
from tests.support.models import floats, lora, model
from tests.support.paths import ROOT


def truncated(path: Path) -> None:
    path.write_bytes(lora().SerializeToString()[:-1000])


def text(path: Path) -> None:
    path.write_text("This is not a model.\n")


def empty(path: Path) -> None:
    path.touch()


def missing(path: Path) -> None:
    assert not path.exists()


def directory(path: Path) -> None:
    path.mkdir()


def undefined_tensor(path: Path) -> None:
    node = helper.make_node("Add", ["x", "nowhere"], ["y"])
    onnx.save(model([node], [floats("x", 2)], [floats("y", 2)]), path)


def pointer(path: Path) -> None:
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n")


def web_page(path: Path) -> None:
    path.write_text("\n<!DOCTYPE html><html><title>404</title></html>\n")


def cycle(path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])]
    onnx.save(model(nodes, [floats("x", 2)], [floats("b", 2)]), path)


BAD = [truncated, text, empty, missing, directory, undefined_tensor, cycle]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(optimize_main, list(map(str, arguments)))


def assert_one_line(result: Result, *mentions: str) -> None:
    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("error: ")
    assert len(result.stderr) > len("error: ") + 10
    assert all(mention in result.stderr for mention in mentions), result.stderr


@pytest.mark.parametrize("make", BAD)
def test_bad_model(make: Callable[[Path], None], tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    make(path)
    assert_one_line(run(path, "-o", out), "model.onnx")
    assert not out.exists()
    assert [p.name for p in tmp_path.iterdir() if p != path] == []


@pytest.mark.parametrize(
    ("make", "mention"),
    [
        (missing, "no such file"),
        (directory, "directory"),
        (empty, "empty"),
        (pointer, "git lfs pull"),
        (web_page, "web page"),
        (undefined_tensor, "nowhere"),
        (cycle, "cycle"),
    ],
)
def test_the_line_says_what_is_wrong(make: Callable[[Path], None], mention: str, tmp_path: Path) -> None:
    make(tmp_path / "model.onnx")
    assert_one_line(run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx"), mention)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "b\udcff.onnx"
    path.write_bytes(lora().SerializeToString())
    assert_one_line(run(path, "-o", tmp_path / "out.onnx"), "UTF-8")


def test_standard_input_and_output_are_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(lora(), "model.onnx")
    assert_one_line(run("-", "-o", "out.onnx"), "standard input")
    assert_one_line(run("model.onnx", "-o", "-", "--quick"), "standard output")
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.parametrize("shape", ["x=9223372036854775807x64", "x=99999999999999999999x64", "x=1..999999999999999x64"])
def test_shapes_of_no_memory(shape: str, tmp_path: Path) -> None:
    result = run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--shape", shape)
    assert result.exit_code == 2 and "input x has more elements" in result.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_help_that_cannot_be_written() -> None:
    arguments = [sys.executable, "-c", "from superopt.cli import main; main()", "--help"]
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert (
        done.returncode == 2 and done.stderr.startswith("error: the standard output: ") and "\n" not in done.stderr[:-1]
    )


def test_no_traceback_from_the_real_program(tmp_path: Path) -> None:
    text(tmp_path / "model.onnx")
    arguments = [sys.executable, "-c", "from superopt.cli import main; main()", "optimize"]
    done = subprocess.run(
        [*arguments, str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out.onnx")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    lines = [line for line in done.stderr.splitlines() if line != "reading the model ..."]  # said after two seconds
    assert (done.returncode, done.stdout, len(lines)) == (2, "", 1), done.stderr
    assert lines[0].startswith("error: ")


def test_folder_of_output_is_missing(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    assert_one_line(run(tmp_path / "model.onnx", "-o", tmp_path / "none" / "out.onnx"), "none")


def test_output_is_a_folder(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    assert_one_line(run(tmp_path / "model.onnx", "-o", tmp_path), str(tmp_path))


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    """Also a trace and a report, which are written at the end; a device or a pipe is never replaced."""
    onnx.save(lora(), tmp_path / "model.onnx")
    os.mkfifo(tmp_path / "pipe")
    for bad in ("pipe", ".", "none/file", "/dev/null", "o" * 300):
        for option in ("-o", "--trace", "--report"):
            others = [] if option == "-o" else ["-o", tmp_path / "out.onnx"]
            assert_one_line(run(tmp_path / "model.onnx", option, tmp_path / bad, *others), bad.removeprefix(".")[:10])
    assert sorted(os.listdir(tmp_path)) == ["model.onnx", "pipe"]


def test_inputs_that_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.onnx")
    assert_one_line(run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx"), "is a device, a pipe or a socket")
    assert_one_line(run("/dev/zero", "-o", tmp_path / "out.onnx"), "is a device, a pipe or a socket")


def test_one_file_in_two_roles(tmp_path: Path) -> None:
    path, out = tmp_path / "model.onnx", tmp_path / "out.onnx"
    onnx.save_model(lora(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (tmp_path / "link").symlink_to("w.bin")
    for option in ("-o", "--trace", "--report"):
        others = [] if option == "-o" else ["-o", out]
        for same in ("model.onnx", "w.bin", "link", "../" + tmp_path.name + "/model.onnx"):
            assert_one_line(run(path, option, tmp_path / same, *others), "cannot be both", "model")
    assert_one_line(run(path, "-o", out, "--report", out), "both the result and the report")
    assert_one_line(run(path, "-o", out, "--trace", tmp_path / "t", "--report", tmp_path / "t"), "trace and the report")
    assert sorted(os.listdir(tmp_path)) == ["link", "model.onnx", "w.bin"]


def test_rules_are_missing(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    rules = tmp_path / "no.rules"
    assert_one_line(run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--rules", rules), "no.rules")


def test_a_model_in_the_place_of_rules(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    model = tmp_path / "model.onnx"
    assert_one_line(run(model, "-o", tmp_path / "out.onnx", "--rules", model), "not a file of rules", "no text")


def test_a_file_without_rules_is_told(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    (tmp_path / "none.rules").write_text("# nothing\n")
    files = [tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--rules", lora_rules]
    result = run(*files, "--quick", "--add-rules", tmp_path / "none.rules")
    assert result.exit_code == 0 and "none.rules: has no rules" in result.stderr


def test_values_are_missing(tmp_path: Path) -> None:
    """Even before the model is read."""
    missing = tmp_path / "none.npz"
    assert_one_line(run(tmp_path / "none.onnx", "-o", tmp_path / "out.onnx", "--inputs", missing), "none.npz: no such")
    result = CliRunner().invoke(main, ["check", "a.onnx", "b.onnx", "--inputs", str(missing)])
    assert_one_line(result, "none.npz: no such file")


def test_in_place_is_named(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    assert_one_line(run(tmp_path / "model.onnx", "-o", tmp_path / "model.onnx"), "cannot be both", "--in-place")


def test_inputs_are_known_before_the_model_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("superopt.optimizer.run.begin_to_open", lambda *_: pytest.fail("was called"))
    onnx.save(lora(), tmp_path / "model.onnx")
    np.savez(tmp_path / "other.npz", other=np.zeros(3, np.float32))
    for option, value in (("--shape", "other=1x3"), ("--inputs", tmp_path / "other.npz")):
        result = run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--quick", option, value)
        assert_one_line(result, "there is no input 'other'")


def test_rules_are_not_in_the_notation(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    rules = tmp_path / "bad.rules"
    rules.write_text("# fine\nMatMul(a, b = c\n")
    result = run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--rules", rules)
    assert result.exit_code == 2 and not (tmp_path / "out.onnx").exists()
    first, line, caret = result.stderr.splitlines()
    assert first.startswith("error: ") and "bad.rules:2: column 13" in first
    assert line[caret.index("^")] == "=" and line.strip() == "MatMul(a, b = c"


@pytest.mark.parametrize("shape", ["z=1x3", "x=1x2x3", "x=5x65"])
def test_shape_does_not_fit(shape: str, tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora("batch"), tmp_path / "model.onnx")
    result = run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--shape", shape, "--rules", lora_rules)
    assert_one_line(result, f"input {shape[0]}" if shape[0] == "x" else "'z'")


def test_shape_is_not_a_shape(tmp_path: Path) -> None:
    result = run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--shape", "x=1xbig")
    assert result.exit_code == 2
    assert "input=1x3x224x224" in result.stderr


def test_cuda_is_asked_for_and_not_there(tmp_path: Path) -> None:
    try:
        resolve_target("cuda")
    except RuntimeUnavailable:
        onnx.save(lora(), tmp_path / "model.onnx")
        assert_one_line(run(tmp_path / "model.onnx", "-o", tmp_path / "out.onnx", "--ep", "cuda"), "CUDA")
        assert not (tmp_path / "out.onnx").exists()
    else:
        assert resolve_target("auto").provider == "cuda"


def test_usage(tmp_path: Path) -> None:
    assert run(tmp_path / "model.onnx").exit_code == 2
    assert run("model.onnx", "-o", "out.onnx", "--ep", "tpu").exit_code == 2
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2


def test_permissions_are_no_matter_of_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of opening the file says it in one line, as for other files that cannot be read."""
    (tmp_path / "model.onnx").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert FileName().convert(str(tmp_path / "model.onnx"), None, None) == tmp_path / "model.onnx"


def test_what_cannot_be_started_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert supervise("superopt", ["--version"]) == 2
    assert capfd.readouterr().err == f"error: {tmp_path / 'python'}: No such file or directory\n"
