"""Folders of output files that belong together: replaced at one moment, so that old and new files never mix."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Mapping, Set
from pathlib import Path

from superopt.files import OutputError, check_writable, write_whole

__all__ = ["check_folder", "write_files"]

_CURRENT_FOLDER, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def check_folder(folder: Path, names: Set[str]) -> None:
    """Raise OutputError if files called `names` cannot be written to `folder`, or if it cannot be made."""
    first, path = None, folder  # the first folder that is missing
    while not path.exists():
        first, path = path, path.absolute().parent
    if not path.is_dir():
        raise OutputError(f"{path}: is a file, not a folder to write to; name another folder")
    for file in [folder / name for name in sorted(names)] if first is None else [first]:
        check_writable(file)


def write_files(folder: Path, files: Mapping[str, bytes], stale: Set[str], scratch: Path) -> None:
    """Give `folder` the content `files` (by name), and remove the files called `stale`; its other content stays.

    The new folder is made under `scratch` and exchanged with the old one, which may be removed together with `scratch`.
    If the system cannot exchange folders, or if this process works in the folder or links lead out of it, the files are
    replaced one by one, in order. Raises OSError.
    """
    new = scratch / "files"
    if new.exists():
        shutil.rmtree(new)
    new.mkdir(parents=True)
    for name, content in files.items():
        write_whole(new / name, content)
        if (folder / name).exists():
            shutil.copymode(folder / name, new / name)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        os.rename(new, folder)
    elif not _is_rooted(folder, files) and _exchanged(_with_rest(folder, new, {*files, *stale}), folder):
        return
    else:
        for name, content in files.items():
            write_whole(folder / name, content)
        for name in stale:
            (folder / name).unlink()


def _is_rooted(folder: Path, files: Mapping[str, bytes]) -> bool:
    """Return True if another folder cannot take the place of `folder` without a loss."""
    return Path.cwd().is_relative_to(folder) or any((folder / name).is_symlink() for name in files)


def _with_rest(folder: Path, new: Path, but: Set[str]) -> Path:
    """Add the entries of `folder` to `new`, except those called `but`, and return `new`."""

    def left_out(place: str, names: list[str]) -> set[str]:
        return {name for name in names if name in but} if Path(place) == folder else set()

    return Path(shutil.copytree(folder, new, True, left_out, _linked, dirs_exist_ok=True))


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)
    return target


def _exchanged(one: Path, two: Path) -> bool:
    """Exchange two folders at one moment. Return False if the system cannot do so."""
    if sys.platform != "linux":
        return False
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    if call is None:
        return False
    return bool(call(_CURRENT_FOLDER, os.fsencode(one), _CURRENT_FOLDER, os.fsencode(two), _EXCHANGE) == 0)
