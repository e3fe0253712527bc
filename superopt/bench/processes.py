"""Calls in separate processes: a crash, a hang or a lack of memory stays there."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from superopt.temporary import temporary_folder

__all__ = ["Failed", "Reply", "call"]


class Failed(RuntimeError):
    """A call without a value: it raised, crashed, or ran out of time; the message is one line."""


@dataclass(frozen=True)
class Reply:
    """The value of a call, its seconds without imports, and the peak memory of its process in bytes."""

    value: Any
    seconds: float
    peak_bytes: int | None


def call(entry: str, arguments: tuple[object, ...], timeout_s: float) -> Reply:
    """Call `entry` (`module:function`, see `worker.py`) in a new process and return its reply. Raises Failed.

    `arguments` and the value are pickled.
    """
    with temporary_folder() as folder:
        (folder / "request").write_bytes(pickle.dumps(arguments))
        command = [sys.executable, "-P", "-m", "superopt.bench.worker", entry, str(folder)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # Optimizers print to stdout, which is for results only. The last line of the log explains a crash.
        with open(folder / "log", "wb") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
            )
            try:
                code = process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise Failed(f"stopped after {timeout_s:.0f} s") from None
            finally:
                _end(process)
        if code or not (folder / "reply").exists():
            raise Failed(_crash(code, (folder / "log").read_text(errors="replace")))
        reply = pickle.loads((folder / "reply").read_bytes())
    if "error" in reply:
        raise Failed(_one_line(reply["error"]))
    return Reply(reply["value"], reply["seconds"], reply["peak_bytes"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and its children: they share a session that it leads."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def _crash(code: int, log: str) -> str:
    said = [line for line in log.splitlines() if line.strip()]
    how = f"crashed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
    return _one_line(f"{how}: {said[-1]}" if said else how)


def _one_line(text: str, most: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
