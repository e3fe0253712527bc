"""Output files: refused at once if they cannot be written, never partial, with their modes and links."""

from __future__ import annotations

import os
import resource
import socket
import stat
import sys
from pathlib import Path

import pytest

from superopt.files import OutputError, check_distinct, check_writable, replacing, write_text, write_whole

NO_FILE = "is a device, a pipe or a socket"


def refused(path: Path, size: int = 0) -> str:
    with pytest.raises(OutputError) as caught:
        check_writable(path, size)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(str(path))
    return message


def test_what_is_no_regular_file_is_refused_and_stays(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to null").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for name in ("pipe", "to null", "socket"):
        assert NO_FILE in refused(tmp_path / name)
        with pytest.raises(OutputError, match=NO_FILE):
            write_whole(tmp_path / name, b"new")
    assert NO_FILE in refused(Path("/dev/null"))
    assert "is a directory" in refused(tmp_path / "folder")
    assert stat.S_ISFIFO((tmp_path / "pipe").lstat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["folder", "pipe", "socket", "to null"]


def test_a_folder_that_takes_no_files_is_refused(tmp_path: Path) -> None:
    assert "is no folder to write to" in refused(tmp_path / "none" / "out.onnx")
    (tmp_path / "file").touch()
    assert "is no folder to write to" in refused(tmp_path / "file" / "out.onnx")
    (tmp_path / "circle").symlink_to("circle")
    assert "symbolic links" in refused(tmp_path / "circle")
    assert "cannot be written" in refused(tmp_path / ("o" * 300))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_file_system_that_takes_no_files_is_refused() -> None:
    assert "cannot be written" in refused(Path("/proc/out.onnx"))


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may write everywhere")
def test_missing_permissions_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "old").touch()
    (tmp_path / "old").chmod(0o444)
    assert "is read-only" in refused(tmp_path / "old")
    tmp_path.chmod(0o555)
    assert "Permission denied" in refused(tmp_path / "new")
    tmp_path.chmod(0o755)


def test_room_is_asked_for(tmp_path: Path) -> None:
    check_writable(tmp_path / "out", 1000)
    too_much = refused(tmp_path / "out", 1 << 50)
    assert "are free there" in too_much or "File too large" in too_much
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        check_writable(tmp_path / "out", 5000)
        assert "File too large" in refused(tmp_path / "out", 5001)
        with pytest.raises(OutputError, match="File too large"):
            write_whole(tmp_path / "out", b"x" * 5001)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == []


def test_names_that_the_file_system_takes(tmp_path: Path) -> None:
    for name in ("o" * 255, "ä" * 127, "größe 模型.onnx", "a\nb"):
        check_writable(tmp_path / name)
        write_text(tmp_path / name, name)
        assert (tmp_path / name).read_text() == name
        (tmp_path / name).unlink()
    assert os.listdir(tmp_path) == []


def test_a_leftover_stops_nothing(tmp_path: Path) -> None:
    leftover = tmp_path / ".superopt-01234567.tmp"
    leftover.touch(0o000)
    write_whole(tmp_path / "out", b"new")
    assert (tmp_path / "out").read_bytes() == b"new"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("other")])
def test_an_exception_leaves_all_as_it_was(tmp_path: Path, error: BaseException) -> None:
    (tmp_path / "out").write_bytes(b"old")
    expected = OutputError if isinstance(error, OSError) else type(error)

    def fail() -> None:
        with replacing(tmp_path / "out") as file:
            file.write(b"new")
            raise error

    with pytest.raises(expected):
        fail()
    assert (tmp_path / "out").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_the_old_content_stays_until_the_end(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"old")
    with replacing(tmp_path / "out") as file:
        file.write(b"new")
        file.flush()
        assert (tmp_path / "out").read_bytes() == b"old"
    assert (tmp_path / "out").read_bytes() == b"new"


def test_modes_are_kept(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_whole(tmp_path / "new", b"")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_whole(tmp_path / "new", b"again")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_links_stay(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("far/file")
    (tmp_path / "dangling").symlink_to("far/none")
    for link, target in (("link", "file"), ("dangling", "none")):
        check_writable(tmp_path / link)
        write_whole(tmp_path / link, b"new")
        assert (tmp_path / link).is_symlink()
        assert (tmp_path / "far" / target).read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path / "far")) == ["file", "none"]


def same(one: Path, other: Path) -> bool:
    message = ""
    try:
        check_distinct({"the result": one}, {"the model": other})
    except OutputError as error:
        message = str(error)
    assert message in ("", f"{one}: cannot be both the result and the model; name another file")
    return bool(message)


def test_one_file_under_two_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model.onnx"
    model.touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "hard").hardlink_to(model)
    (tmp_path / "folder").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name in ("link", "hard", "folder/model.onnx", "sub/../model.onnx", "folder/folder/link"):
        assert same(tmp_path / name, model), name
        assert same(Path(name), model), name
    assert not same(tmp_path / "other.onnx", model)
    assert not same(tmp_path / "sub" / "model.onnx", model)


def test_files_that_do_not_exist_yet(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to("new")
    (tmp_path / "folder").symlink_to(tmp_path)
    for name in ("new", "dangling", "folder/new", "New", "./new"):
        assert same(tmp_path / name, tmp_path / "new"), name
    assert not same(tmp_path / "other", tmp_path / "new")
    with pytest.raises(OutputError, match="cannot be both the result and the trace"):
        check_distinct({"the result": tmp_path / "new", "the trace": tmp_path / "NEW", "the report": None})
