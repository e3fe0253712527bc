"""Files of a killed process are removed by the next one; files in use, and files that are not ours, stay."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from superopt.files import TEMPORARY, replacing, write_text
from superopt.temporary import hold, temporary_folder
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing is known to be stale there")

FOLDER = """
import sys, time
from pathlib import Path
from superopt.temporary import temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder:
    (folder / "big").write_bytes(bytes(1000))
    print(folder, flush=True)
    time.sleep(600)
"""
FILE = """
import sys, time
from pathlib import Path
from superopt.files import replacing
with replacing(Path(sys.argv[1]) / "out") as file:
    print(flush=True)
    time.sleep(600)
"""


def running(script: str, parent: Path) -> subprocess.Popen[str]:
    """Start `script`, and return it when it has printed a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(parent)], cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert process.stdout is not None and process.stdout.readline()
    return process


def names(parent: Path) -> set[str]:
    return {path.name for path in parent.iterdir()}


def test_a_folder_is_removed_at_the_end(tmp_path: Path) -> None:
    with temporary_folder(tmp_path) as folder:
        (folder / "file").touch()
    assert names(tmp_path) == set()


def test_a_folder_stays_while_its_process_lives(tmp_path: Path) -> None:
    with running(FOLDER, tmp_path) as process:
        (other,) = names(tmp_path)
        with temporary_folder(tmp_path) as folder:
            assert names(tmp_path) == {other, folder.name}
        process.kill()
        process.wait()
        assert names(tmp_path) == {other}
        with temporary_folder(tmp_path) as folder:
            assert names(tmp_path) == {folder.name}


def test_a_folder_stays_while_a_process_holds_it(tmp_path: Path) -> None:
    with running(FOLDER, tmp_path) as process:
        (other,) = names(tmp_path)
        hold(tmp_path / other)
        process.kill()
        process.wait()
        with temporary_folder(tmp_path):
            assert other in names(tmp_path)


def test_other_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "superopt.lock").touch()
    (tmp_path / "superopt-models").mkdir()
    (tmp_path / "superopt-notes").touch()
    (tmp_path / "superopt-link").symlink_to(tmp_path / "elsewhere")
    before = names(tmp_path)
    with temporary_folder(tmp_path):
        pass
    assert names(tmp_path) == before


def test_a_file_stays_while_its_process_lives(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(FILE, tmp_path) as process:
        (other,) = names(tmp_path)
        write_text(out, "new")
        assert names(tmp_path) == {other, "out"}
        process.kill()
        process.wait()
        with replacing(out):
            assert len(list(tmp_path.glob(TEMPORARY))) == 1 and other not in names(tmp_path)
    assert names(tmp_path) == {"out"}
