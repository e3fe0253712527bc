"""The wheel, installed with its dependencies into an empty virtual environment, works away from the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import onnx
import pytest

from tests.support.models import branches
from tests.support.paths import ROOT


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that succeeds."""
    done = ended(*command, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def ended(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command, ended; nothing of this process's Python settings is inherited."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=600
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    return next(folder.glob("*.whl"))


def test_wheel_holds_rules_and_kernel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {f"superopt/rules/{path.relative_to(ROOT / 'rules')}" for path in (ROOT / "rules").rglob("*.rules")}
    assert shipped
    files = [path for package in ("superopt", "verify") for path in (ROOT / package).rglob("*.py")]
    sources = {path.relative_to(ROOT).as_posix() for path in files}
    assert sources >= {"superopt/ops/__init__.py", "verify/prove/__init__.py", "superopt/cli/__init__.py"}
    assert shipped | sources | {"superopt/rules/certificates.jsonl"} <= names
    assert {"superopt/py.typed", "verify/py.typed"} <= names
    assert {f"superopt/report/page/{name}" for name in ("report.html", "style.css", "script.js")} <= names
    assert not [name for name in names if name.startswith(("tests/", "scripts/", "rules/"))]


@pytest.mark.slow
def test_optimizes_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True, symlinks=os.name != "nt")
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    away = tmp_path / "away"
    away.mkdir()
    install = (scripts / "python", "-m", "pip", "install", "-q", "--no-compile")
    run(*install, wheel, cwd=away)
    onnx.save(branches(), away / "model.onnx")
    untimed = ("--cost", "analytic", "--device", "cpu", "--target-absent")  # so that noise decides nothing
    arguments = ("model.onnx", "-o", "fast.onnx", "--ep", "cpu", "--budget", "20", "--json", *untimed)
    without = ended(scripts / "optimize", *arguments, cwd=away)
    assert without.returncode == 2 and not (away / "fast.onnx").exists()
    *progress, last = without.stderr.splitlines()  # on a busy machine there is progress
    assert last.startswith("error: no ONNX Runtime is installed: pip install 'superopt[cpu]'")
    assert all(line.endswith(" ...") for line in progress)
    run(*install, f"{wheel}[cpu]", cwd=away)
    result = json.loads(run(scripts / "optimize", *arguments, cwd=away))
    assert result["changed"], result
    assert sum(result["operators_after"].values()) < sum(result["operators_before"].values())
    assert result["proof"]["steps"] > 0
    onnx.checker.check_model(away / "fast.onnx", full_check=True)
    assert run(scripts / "superopt", "rules", cwd=away).count("\n") > 10
    place = run(
        scripts / "python", "-c", "import superopt, verify; print(superopt.__file__, verify.__file__)", cwd=away
    )
    assert str(ROOT) not in place
