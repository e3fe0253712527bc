"""Certified rules as an earlier process has read them. Reading 3,500 rules and certificates takes 1.3 s, this 0.2 s.
A process keeps those that it has read last, because `superopt.optimize` may be called for many models.

What is kept lies in the user's cache directory, under a digest of all that reading depends on: the rules, their
certificates, the kernel, this package and the versions of Python. A damaged file, or one that holds objects of other
kinds than rules consist of, is read as if there were none.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import platformdirs

from superopt.files import OutputError, write_whole
from superopt.gc_tuning import rare_collections
from superopt.ir.term import Term
from verify.certificates import kernel_hash

__all__ = ["default_folder", "kept_or_read"]

_Read = TypeVar("_Read")

_in_this_process: dict[str, Any] = {}  # by key, in the order in which they were read
_MOST_HERE = 4  # the shipped rules, and some that are added to them

_MOST_FILES = 4  # those that were written last, of 12 MB: one for each set of rules and version of the program
_DIGEST_BYTES = 16
_PACKAGES = ("superopt.ir.", "superopt.rulebook.", "pathlib.")  # of the classes that are kept
# What a damaged file, or one that somebody else has made, may lead to.
_UNUSABLE = (OSError, ValueError, pickle.UnpicklingError, ImportError, EOFError, AttributeError, LookupError, TypeError)


def kept_or_read(files: Iterable[Path], read: Callable[[], _Read]) -> _Read:
    """Return what an earlier process has read from `files`, or `read()`, which is then kept for later ones.

    Raises what `read` does.
    """
    try:
        key = _key(files)
    except OSError:  # a file cannot be read
        return read()
    if key in _in_this_process:
        return _in_this_process[key]  # type: ignore[no-any-return]
    found = _in_this_process[key] = _of_another_process(key, read)
    while len(_in_this_process) > _MOST_HERE:
        del _in_this_process[next(iter(_in_this_process))]
    return found


def _of_another_process(key: str, read: Callable[[], _Read]) -> _Read:
    try:
        file = default_folder() / f"rules-{key}.pickle"
    except RuntimeError:  # nobody's home is known
        return read()
    with contextlib.suppress(*_UNUSABLE):  # it is read anew
        return _unpickled(file.read_bytes())  # type: ignore[no-any-return]
    found = read()
    with contextlib.suppress(OSError, OutputError):  # without a place to keep it, each process reads it
        _keep(file, pickle.dumps(found, protocol=pickle.HIGHEST_PROTOCOL))
    return found


def default_folder() -> Path:
    """Return the user's cache directory. Raises RuntimeError if nobody's home is known."""
    return Path(platformdirs.user_cache_dir("superopt"))


def _key(files: Iterable[Path]) -> str:
    state = hashlib.blake2b(f"{sys.version}\0{kernel_hash()}".encode(), digest_size=_DIGEST_BYTES)
    for file in [*sorted(Path(__file__).parent.glob("*.py")), *files]:
        content = file.read_bytes() if file.is_file() else b""
        state.update(f"\0{file.absolute()}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return state.hexdigest()


def _keep(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, _checksum(content), content)
    kept = sorted(file.parent.glob("rules-*.pickle"), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in kept[_MOST_FILES:]:
        old.unlink(missing_ok=True)


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


def _unpickled(content: bytes) -> Any:
    """Return the object in a file that `_keep` has written. Raises ValueError, UnpicklingError for any other."""
    checksum, content = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if checksum != _checksum(content):
        raise ValueError("damaged")
    with rare_collections():
        return _Unpickler(io.BytesIO(content)).load()


class _Unpickler(pickle.Unpickler):
    """Makes objects of the kinds that rules consist of, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class, or `Term.of`. Raises UnpicklingError for all else.

        Another dotted name would lead out of the module, to what it imports.
        """
        if (module, name) == (Term.__module__, Term.of.__qualname__):
            return Term.of
        if f"{module}.".startswith(_PACKAGES) and "." not in name:
            found = super().find_class(module, name)
            if isinstance(found, type) and found.__module__ == module:
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a rule")
