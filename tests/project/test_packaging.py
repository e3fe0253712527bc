"""The project file and the README say what is so."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version

import superopt
from superopt.runtime.installed import OLDEST
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
        assert not line.startswith('"') or above.startswith("#"), line
        above = line


def test_scripts_and_python() -> None:
    assert PROJECT["scripts"].keys() == {"superopt", "optimize"}
    assert PROJECT["requires-python"] == ">=3.11"


def test_runtimes_are_extras_only() -> None:
    """A runtime that is required would be laid over the one that a user has."""
    from packaging.requirements import Requirement

    extras = PROJECT["optional-dependencies"]
    for name, needed in {"": PROJECT["dependencies"], **extras}.items():
        runtimes = [need for need in map(Requirement, needed) if "onnxruntime" in need.name]
        assert [need.name for need in runtimes] == {"cpu": ["onnxruntime"], "cuda": ["onnxruntime-gpu"]}.get(name, [])
        assert all(str(need.specifier) == ">={}.{}".format(*OLDEST) for need in runtimes)
    assert "superopt[cpu,test]" in extras["dev"]


def test_commands_of_the_readme_install_a_runtime() -> None:
    installs = re.findall(r"pip install -q -e (\S+)", README)
    assert installs == ["'.[cpu]'", "'.[dev]'"]


def test_prover_is_pinned_to_what_was_tested() -> None:
    z3 = next(text for text in PROJECT["dependencies"] if text.startswith("z3-solver"))
    assert re.search(r">=[\d.]+,<[\d.]+", z3)


def test_names_of_the_library() -> None:
    """In a new process, in which nothing has imported a module yet."""
    program = "import superopt; print(superopt.__version__, *(getattr(superopt, name) for name in superopt.__all__))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.startswith(version("superopt") + " ") and "<module 'superopt.check'" in done.stdout
    assert {*superopt.__all__, "__version__"} <= set(dir(superopt)) and not hasattr(superopt, "optimise")


def test_type_checkers_see_the_names_of_the_library() -> None:
    tree = ast.parse((ROOT / "superopt" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0]
    seen = {alias.name for node in imports for alias in node.names}
    assert set(superopt.__all__) <= seen
