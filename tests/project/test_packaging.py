"""The project file and the README say what is so."""

from __future__ import annotations

import re
import tomllib

import superopt
from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_ci_runs_the_test_command_of_the_readme() -> None:
    commands = [line for line in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if "pytest" in line]
    assert len(commands) == 1
    assert commands[0].strip().splitlines()[-1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_every_dependency_has_its_reason() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start, end = lines.index("dependencies = ["), lines.index("[project.scripts]")
    above = ""
    for line in map(str.strip, lines[start + 1 : end]):
        # Plain onnxruntime shares the reason of the line above it.
        assert not line.startswith('"') or above.startswith("#") or line.startswith('"onnxruntime>='), line
        above = line


def test_scripts_and_python() -> None:
    assert PROJECT["scripts"].keys() == {"superopt", "optimize"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_runtime_is_required_exactly_once_everywhere() -> None:
    from packaging.requirements import Requirement

    needed = [Requirement(text) for text in PROJECT["dependencies"]]
    for system, machine, name in [
        ("linux", "x86_64", "onnxruntime-gpu"),
        ("win32", "AMD64", "onnxruntime-gpu"),
        ("linux", "aarch64", "onnxruntime"),
        ("darwin", "arm64", "onnxruntime"),
        ("win32", "ARM64", "onnxruntime"),
    ]:
        here = {"sys_platform": system, "platform_machine": machine}
        names = [r.name for r in needed if r.marker is None or r.marker.evaluate(here)]
        assert [n for n in names if n.startswith("onnxruntime")] == [name]


def test_prover_is_pinned_to_what_was_tested() -> None:
    z3 = next(text for text in PROJECT["dependencies"] if text.startswith("z3-solver"))
    assert re.search(r">=[\d.]+,<[\d.]+", z3)


def test_names_of_the_library() -> None:
    assert callable(superopt.optimize)
    assert set(superopt.__all__) == {"Options", "Result", "optimize"}
