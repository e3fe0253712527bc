"""The worker process of `supervisor.py`: `main` runs one command.

The arguments of the process are two file descriptors, the run's folder, a reason to finish an earlier run (or nothing),
and then the program with its arguments. The supervisor deletes the folder, which is also that of temporary files.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from superopt.cli.streams import CLOSED, StandardOutputError, replace_standard_streams
from superopt.cli.supervisor import CHECKPOINT, LIMIT, STOPPED, WRITING, WRITTEN
from superopt.temporary import hold

__all__ = ["Supervision", "main", "supervision"]


class Supervision:
    """The connection to the supervisor.

    `folder` is for the best validated result so far. `finish` is empty, or the reason for which an earlier worker was
    stopped, whose run this one finishes. `written` is True once the result is in place.
    """

    def __init__(self, lifeline: int, pipe: int, folder: Path, finish: str) -> None:
        self.folder, self.finish = folder, finish
        self._lifeline, self._pipe = lifeline, pipe
        self._writing = self.written = False
        hold(folder)
        self._placing = threading.Lock()  # held while the result is put in place
        signal.signal(signal.SIGTERM, self._stop)
        threading.Thread(target=self._end_with_supervisor, daemon=True).start()

    def limit(self, seconds: float | None) -> None:
        """Announce how long the run may take since its start; None: without a limit."""
        if seconds is not None:
            self._say(f"{LIMIT} {seconds}")

    def checkpoint(self, exists: bool) -> None:
        """Announce that there is, or is no more, a validated result in `folder`."""
        self._say(f"{CHECKPOINT} {exists:d}")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Announce that the block puts the result in place; it is not interrupted."""
        self._writing = True
        with self._placing:
            self._say(WRITING)
            yield
            self.written = True
            self._say(WRITTEN)

    def _say(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the supervisor is no more, and this process ends soon
            os.write(self._pipe, f"{line}\n".encode())

    def _stop(self, *_: object) -> None:
        if not self._writing:
            # The exception may be lost in a destructor, or become another one in an extension that is being imported.
            sys.unraisablehook = lambda _: None
            sys.excepthook = lambda *_: None
            raise SystemExit(STOPPED)  # Click would answer a KeyboardInterrupt with lines of its own

    def _end_with_supervisor(self) -> None:
        """Kill the process group when the supervisor is no more; a result that is being put in place comes first."""
        os.read(self._lifeline, 1)
        with self._placing:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.killpg(0, signal.SIGKILL)


_supervision: Supervision | None = None


def supervision() -> Supervision | None:
    """Return the connection to the supervisor; None if this process has none."""
    return _supervision


def main() -> None:
    """Run the command that the supervisor asks for."""
    global _supervision
    for number in (signal.SIGINT, signal.SIGTTOU):  # Ctrl-C is for the supervisor; a background group may write
        signal.signal(number, signal.SIG_IGN)
    pipes, folder, finish, program, *arguments = sys.argv[1:]
    lifeline, pipe = map(int, pipes.split(","))
    _supervision = Supervision(lifeline, pipe, Path(folder), finish)
    replace_standard_streams()
    from superopt.cli import PROGRAMS

    sys.argv[0] = program
    try:
        try:
            PROGRAMS[program].command.main(args=arguments, prog_name=program)
        finally:
            sys.stdout.flush()
    except StandardOutputError as error:
        if not error.is_closed:
            written = "; the result is written" if _supervision.written else ""
            print(f"error: {error}{written}", file=sys.stderr)  # noqa: T201
        os._exit(CLOSED if error.is_closed else 2)  # Python would try to write it once more
