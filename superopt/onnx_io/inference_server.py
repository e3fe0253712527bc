"""ONNX's shape inference for another process, one model after the other, with limits of memory and CPU time for each.

`inference_process.py` starts this file as a program. Only the standard library and ONNX's extension module are
imported, which takes a few hundredths of a second.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import struct
import sys
import time
from pathlib import Path
from types import ModuleType

# A request: the bytes of memory and the seconds of CPU time that it may take, whether to propagate values, and the
# length of the model, which follows. An answer: the seconds that it took, whether the process ends after it, and the
# length of the model with types, which follows; 0 if inference fails.
REQUEST, ANSWER = struct.Struct("<QQ?Q"), struct.Struct("<d?Q")

STATE = Path("/proc/self/statm")  # of Linux; its sixth number counts the pages of data
_DATA = 5
_KEPT_BYTES = 1 << 26  # that the process may keep between requests


def main() -> None:
    """Answer requests from standard input until it ends. The argument is the file of ONNX's extension module."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the other process
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # for what libraries print
    library = _loaded(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    at_start, allowed, is_last = _data_bytes(), resource.getrlimit(resource.RLIMIT_DATA), False
    while not is_last and len(head := requests.read(REQUEST.size)) == REQUEST.size:
        memory, seconds, data_prop, size = REQUEST.unpack(head)
        data = requests.read(size)
        begun = time.process_time()
        # Allocations fail beyond `memory` more bytes than now, and the process ends after `seconds` more of CPU time.
        _limit(resource.RLIMIT_DATA, _data_bytes() + memory, *allowed)
        _limit(resource.RLIMIT_CPU, int(begun) + 1 + seconds, resource.getrlimit(resource.RLIMIT_CPU)[1])
        found = _inferred(library, data, data_prop)
        is_last = _data_bytes() > at_start + _KEPT_BYTES + len(data) + len(found)
        answers.write(ANSWER.pack(time.process_time() - begun, is_last, len(found)) + found)
        answers.flush()


def _loaded(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("onnx_cpp2py_export", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _inferred(library: ModuleType, data: bytes, data_prop: bool) -> bytes:
    try:
        found: bytes = library.shape_inference.infer_shapes(data, False, False, data_prop)
    except Exception:  # noqa: BLE001 - its own errors, and those of every library that it uses
        return b""
    return found


def _limit(kind: int, wanted: int, *ends: int) -> None:
    """Set a limit of this process to `wanted`, or to the lowest of `ends`."""
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (min([wanted, *(end for end in ends if end != resource.RLIM_INFINITY)]), hard))


def _data_bytes() -> int:
    return int(STATE.read_text().split()[_DATA]) * resource.getpagesize()


if __name__ == "__main__":
    main()
