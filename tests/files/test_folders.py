"""Folders of files: old and new files never mix."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from superopt import folders
from superopt.files import OutputError
from superopt.folders import check_folder, write_files

FILES = {"a.rules": b"a", "certificates.jsonl": b"c"}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def old_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    (folder / "notes" / "more").mkdir(parents=True)
    for name in ("a.rules", "b.rules", "README.md", "notes/more/x"):
        (folder / name).write_bytes(b"old " + name.encode())
    (folder / "a.rules").chmod(0o604)
    (folder / "link").symlink_to("README.md")
    return folder


def check_replaced(folder: Path) -> None:
    kept = {name: b"old " + name.encode() for name in ("README.md", "notes/more/x")}
    assert contents(folder) == {**FILES, **kept, "link": kept["README.md"]}
    assert (folder / "link").is_symlink()
    assert (folder / "a.rules").stat().st_mode & 0o777 == 0o604


def test_a_new_folder(tmp_path: Path) -> None:
    write_files(tmp_path / "deep" / "rules", FILES, set(), tmp_path / "scratch")
    assert contents(tmp_path / "deep" / "rules") == FILES


def test_a_folder_is_replaced_and_keeps_what_is_not_ours(tmp_path: Path) -> None:
    write_files(old_folder(tmp_path), FILES, {"b.rules"}, tmp_path / "scratch")
    check_replaced(tmp_path / "rules")


def test_without_an_exchange_the_result_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_exchanged", lambda one, two: False)
    write_files(old_folder(tmp_path), FILES, {"b.rules"}, tmp_path / "scratch")
    check_replaced(tmp_path / "rules")


def test_the_folder_of_the_process_stays_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old_folder(tmp_path))
    write_files(tmp_path / "rules", FILES, {"b.rules"}, tmp_path / "scratch")
    check_replaced(Path.cwd())
    assert os.path.samefile(".", tmp_path / "rules")


def test_a_link_in_the_folder_stays(tmp_path: Path) -> None:
    folder = old_folder(tmp_path)
    (tmp_path / "elsewhere").write_bytes(b"old")
    (folder / "certificates.jsonl").symlink_to("../elsewhere")
    write_files(folder, FILES, {"b.rules"}, tmp_path / "scratch")
    assert (tmp_path / "elsewhere").read_bytes() == FILES["certificates.jsonl"]
    check_replaced(folder)


def test_what_cannot_be_a_folder_of_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is a file, not a folder"):
        check_folder(tmp_path / "file", {"a.rules"})
    (tmp_path / "rules" / "a.rules").mkdir(parents=True)
    with pytest.raises(OutputError, match="is a directory"):
        check_folder(tmp_path / "rules", {"a.rules"})
    check_folder(tmp_path / "none", {"a.rules"})


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the work, and without a trace: the first missing folder is tried where it would be."""
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="file: is a file, not a folder"):
        check_folder(tmp_path / "file" / "more" / "rules", {"a.rules"})
    (tmp_path / "rules").mkdir()
    check_folder(tmp_path / "deep" / "rules", {"a.rules"})
    tried: list[Path] = []
    monkeypatch.setattr(folders, "check_writable", tried.append)
    check_folder(tmp_path / "deep" / "rules", {"a.rules"})
    assert tried == [tmp_path / "deep"] and sorted(path.name for path in tmp_path.iterdir()) == ["file", "rules"]
