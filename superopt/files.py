"""Output files: refused before the work begins if they cannot be written, and written whole or not at all.

A file is written under a temporary name in its own folder and then renamed, so that at every moment its name stands for
the old file or the new one. The temporary names are random, and the next run that writes to the folder removes what a
killed run has left (`temporary.py`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import BinaryIO

from superopt.temporary import temporary_file

__all__ = [
    "ROOT",
    "TEMPORARY",
    "OutputError",
    "check_distinct",
    "check_writable",
    "is_same",
    "replacing",
    "write_text",
    "write_whole",
]

# The root of the file system. Locations of weights in models in memory are relative to it.
ROOT = Path(os.path.abspath(os.sep))
_PREFIX, _SUFFIX = ".superopt-", ".tmp"
TEMPORARY = f"{_PREFIX}*{_SUFFIX}"  # pattern of the names of temporary files
_NEW_FILE_MODE = 0o666  # before the umask


class OutputError(OSError):
    """A file cannot be written; the message is one line."""


def check_writable(path: Path, size: int = 0) -> None:
    """Raise OutputError if a file of `size` bytes cannot be written to `path`, as far as this can be known before."""
    if str(path) == "-":
        raise OutputError("-: nothing is written to the standard output so; name a file")
    target = _target(path)
    if target.exists() and not os.access(target, os.W_OK):
        raise OutputError(f"{path}: is read-only; name another file")
    with _temporary(path, target) as (handle, _):
        try:
            os.truncate(handle, size)  # the limits of the process and of the file system
            free = shutil.disk_usage(target.parent).free
        except OSError as error:
            raise OutputError(f"{path}: {size:,} bytes cannot be written there: {error.strerror or error}") from None
        finally:
            os.close(handle)
    if size > free:
        raise OutputError(f"{path}: needs up to {size:,} bytes, and only {free:,} are free there; name another folder")


def check_distinct(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None] | None = None) -> None:
    """Raise OutputError if two outputs, or an output and an input, are one file.

    The keys say what the files are ("the trace"). Files are the same if links, relative paths or (where the file system
    ignores it) the case of letters lead to one file. Paths that are None are left out.
    """
    written = [(path, role) for role, path in outputs.items() if path is not None]
    read = [(path, role) for role, path in (inputs or {}).items() if path is not None]
    for (path, role), (other, taken) in [*combinations(written, 2), *((w, r) for w in written for r in read)]:
        if is_same(path, other):
            raise OutputError(f"{path}: cannot be both {role} and {taken}; name another file")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Yield a file for the new content of `path`, and put it in place at the end of the `with` block.

    After an exception in the block, `path` is as before. A file that exists keeps its permissions; a new one gets those
    of any new file. If `path` is a symbolic link, the link stays and the file that it leads to is replaced. Raises
    OutputError if `path` exists and is no regular file, and in place of an OSError in the block.
    """
    target = _target(path)
    with _temporary(path, target) as (handle, name):
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(handle)
            _keep_mode(name, target)
            os.replace(name, target)
        except OutputError:
            raise
        except OSError as error:
            raise _refusal(path, error) from None


def write_whole(path: Path, *parts: bytes) -> None:
    """Write `parts` to `path`, all or nothing. Raises OutputError."""
    with replacing(path) as file:
        for part in parts:
            file.write(part)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in UTF-8, all or nothing. Raises OutputError.

    Bytes of a file's name that are no text become escapes.
    """
    write_whole(path, text.encode(errors="backslashreplace"))


def _target(path: Path) -> Path:
    """Return the path of the regular file, existing or not, that `path` leads to. Raises OutputError."""
    mode = None
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a name that is too long, links that lead in a circle
        raise _refusal(path, error) from None
    if mode is not None and stat.S_ISDIR(mode):
        raise OutputError(f"{path}: is a directory, not a file to write to")
    if mode is not None and not stat.S_ISREG(mode):
        raise OutputError(f"{path}: is a device, a pipe or a socket, not a file to write to")
    return Path(os.path.realpath(path))


@contextlib.contextmanager
def _temporary(path: Path, target: Path) -> Iterator[tuple[int, str]]:
    """Yield the descriptor and the name of a new file in the folder of `target`. Raises OutputError."""
    with contextlib.ExitStack() as made:
        try:
            file = made.enter_context(temporary_file(target.parent, _PREFIX, _SUFFIX))
        except (FileNotFoundError, NotADirectoryError) as error:
            if not target.parent.is_dir():
                raise OutputError(f"{path}: {target.parent} is no folder to write to; make it first") from None
            raise _refusal(path, error) from None
        except OSError as error:
            raise _refusal(path, error) from None
        yield file


def _keep_mode(name: str, target: Path) -> None:
    """Give the file `name` the permissions of `target`, and its owner if this process may do so."""
    try:
        old = target.stat()
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, _NEW_FILE_MODE & ~mask)
        return
    if hasattr(os, "chown"):
        with contextlib.suppress(PermissionError):
            os.chown(name, old.st_uid, old.st_gid)
    os.chmod(name, stat.S_IMODE(old.st_mode))


def _refusal(path: Path, error: OSError) -> OutputError:
    return OutputError(f"{path}: cannot be written: {error.strerror or error}")


def is_same(path: Path, other: Path) -> bool:
    """Return True if both names lead to one file, or would if it existed."""
    try:
        if path.exists() or other.exists():
            return path.exists() and other.exists() and path.samefile(other)
        one, two = (Path(os.path.realpath(p)) for p in (path, other))
        # Neither exists yet, so the file system does not tell whether it distinguishes their names.
        return _folded(one.name) == _folded(two.name) and one.parent.samefile(two.parent)
    except OSError:
        return False


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()
