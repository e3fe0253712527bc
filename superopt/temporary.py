"""Temporary folders and files that a later run removes if the process that uses them was killed.

Whoever uses one holds a shared lock on it, which the system releases with the last of its processes. So what nobody
holds is stale, and locks cannot be mistaken for those of another process, as process ids can. Only the standard library
is imported here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on this system: nothing is stale there
    fcntl = None  # type: ignore[assignment]

__all__ = ["hold", "is_stale", "temporary_file", "temporary_folder"]

_LOCK = "superopt.lock"  # a file in each temporary folder; a folder without it is not ours
_PREFIX = "superopt-"


@contextlib.contextmanager
def temporary_folder(parent: Path | None = None, prefix: str = _PREFIX) -> Iterator[Path]:
    """Yield a new folder in `parent` (default: the system's folder for them), which is removed after the `with` block.

    Stale ones with the same prefix are removed first. Raises OSError.
    """
    for path in _own(Path(parent or tempfile.gettempdir()), prefix, ""):
        with contextlib.suppress(OSError), open(path / _LOCK, "rb+") as lock:
            if is_stale(lock.fileno()):
                shutil.rmtree(path, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        handle, name = tempfile.mkstemp(dir=folder)
        with open(handle, "rb+"):
            _share(handle)
            os.rename(name, folder / _LOCK)  # so the lock is held from its first moment
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def hold(folder: Path) -> None:
    """Hold a temporary folder of another process until the end of this one."""
    with contextlib.suppress(OSError):
        _share(os.open(folder / _LOCK, os.O_RDWR))


@contextlib.contextmanager
def temporary_file(parent: Path, prefix: str, suffix: str) -> Iterator[tuple[int, str]]:
    """Yield the descriptor, which the caller closes, and the path of a new file in `parent`.

    The file is removed after the `with` block unless it was renamed. Stale ones with the same prefix and suffix are
    removed first. Raises OSError.
    """
    for path in _own(parent, prefix, suffix):
        with contextlib.suppress(OSError), open(path, "rb+") as file:
            if is_stale(file.fileno()):
                path.unlink()
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=parent)
    _share(handle)
    while not os.fstat(handle).st_nlink:  # another process took it for stale before this one held it
        os.close(handle)
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=parent)
        _share(handle)
    lock = None if fcntl is None else os.dup(handle)  # held while the caller renames the file
    try:
        yield handle, name
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if lock is not None:
            os.close(lock)


def is_stale(descriptor: int) -> bool:
    """Return True if no process holds the open file, and keep others from holding it until it is closed."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # held, or a file system without locks
        return False
    return True


def _share(descriptor: int) -> None:
    if fcntl is not None:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH)


def _own(parent: Path, prefix: str, suffix: str) -> list[Path]:
    """Return the entries of `parent` with such names that belong to this user; no symbolic links."""
    if fcntl is None:
        return []
    found: list[Path] = []
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(suffix) and not entry.is_symlink():
                with contextlib.suppress(OSError):
                    if entry.stat(follow_symlinks=False).st_uid == os.getuid():
                        found.append(Path(entry.path))
    return found
