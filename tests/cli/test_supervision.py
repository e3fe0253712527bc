"""Ctrl-C, SIGTERM, the time limit and crashes: one line, an exit code, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.models import endless, floats, lora, model
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")

PROGRAM = [sys.executable, "-m", "superopt"]
WAIT_S = 120.0


def _heed_interrupts() -> None:
    """Undo what a shell does to background jobs: they ignore Ctrl-C, and so do the tests' commands if run in one."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Run:
    """A command that has been started; its temporary files are in `folder / "tmp"`."""

    def __init__(self, folder: Path, *arguments: str | Path, **options: object) -> None:
        self.folder, self.temporary = folder, folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(folder / "cache")}
        self.process = subprocess.Popen(
            [*PROGRAM, *map(str, arguments)],
            **{
                "stdout": subprocess.PIPE,
                "stderr": subprocess.PIPE,
                "text": True,
                "cwd": folder,
                "env": {**environment, "TMPDIR": str(self.temporary)},
                "preexec_fn": _heed_interrupts,
                **options,
            },  # type: ignore[call-overload]
        )

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for `condition`."""
        end = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.02)

    def others(self) -> list[int]:
        """The other processes of the run: its temporary folder is in their environment."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and str(self.temporary).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:  # has ended
                continue
        return [pid for pid in found if pid != self.process.pid]

    def running(self, text: str) -> bool:
        """Return True if a process of the run has `text` in its command line."""
        return any(text in Path(f"/proc/{pid}/cmdline").read_text() for pid in self.others())

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; return the exit code and what was printed. Nothing may stay behind."""
        stdout, stderr = self.process.communicate(timeout=WAIT_S)
        self.until(lambda: not self.others())
        assert not list(self.temporary.iterdir())
        assert not list(self.folder.glob(".superopt*"))
        assert "Traceback" not in stderr
        return self.process.returncode, stdout, stderr


@pytest.fixture
def long(tmp_path: Path) -> list[str | Path]:
    """Arguments of an `optimize` that does not end: its original runs for ever."""
    onnx.save(endless(), tmp_path / "endless.onnx")
    return ["optimize", "endless.onnx", "-o", "out.onnx", "--ep", "cpu", "--cost", "analytic"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_model_runs(tmp_path: Path, long: list[str | Path], number: signal.Signals) -> None:
    run = Run(tmp_path, *long)
    run.until(lambda: run.running("child_main"))
    time.sleep(1.0)
    run.process.send_signal(number)
    code, stdout, stderr = run.end()
    assert (code, stdout) == (128 + number, "")
    reason = "interrupted" if number == signal.SIGINT else "ended by SIGTERM"
    assert stderr.splitlines()[-1] == f"{reason}; nothing was validated before, so nothing is written"
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.5])
def test_a_signal_during_imports(tmp_path: Path, long: list[str | Path], after_s: float) -> None:
    run = Run(tmp_path, *long)
    run.until(lambda: run.running("superopt.cli.worker"))
    time.sleep(after_s)
    run.process.send_signal(signal.SIGINT)
    code, stdout, stderr = run.end()
    *before, last = stderr.splitlines()
    # A fast machine has imported everything, and has begun.
    assert (code, stdout, before[1:], last.partition(";")[0]) == (130, "", [], "interrupted")


def test_the_time_limit_ends_an_endless_run(tmp_path: Path, long: list[str | Path]) -> None:
    code, stdout, stderr = Run(tmp_path, *long, "--timeout", "4").end()
    assert code == 0, stderr
    assert "the time limit of 4 s has passed (--timeout), before a candidate was validated" in stdout
    assert (tmp_path / "out.onnx").read_bytes() == (tmp_path / "endless.onnx").read_bytes()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_worker_is_ended(tmp_path: Path, long: list[str | Path], number: signal.Signals) -> None:
    run = Run(tmp_path, *long)
    run.until(lambda: run.running("child_main"))
    worker = next(pid for pid in run.others() if b"cli.worker" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(worker, number)
    code, stdout, stderr = run.end()
    assert (code, stdout) == (2, "")
    assert stderr.splitlines()[-1] == f"error: the process was ended by {number.name}; nothing was written"


def test_the_program_is_killed(tmp_path: Path, long: list[str | Path]) -> None:
    """Its worker, and the child process that runs the model, end as well; so does the folder of temporary files."""
    run = Run(tmp_path, *long)
    run.until(lambda: run.running("child_main"))
    run.process.kill()
    assert run.end()[0] == -signal.SIGKILL


def test_a_validated_result_is_written_after_ctrl_c(tmp_path: Path, lora_rules: Path) -> None:
    onnx.save(lora(batch=256, size=128, rank=128), tmp_path / "model.onnx")
    files = ["model.onnx", "-o", "out.onnx", "--rules", lora_rules, "--trace", "trace.json"]
    run = Run(tmp_path, "optimize", *files, "--ep", "cpu", "--cost", "analytic", "--budget", "30")
    # A fast run may end between two looks at its folder.
    run.until(lambda: bool(list(run.temporary.glob("*/current"))) or run.process.poll() is not None)
    run.process.send_signal(signal.SIGINT)
    code, stdout, stderr = run.end()
    assert code in (0, 130)  # 0: the signal came too late
    if code == 130:
        assert "interrupted; the result is the best one that was validated before" in stderr
    assert "written: out.onnx" in stdout
    assert (tmp_path / "trace.json").stat().st_size
    assert len(onnx.load(tmp_path / "out.onnx").graph.node) < len(onnx.load(tmp_path / "model.onnx").graph.node)


@pytest.mark.parametrize("command", [["verify", "-j", "2"], ["generate", "-j", "2", "--out", "rules"]])
def test_other_commands_are_interrupted(tmp_path: Path, command: list[str]) -> None:
    run = Run(tmp_path, *command)
    run.until(lambda: len(run.others()) > 2)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGINT)
    code, _, stderr = run.end()
    assert code == 130
    assert stderr.splitlines()[-1].startswith("interrupted")


def test_standard_streams_may_be_closed(tmp_path: Path) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    command = " ".join([*PROGRAM, "optimize model.onnx -o out.onnx --ep cpu --cost analytic --budget 0"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-"], cwd=tmp_path, env=environment, check=True)
    assert (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("command", [["rules"], ["rules", "--help"], ["--version"]])
def test_nobody_reads_the_output(tmp_path: Path, command: list[str]) -> None:
    """`superopt rules | head` ends quietly when `head` has read enough, as by SIGPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [*PROGRAM, *command], stdout=writing, stderr=subprocess.PIPE, env=environment, check=False, timeout=60
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize(("streams", "code"), [("2>/dev/full", 0), (">/dev/full 2>&1", 2), (">/dev/full", 2)])
def test_streams_that_fail_do_not_lose_the_result(tmp_path: Path, streams: str, code: int) -> None:
    onnx.save(lora(), tmp_path / "model.onnx")
    command = " ".join([*PROGRAM, "optimize model.onnx -o out.onnx --ep cpu --cost analytic --budget 3"])
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        ["sh", "-c", f"{command} {streams}"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert (tmp_path / "out.onnx").exists()
    if "2>" not in streams:
        assert done.stderr.endswith("error: the standard output: No space left on device; the result is written\n")


def test_names_beyond_ascii_on_a_plain_terminal(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["größe", "ä"], ["ü"]), helper.make_node("Identity", ["ü"], ["y"])]
    weights = [("ä", np.eye(8, dtype=np.float32))]
    onnx.save(model(nodes, [floats("größe", "N", 8)], [floats("y", "N", 8)], weights), tmp_path / "größe.onnx")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    environment |= {"LC_ALL": "POSIX", "PYTHONIOENCODING": "ascii"}
    arguments = ["optimize", "größe.onnx", "-o", "out.onnx", "--cost", "analytic", "--budget", "0"]
    arguments += ["--device", "cpu", "--target-absent"]
    done = subprocess.run(
        [*PROGRAM, *arguments, "--explain"], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    assert rb"gr\xf6\xdfe" in done.stdout + done.stderr


PLACING = """
import sys
from pathlib import Path
from superopt.cli.worker import Supervision
lifeline, pipe, folder = sys.argv[1:]
with Supervision(int(lifeline), int(pipe), Path(folder), "").writing():
    print("begun", flush=True)
    sys.stdin.readline()
    (Path(folder).parent / "placed").touch()
sys.stdin.readline()
"""


def test_a_result_is_put_in_place_even_if_the_supervisor_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    lifeline, ours = os.pipe()
    read, pipe = os.pipe()
    worker = subprocess.Popen(
        [sys.executable, "-c", PLACING, str(lifeline), str(pipe), str(folder)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(lifeline, pipe),
        process_group=0,
    )
    assert worker.stdin is not None and worker.stdout is not None
    assert worker.stdout.readline() == "begun\n"
    for end in (ours, lifeline, read, pipe):  # as at the death of the supervisor
        os.close(end)
    time.sleep(0.2)
    assert worker.poll() is None and folder.exists()
    print(file=worker.stdin, flush=True)
    assert worker.wait(WAIT_S) == -signal.SIGKILL
    assert (tmp_path / "placed").exists() and not folder.exists()
    worker.stdin.close()
    worker.stdout.close()
