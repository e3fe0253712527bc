"""Run one call in this process: `python -m superopt.bench.worker MODULE:FUNCTION FOLDER`.

FUNCTION() imports what it needs and returns a function, which is called with the arguments in FOLDER/request. The
value, the time (without imports) and the peak memory of this process (with imports) go to FOLDER/reply. Only the
standard library is imported here, so that the memory is that of the called function.
"""

from __future__ import annotations

import importlib
import pickle
import sys
import time
from pathlib import Path


def main(entry: str, folder: Path) -> None:
    """Answer the request in `folder`; an exception is an answer as well."""
    module, _, name = entry.partition(":")
    arguments = pickle.loads((folder / "request").read_bytes())
    try:
        run = getattr(importlib.import_module(module), name)()
        start = time.perf_counter()
        value = run(*arguments)
        reply = {"value": value, "seconds": time.perf_counter() - start, "peak_bytes": peak_bytes()}
    except Exception as error:  # noqa: BLE001 - every failure is an answer to the caller
        reply = {"error": f"{type(error).__name__}: {error}"}
    (folder / "reply").write_bytes(pickle.dumps(reply))


def peak_bytes() -> int | None:
    """Return the peak resident memory of this process or a child in bytes, or None if the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    status = Path("/proc/self/status")
    if status.exists():
        # On Linux ru_maxrss includes the peak of the parent process; VmHWM is the peak of this program alone.
        own = next((int(x.split()[1]) * 1024 for x in status.read_text().splitlines() if x.startswith("VmHWM")), own)
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
