"""A command in a supervised worker process.

The worker (`worker.py`) does all the work. This process only waits: for the end of the worker, for Ctrl-C and SIGTERM,
and for the end of the time that `optimize --timeout` gives. So it reacts at any moment, whatever the worker is doing,
even in a library that does not return. A worker that is stopped has a few seconds to end by itself before it is killed
with all its processes. If the time has run out, or if the worker has left a validated result, a second worker finishes
the run: it writes that result, or the original.

Little beyond the standard library is imported here, because Ctrl-C may come before anything else is imported.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from superopt.temporary import temporary_folder

__all__ = ["CHECKPOINT", "INTERRUPTED", "LIMIT", "STOPPED", "WRITING", "WRITTEN", "supervise"]

# Messages of the worker, one a line: the seconds that the run may take; whether a validated result is in the run's
# folder (1 or 0); the result is being put in place; it is there.
LIMIT, CHECKPOINT, WRITING, WRITTEN = "limit", "checkpoint", "writing", "written"
INTERRUPTED = 130  # exit code after Ctrl-C, as of a process that SIGINT has ended; the process has said so in a line
STOPPED = 131  # exit code of a worker that has stopped and says nothing

_UNUSABLE = 2  # exit code
_SECONDS_TO_STOP = 3.0
_SECONDS_TO_WRITE = 120.0
_SECONDS_TO_FINISH = 120.0
_STOPPING = (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))


def supervise(program: str, arguments: Sequence[str]) -> int:
    """Run `program` ("superopt" or "optimize") with `arguments` in a worker; return its exit code.

    After a signal the exit code is 128 and the signal's number. If the time limit ends the run, it is that of the
    worker that finishes the run.
    """
    try:
        return _supervise(program, arguments)
    except OSError as error:  # no folder for temporary files, or no room for another process
        named = f"{error.filename}: " if error.filename and error.strerror else ""
        _say(f"error: {named}{error.strerror or error}")
        return _UNUSABLE


def _supervise(program: str, arguments: Sequence[str]) -> int:
    begun = time.monotonic()
    _open_standard_streams()
    with _Signals() as signals, temporary_folder() as folder:
        with _Worker(signals, folder, program, arguments) as worker:
            stopped_by = worker.wait(begun)
            if stopped_by is not None:
                worker.stop(_SECONDS_TO_STOP if stopped_by else 0.0)
        if worker.code == 0 or (worker.code > 0 and worker.code != STOPPED and stopped_by is None):
            return worker.code
        if stopped_by is None:
            reason = f"the process was ended by {_name(-worker.code if worker.code < 0 else signal.SIGTERM)}"
        elif stopped_by == 0:
            reason = f"the time limit of {worker.limit_s:g} s has passed (--timeout)"
        else:
            reason = "interrupted" if stopped_by == signal.SIGINT else f"ended by {_name(stopped_by)}"
        finished = _finished(signals, folder, program, arguments, worker, reason, stopped_by == 0)
        if finished is None and worker.code != INTERRUPTED:
            outcome = "; nothing was written"
            if worker.written:
                outcome = "; the result is written"
            elif stopped_by:
                outcome = "; nothing was validated before, so nothing is written" if worker.reports else ""
            _say(("" if stopped_by else "error: ") + reason + outcome)
        if stopped_by:
            return 128 + stopped_by
        return _UNUSABLE if finished is None else finished


def _finished(
    signals: _Signals,
    folder: Path,
    program: str,
    arguments: Sequence[str],
    worker: _Worker,
    reason: str,
    is_wanted: bool,
) -> int | None:
    """Finish the run of `worker`, if it has left a result or if `is_wanted`; return the exit code, None if not done."""
    if worker.written or not (worker.checkpoint or is_wanted):
        return None
    with _Worker(signals, folder, program, arguments, finish=reason) as finisher:
        finisher.limit_s = _SECONDS_TO_FINISH
        stopped_by = finisher.wait(time.monotonic())
    return finisher.code if stopped_by is None and finisher.code >= 0 else None


class _Signals:
    """The signals that this process waits for, as numbers that can be read from the file descriptor `pipe`."""

    def __enter__(self) -> _Signals:
        self.pipe, self._end = os.pipe()
        os.set_blocking(self.pipe, False)
        os.set_blocking(self._end, False)
        signal.set_wakeup_fd(self._end, warn_on_full_buffer=False)
        self._before = {
            number: signal.signal(number, lambda *_: None)
            for number in {*_STOPPING, signal.SIGCHLD, signal.SIGTSTP}
            if signal.getsignal(number) is not signal.SIG_IGN  # as of nohup, and of background jobs of a script
        }
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.pipe)
        os.close(self._end)

    def arrived(self) -> list[int]:
        """Return the signals since the last call."""
        try:
            return list(os.read(self.pipe, 256))
        except BlockingIOError:
            return []


class _Worker:
    """A worker process, the leader of its process group.

    `code` is its exit code, negative if a signal has ended it. `limit_s`, `checkpoint`, `writing` and `written` are
    what it has said. `reports` is True if it says when it has a result. With `finish`, it finishes an earlier run that
    was stopped for this reason.
    """

    def __init__(
        self, signals: _Signals, folder: Path, program: str, arguments: Sequence[str], finish: str = ""
    ) -> None:
        self._signals = signals
        self.limit_s = float("inf")
        self.checkpoint = self.reports = self.writing = self.written = False
        self._pipe, theirs = os.pipe()
        lifeline, self._lifeline = os.pipe()  # the worker's end ends with this process
        main = "from superopt.cli.worker import main; main()"
        command = [sys.executable, "-P", "-c", main, f"{lifeline},{theirs}", str(folder), finish, program]
        self._process = subprocess.Popen(
            [*command, *arguments],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)},
            pass_fds=(lifeline, theirs),
            process_group=0,
        )
        os.close(lifeline)
        os.close(theirs)
        self._partial = b""

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        os.close(self._pipe)
        os.close(self._lifeline)

    @property
    def code(self) -> int:
        code = self._process.returncode
        assert code is not None
        return code

    def wait(self, begun: float) -> int | None:
        """Wait for the end of the process. Return None, or the signal that asks to stop it, or 0 if its time is over.

        `begun` is the time by the monotonic clock since when the limit counts.
        """
        while self._process.poll() is None:
            remaining = begun + self.limit_s - time.monotonic()
            if remaining <= 0:
                return 0
            for number in self._next_signals(remaining):
                if number == signal.SIGTSTP:
                    self._suspend()
                elif number in _STOPPING:
                    return number
        self._read()
        return None

    def stop(self, limit_s: float) -> None:
        """Ask the process to end; kill it with its group after `limit_s` seconds, or if another signal asks for it.

        A process that puts a result in place has more time.
        """
        self._read()
        self._process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        while self._process.poll() is None:
            allowed = _SECONDS_TO_WRITE if self.writing else limit_s
            remaining = begun + allowed - time.monotonic()
            if remaining <= 0 or any(number in _STOPPING for number in self._next_signals(remaining)):
                self._kill()
        self._read()

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _next_signals(self, limit_s: float) -> list[int]:
        """Wait for signals and messages, at most `limit_s` seconds; read the messages and return the signals."""
        ready, _, _ = select.select([self._signals.pipe, self._pipe], [], [], min(limit_s, 3600.0))
        if self._pipe in ready and not self._read():
            time.sleep(0.01)  # the process is about to end
        return self._signals.arrived()

    def _read(self) -> bool:
        """Read the messages that have arrived. Return False at their end."""
        while select.select([self._pipe], [], [], 0)[0]:
            data = os.read(self._pipe, 4096)
            if not data:
                return False
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                name, _, value = line.decode().partition(" ")
                if name == LIMIT:
                    self.limit_s = float(value)
                elif name == CHECKPOINT:
                    self.checkpoint, self.reports = value == "1", True
                self.writing |= name == WRITING
                self.written |= name == WRITTEN
        return True

    def _suspend(self) -> None:
        """Stop both processes as Ctrl-Z does, until this one is continued."""
        os.killpg(self._process.pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.killpg(self._process.pid, signal.SIGCONT)


def _open_standard_streams() -> None:
    """Open those of the standard streams that the caller has closed, here and for the worker, so that no pipe gets
    their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{line}\n".encode("ascii", "backslashreplace"))


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
